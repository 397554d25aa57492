SELECT taken, tx, seq, state FROM webhook_begin($1, $2)
