SELECT n, outcome, live_id, first_id, created_ms, gone_by, batch,
       CASE WHEN live_id IS NULL THEN NULL
            WHEN outcome IN ('duplicate', 'repeated', 'reused') THEN buyer_value(slot, voucher, live_id)
            ELSE live_before(slot, voucher, own_id, live_id) END AS live,
       CASE WHEN outcome IN ('ended', 'gone') THEN ended_nth(slot, voucher, own_id) END AS nth,
       CASE WHEN live_id IS NOT NULL THEN live_voucher(slot, live_id) END AS live_voucher
  FROM (SELECT p.*, ($1::integer[])[batch] AS slot, ($2::bigint[])[batch] AS voucher,
               ($5::uuid[])[n + (SELECT coalesce(sum(c), 0) FROM unnest(($4::integer[])[:batch - 1]) AS c)] AS own_id
          FROM place_batches($1::integer[], $2::bigint[], $3::bigint[], $4::integer[], $5::uuid[], $6::text[], $7::text[],
                             $8::smallint[], $9::text[], $10::integer[]) p) placed
