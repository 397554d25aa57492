SELECT n, outcome, live_id, first_id, created_ms, gone_by, batch,
       CASE WHEN outcome IN ('duplicate', 'repeated', 'reused')
            THEN buyer_value(($1::integer[])[batch], ($2::bigint[])[batch], live_id) END AS live,
       CASE WHEN outcome IN ('ended', 'gone')
            THEN ended_nth(($1::integer[])[batch], ($2::bigint[])[batch],
                           ($5::uuid[])[n + (SELECT coalesce(sum(c), 0) FROM unnest(($4::integer[])[:batch - 1]) AS c)])
       END AS nth,
       CASE WHEN live_id IS NOT NULL THEN live_voucher(($1::integer[])[batch], live_id) END AS live_voucher
  FROM place_batches($1::integer[], $2::bigint[], $3::bigint[], $4::integer[], $5::uuid[], $6::text[], $7::text[],
                     $8::smallint[], $9::text[], $10::integer[])
