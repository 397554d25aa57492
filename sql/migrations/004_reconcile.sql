-- What reconciling needs: proof of what Redis has lost, a quick way to a voucher's live orders, a place for
-- what cannot be settled.

-- The newest journal entry of which an order was written, under the current epoch. A Redis that knows only
-- older ones has lost data.
ALTER TABLE seckill_voucher
    ADD COLUMN journal_ms  bigint NOT NULL DEFAULT 0,
    ADD COLUMN journal_seq bigint NOT NULL DEFAULT 0;

-- Rebuilding walks along this. Ids grow with time, so inserts stay at the right edge.
CREATE INDEX voucher_order_by_voucher ON voucher_order (voucher_id, id) WHERE status IN ('unpaid', 'paid');

-- Journal entries that could not be settled, as they were. They are never deleted.
CREATE TABLE dead_letter (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    voucher_id bigint      NOT NULL,
    journal_id text        NOT NULL,
    raw        bytea       NOT NULL, -- the entry's fields and values, each as <length>:<bytes>,
    orders     text,                 -- 'id user,id user,...'; NULL: it cannot be read
    reason     text        NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    ended_at   timestamptz           -- written off
);
CREATE UNIQUE INDEX dead_letter_once ON dead_letter (voucher_id, journal_id, md5(raw));
CREATE INDEX dead_letter_open ON dead_letter (voucher_id) WHERE ended_at IS NULL;

-- The orders in dead letters that nobody has decided yet. Each holds its unit, and its user, once.
CREATE VIEW held_order AS
SELECT DISTINCT ON (d.voucher_id, id)
       d.id AS letter, d.voucher_id, split_part(o, ' ', 1)::uuid AS id, split_part(o, ' ', 2) COLLATE "C" AS user_id
  FROM dead_letter d, unnest(string_to_array(d.orders, ',')) AS o
 WHERE d.ended_at IS NULL
   AND NOT EXISTS (SELECT FROM voucher_order own WHERE own.id = split_part(o, ' ', 1)::uuid)
   AND NOT EXISTS (SELECT FROM voucher_order live
                    WHERE live.user_id = split_part(o, ' ', 2) AND live.voucher_id = d.voucher_id
                      AND live.status IN ('unpaid', 'paid'))
 ORDER BY d.voucher_id, id, letter;

-- Places a batch of orders for one voucher: one round trip, one outcome for each order.
--
--   placed          inserted now, one unit taken
--   already_placed  this very id was settled before (live or cancelled): nothing is taken again
--   duplicate       this id is kept as refused and holds no unit; live_id is the user's live order, if any
--   sold_out        no unit is left; this id is kept as refused
--   stale           the epoch is not the voucher's: the caller has been fenced off, nothing is done
--   clash           the id belongs to somebody else's order: never seen, never guessed away
--
-- Idempotent by order id: settling a batch again gives the same end. The voucher's row lock, taken first
-- and once, orders all batches of a voucher. p_journal is the newest journal id of the batch.
DROP FUNCTION place_orders(bigint, bigint, uuid[], text[]);
CREATE FUNCTION place_orders(p_voucher bigint, p_epoch bigint, p_ids uuid[], p_users text[], p_journal text DEFAULT NULL)
RETURNS TABLE (n integer, outcome text, live_id uuid)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_stock integer;
    v_epoch bigint;
    v_new   uuid[];
    v_taken integer;
    v_ms    bigint := coalesce(split_part(p_journal, '-', 1), '0')::bigint;
    v_seq   bigint := coalesce(split_part(p_journal, '-', 2), '0')::bigint;
BEGIN
    SELECT v.stock, v.epoch INTO v_stock, v_epoch
      FROM seckill_voucher v WHERE v.id = p_voucher FOR UPDATE;
    IF NOT FOUND OR p_epoch <> v_epoch THEN
        RETURN QUERY SELECT i, 'stale'::text, NULL::uuid FROM generate_subscripts(p_ids, 1) AS i;
        RETURN;
    END IF;

    WITH inserted AS (
        INSERT INTO voucher_order (id, user_id, voucher_id)
        SELECT o.id, o.user_id, p_voucher FROM unnest(p_ids, p_users) AS o (id, user_id)
        ON CONFLICT DO NOTHING
        RETURNING id)
    SELECT coalesce(array_agg(id), '{}') INTO v_new FROM inserted;

    v_taken := least(cardinality(v_new), v_stock);
    IF v_taken > 0 THEN
        UPDATE seckill_voucher v
           SET stock = stock - v_taken,
               journal_ms = CASE WHEN (v_ms, v_seq) > (journal_ms, journal_seq) THEN v_ms ELSE journal_ms END,
               journal_seq = CASE WHEN (v_ms, v_seq) > (journal_ms, journal_seq) THEN v_seq ELSE journal_seq END
         WHERE v.id = p_voucher;
    END IF;
    IF v_taken = cardinality(p_ids) THEN
        RETURN QUERY SELECT i, 'placed'::text, NULL::uuid FROM generate_subscripts(p_ids, 1) AS i;
        RETURN;
    END IF;

    -- The uncommon road. First the orders that came after the last unit ...
    UPDATE voucher_order SET status = 'refused', reason = 'SOLD_OUT'
     WHERE id IN (SELECT o.id FROM unnest(p_ids) WITH ORDINALITY AS o (id, n)
                   WHERE o.id = ANY (v_new) GROUP BY o.id ORDER BY min(o.n) OFFSET v_taken);
    -- ... then those that met a live order of their user, or one that was just refused: kept, so that their
    -- URL can say why.
    INSERT INTO voucher_order (id, user_id, voucher_id, status, reason)
    SELECT o.id, o.user_id, p_voucher, 'refused',
           CASE WHEN EXISTS (SELECT FROM voucher_order live
                              WHERE live.user_id = o.user_id AND live.voucher_id = p_voucher
                                AND live.status IN ('unpaid', 'paid'))
                THEN 'ALREADY_ORDERED' ELSE 'SOLD_OUT' END
      FROM unnest(p_ids, p_users) AS o (id, user_id)
    ON CONFLICT DO NOTHING;

    RETURN QUERY
    SELECT o.n::integer,
           CASE WHEN own.user_id <> o.user_id OR own.voucher_id <> p_voucher THEN 'clash'
                WHEN own.reason = 'SOLD_OUT' THEN 'sold_out'
                WHEN own.status = 'refused' THEN 'duplicate'
                WHEN own.id = ANY (v_new) THEN 'placed'
                ELSE 'already_placed'
           END,
           live.id
      FROM unnest(p_ids, p_users) WITH ORDINALITY AS o (id, user_id, n)
      JOIN voucher_order own ON own.id = o.id
      LEFT JOIN voucher_order live
             ON live.user_id = o.user_id AND live.voucher_id = p_voucher
            AND live.status IN ('unpaid', 'paid') AND live.id <> o.id
     ORDER BY o.n;
END
$$;

-- Keeps orders as refused that were accepted once and hold no unit any more, each with its reason. An order
-- that PostgreSQL knows already stays what it is. Returns what each one is now, as place_orders() does:
-- already_placed or duplicate.
CREATE FUNCTION refuse_orders(p_voucher bigint, p_ids uuid[], p_users text[], p_reasons text[])
RETURNS TABLE (n integer, outcome text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    INSERT INTO voucher_order (id, user_id, voucher_id, status, reason)
    SELECT o.id, o.user_id, p_voucher, 'refused', o.reason
      FROM unnest(p_ids, p_users, p_reasons) AS o (id, user_id, reason)
    ON CONFLICT DO NOTHING;
    RETURN QUERY
    SELECT o.n::integer, CASE WHEN own.status = 'refused' THEN 'duplicate' ELSE 'already_placed' END
      FROM unnest(p_ids) WITH ORDINALITY AS o (id, n)
      JOIN voucher_order own ON own.id = o.id
     ORDER BY o.n;
END
$$;

-- Ends a dead letter for good: its orders are refused. Returns those that are, because they may have to be
-- taken out of Redis; said again, it returns the same.
CREATE FUNCTION write_off(p_voucher bigint, p_letter bigint)
RETURNS TABLE (id uuid, user_id text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_orders text;
BEGIN
    UPDATE dead_letter d SET ended_at = coalesce(ended_at, now())
     WHERE d.id = p_letter AND d.voucher_id = p_voucher
    RETURNING orders INTO v_orders;
    INSERT INTO voucher_order (id, user_id, voucher_id, status, reason)
    SELECT split_part(o, ' ', 1)::uuid, split_part(o, ' ', 2), p_voucher, 'refused', 'WRITTEN_OFF'
      FROM unnest(string_to_array(v_orders, ',')) AS o
    ON CONFLICT DO NOTHING;
    RETURN QUERY
    SELECT own.id, own.user_id
      FROM unnest(string_to_array(v_orders, ',')) AS o
      JOIN voucher_order own ON own.id = split_part(o, ' ', 1)::uuid AND own.reason = 'WRITTEN_OFF';
END
$$;

-- A dead letter as the interface shows it.
CREATE FUNCTION dead_letter_json(d dead_letter) RETURNS json
LANGUAGE sql STABLE AS $$
    SELECT json_strip_nulls(json_build_object(
        'id', d.id::text, 'voucher_id', d.voucher_id::text, 'journal_id', d.journal_id, 'raw', encode(d.raw, 'hex'),
        'orders', (SELECT json_agg(json_build_object('id', split_part(o, ' ', 1), 'user_id', split_part(o, ' ', 2)))
                     FROM unnest(string_to_array(d.orders, ',')) AS o),
        'reason', d.reason, 'created_at', rfc3339(d.created_at)))
$$;

GRANT SELECT, INSERT, UPDATE ON dead_letter TO seckill_service;
GRANT SELECT ON held_order TO seckill_service;
REVOKE EXECUTE ON FUNCTION place_orders(bigint, bigint, uuid[], text[], text),
                           refuse_orders(bigint, uuid[], text[], text[]), write_off(bigint, bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION place_orders(bigint, bigint, uuid[], text[], text),
                          refuse_orders(bigint, uuid[], text[], text[]), write_off(bigint, bigint) TO seckill_service;
