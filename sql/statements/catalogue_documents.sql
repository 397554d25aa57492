SELECT c.change, c.voucher_id, (SELECT document FROM find_voucher(c.voucher_id))
  FROM catalogue_changes($1::bigint, $2::integer, $3::bigint, true) c
 WHERE c.voucher_id IS NOT NULL
 ORDER BY c.change
