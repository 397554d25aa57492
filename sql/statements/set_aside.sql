-- Keeps what cannot be settled, unless all its orders are in letters that wait for a decision: a letter that was tried
-- again in vain. Saying it again changes nothing.
INSERT INTO dead_letter (voucher_id, journal_id, raw, orders, reason)
SELECT $1::bigint, $2, $3::bytea, $4, $5
 WHERE $4::text IS NULL
    OR EXISTS (SELECT unnest(string_to_array($4, ','))
               EXCEPT
               SELECT unnest(string_to_array(d.orders, ','))
                 FROM dead_letter d
                WHERE d.voucher_id = $1::bigint AND d.ended_at IS NULL)
ON CONFLICT DO NOTHING
