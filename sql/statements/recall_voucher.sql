SELECT recall_voucher($1::bigint)
