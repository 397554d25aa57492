SELECT id, documents FROM find_payment($1)
