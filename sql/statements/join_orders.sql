SELECT n, outcome, order_id, place,
       CASE WHEN outcome = 'already_ordered' THEN live_voucher($1::integer, order_id) END AS live_voucher, joined
  FROM join_orders($1::integer, $2::bigint, $3::uuid[], $4::text[], $5::text[], $6::integer[])
