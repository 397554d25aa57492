-- The oldest dead letters of a voucher that wait for a decision, as many as fit into an answer of about 2 MB, and whether
-- there are more. 4096 is what dead_letter_json() shows of the raw bytes, in hex; an order's JSON is about twice as long
-- as its text.
SELECT coalesce(json_agg(dead_letter_json(letter) ORDER BY (letter).id) FILTER (WHERE shown), '[]'),
       coalesce(bool_or(NOT shown), false)
  FROM (SELECT letter, place = 1 OR (place <= 1000 AND bytes <= 2000000) AS shown
          FROM (SELECT d AS letter, row_number() OVER by_age AS place,
                       sum(300 + 2 * least(octet_length(d.raw), 4096) + 2 * coalesce(octet_length(d.orders), 0))
                           OVER by_age AS bytes
                  FROM dead_letter d
                 WHERE d.voucher_id = $1::bigint AND d.ended_at IS NULL
                   AND (d.orders IS NULL OR d.id IN (SELECT letter FROM held_order WHERE voucher_id = $1::bigint))
                WINDOW by_age AS (ORDER BY d.id)
                 LIMIT 1001) oldest) listed
