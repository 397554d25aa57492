SELECT n, outcome, CASE WHEN outcome = 'ended' THEN ended_nth($1::integer, $2::bigint, ($3::uuid[])[n]) END AS nth
  FROM refuse_orders($1::integer, $2::bigint, $3::uuid[], $4::text[], $5::text[], $6::smallint[], $7::integer[])
