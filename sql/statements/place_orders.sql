SELECT n, outcome, live_id, first_id, created_ms, gone_by, 1 AS batch,
       CASE WHEN live_id IS NULL THEN NULL
            WHEN outcome IN ('duplicate', 'repeated', 'reused') THEN buyer_value($1::integer, $2::bigint, live_id)
            ELSE live_before($1::integer, $2::bigint, ($4::uuid[])[n], live_id) END AS live,
       CASE WHEN outcome IN ('ended', 'gone') THEN ended_nth($1::integer, $2::bigint, ($4::uuid[])[n]) END AS nth,
       CASE WHEN live_id IS NOT NULL THEN live_voucher($1::integer, live_id) END AS live_voucher
  FROM place_orders($1::integer, $2::bigint, $3::bigint, $4::uuid[], $5::text[], $6, $7::smallint[], $8::text[],
                    $9::integer)
