-- Dead letters: what cannot be settled, until it is decided. Each of their orders holds its unit, and its user.

-- The orders in open letters that are not decided, each once. OFFSET 0 keeps the planner at looking the few orders up
-- by index, one by one: as a join it may read all orders ever written, as long as it has no statistics of the letters;
-- slot + 0 keeps it at the index that the user stands first in.
CREATE VIEW held_order AS
SELECT DISTINCT ON (d.voucher_id, d.slot, id)
       d.id AS letter, d.slot, d.voucher_id, split_part(o, ' ', 1)::uuid AS id,
       split_part(o, ' ', 2) COLLATE "C" AS user_id,
       coalesce(nullif(split_part(o, ' ', 3), ''), '1')::smallint AS quantity,
       nullif(split_part(o, ' ', 4), '') AS request_key
  FROM dead_letter d, unnest(string_to_array(d.orders, ',')) AS o
 WHERE d.ended_at IS NULL
   AND NOT EXISTS (SELECT FROM voucher_order own
                    WHERE own.slot = d.slot AND own.voucher_id = d.voucher_id
                      AND own.id = split_part(o, ' ', 1)::uuid OFFSET 0)
   AND NOT EXISTS (SELECT FROM voucher_order live
                    WHERE live.user_id = split_part(o, ' ', 2) AND live.voucher_id = d.voucher_id
                      AND live.slot + 0 = d.slot AND live.status IN ('unpaid', 'paid')
                   OFFSET 0)
 ORDER BY d.voucher_id, d.slot, id, letter;

-- Keeps what cannot be settled, unless all its orders are in letters that wait for a decision: a letter that was tried
-- again in vain. Repeating it changes nothing. Returns whether a letter was added.
CREATE FUNCTION set_aside(p_slot integer, p_voucher bigint, p_journal text, p_raw bytea, p_orders text, p_reason text,
                          p_offer integer DEFAULT 0)
RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO dead_letter (slot, voucher_id, journal_id, raw, orders, reason, offer)
    SELECT p_slot, p_voucher, p_journal, p_raw, p_orders, p_reason, p_offer
     WHERE p_orders IS NULL
        OR EXISTS (SELECT unnest(string_to_array(p_orders, ','))
                   EXCEPT
                   SELECT unnest(string_to_array(d.orders, ','))
                     FROM dead_letter d
                    WHERE d.voucher_id = p_voucher AND d.slot = p_slot AND d.ended_at IS NULL)
    ON CONFLICT DO NOTHING;
    RETURN FOUND;
END
$$;

-- A letter's orders, whether it waits for a decision, and the offer of its orders.
CREATE FUNCTION find_dead_letter(p_slot integer, p_voucher bigint, p_letter bigint)
RETURNS TABLE (orders text, waits boolean, offer integer)
LANGUAGE sql STABLE AS $$
    SELECT d.orders, d.ended_at IS NULL, d.offer
      FROM dead_letter d WHERE d.voucher_id = p_voucher AND d.slot = p_slot AND d.id = p_letter
$$;

-- Ends a dead letter: its orders are refused. Returns those that are, because they may have to be taken out of Redis;
-- repeated, it returns the same.
CREATE FUNCTION write_off(p_slot integer, p_voucher bigint, p_letter bigint)
RETURNS TABLE (id uuid, user_id text, quantity smallint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_orders text;
    v_offer  integer;
BEGIN
    UPDATE dead_letter d SET ended_at = coalesce(ended_at, now())
     WHERE d.id = p_letter AND d.voucher_id = p_voucher AND d.slot = p_slot
    RETURNING d.orders, d.offer INTO v_orders, v_offer;
    INSERT INTO voucher_order (id, slot, user_id, voucher_id, quantity, offer, status, reason)
    SELECT split_part(o, ' ', 1)::uuid, p_slot, split_part(o, ' ', 2), p_voucher,
           coalesce(nullif(split_part(o, ' ', 3), ''), '1')::smallint, v_offer, 'refused', 'WRITTEN_OFF'
      FROM unnest(string_to_array(v_orders, ',')) AS o
    ON CONFLICT DO NOTHING;
    RETURN QUERY
    SELECT own.id, own.user_id, own.quantity
      FROM unnest(string_to_array(v_orders, ',')) AS o
     CROSS JOIN LATERAL (SELECT w.id, w.user_id, w.quantity, w.reason FROM voucher_order w
                          WHERE w.slot = p_slot AND w.voucher_id = p_voucher
                            AND w.id = split_part(o, ' ', 1)::uuid OFFSET 0) own
     WHERE own.reason = 'WRITTEN_OFF';
END
$$;

-- Ends the letters all of whose orders are known to PostgreSQL by now, or wait in an older letter. held_order stays as
-- it is: it has left them out all along, and has less to look through. An order that PostgreSQL does not know is in a
-- letter that waits, before and after: the oldest of those that have it. Returns how many ended.
CREATE FUNCTION end_settled_letters() RETURNS bigint
LANGUAGE sql AS $$
    WITH ended AS (
        UPDATE dead_letter
           SET ended_at = now()
         WHERE ended_at IS NULL AND orders IS NOT NULL
           AND id NOT IN (SELECT DISTINCT ON (d.voucher_id, d.slot, o) d.id
                            FROM dead_letter d, unnest(string_to_array(d.orders, ',')) AS o
                           WHERE d.ended_at IS NULL
                             AND NOT EXISTS (SELECT FROM voucher_order own
                                              WHERE own.slot = d.slot AND own.voucher_id = d.voucher_id
                                                AND own.id = split_part(o, ' ', 1)::uuid OFFSET 0)
                           ORDER BY d.voucher_id, d.slot, o, d.id)
        RETURNING id)
    SELECT count(*) FROM ended
$$;
