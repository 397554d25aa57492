SELECT document, document->>'status' FROM find_replicated_order($1::integer, $2::uuid, $3) AS document
