SELECT d.due, d.walked_to, d.next_ms, d.now_ms
  FROM unnest($1::integer[], $2::bigint[], $3::uuid[]) WITH ORDINALITY AS o (slot, voucher, walked_from, n)
 CROSS JOIN LATERAL due_orders(o.slot, o.voucher, o.walked_from, $4::integer) d
 ORDER BY o.n
