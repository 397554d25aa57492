SELECT webhook_operate($1, $2)
