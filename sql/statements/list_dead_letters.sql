-- The dead letters of a voucher that wait for a decision.
SELECT coalesce(json_agg(dead_letter_json(d) ORDER BY d.id), '[]')
  FROM (SELECT * FROM dead_letter d
         WHERE voucher_id = $1::bigint AND ended_at IS NULL
           AND (orders IS NULL OR EXISTS (SELECT FROM held_order h WHERE h.letter = d.id))
         ORDER BY id
         LIMIT 1000) d
