-- Ends the letters all of whose orders are known to PostgreSQL by now, or wait in an older letter. held_order stays as
-- it is: it has left them out all along, and has less to look through. An order that PostgreSQL does not know is in a
-- letter that waits, before and after: the oldest of those that have it.
UPDATE dead_letter
   SET ended_at = now()
 WHERE ended_at IS NULL AND orders IS NOT NULL
   AND id NOT IN (SELECT DISTINCT ON (d.voucher_id, o) d.id
                    FROM dead_letter d, unnest(string_to_array(d.orders, ',')) AS o
                   WHERE d.ended_at IS NULL
                     AND NOT EXISTS (SELECT FROM voucher_order own WHERE own.id = split_part(o, ' ', 1)::uuid)
                   ORDER BY d.voucher_id, o, d.id)
