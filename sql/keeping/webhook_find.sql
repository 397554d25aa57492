SELECT tx, seq, state FROM webhook_find($1)
