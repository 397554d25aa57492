SELECT document, document->>'status' FROM find_order($1::integer, $2::uuid, $3) AS document
