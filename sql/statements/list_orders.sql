SELECT l.id, l.document, l.voucher_id, c.newest_voucher
  FROM catalogue_changes(9223372036854775807, 0) c
  LEFT JOIN list_orders($1, $2::uuid, $3::integer, $4::uuid[], $5::bigint[]) l ON true
 ORDER BY l.document IS NULL, l.id DESC
