SELECT id, document FROM troubles($1::integer)
