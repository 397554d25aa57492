SELECT document, document->>'status' FROM find_any_order($1::integer, $2::uuid) AS document
