-- A unit that returns goes to the first who waits, in the transaction that ends its order: the unit never gets into the
-- stock, and Redis never sees it. So the sale does not open for a moment, in which who polls fastest would win. This is a
-- promotion. It lasts as long as the line: nothing is promoted once the sale is over.
--
-- Units that get into the stock although users wait go the same way by an entry of the move 'promoted': note_return.lua
-- takes them, under ids of their own. Of those entries the newest is remembered, so that no unit is given away twice: one
-- that found nobody may have given its units back to Redis.
ALTER TABLE voucher_line
    ADD COLUMN epoch bigint NOT NULL DEFAULT 0, ADD COLUMN journal_ms bigint NOT NULL DEFAULT 0, -- of that entry
    ADD COLUMN journal_seq bigint NOT NULL DEFAULT 0;
ALTER TABLE voucher_order
    ADD COLUMN heir_of uuid,              -- of a promoted order: the one whose unit it got, or the id under which it was taken
    ADD COLUMN given_by text COLLATE "C"; -- by which entry: its journal id '@' epoch; '': a rebuild. NULL: it was not promoted
CREATE INDEX voucher_order_heir ON voucher_order (slot, voucher_id, heir_of) WHERE heir_of IS NOT NULL;
-- A promoted order is older than its time to pay, and an extended one has more: the walk of due_orders() is not for them.
CREATE INDEX voucher_order_due ON voucher_order (slot, voucher_id, due_at) WHERE status = 'unpaid' AND due_at IS NOT NULL;

-- ---- promotion ----

-- When a promoted order is due: as any after its placement, but near the end of the sale after half of what is left, so
-- that who does not pay passes the unit on before the end. A minute at least, where orders have as much. NULL: orders of
-- the voucher do not expire.
CREATE FUNCTION promoted_until(v seckill_voucher) RETURNS timestamptz
LANGUAGE sql STABLE AS $$
    SELECT now() + make_interval(secs => least(v.pay_within_s, greatest(60, extract(epoch FROM v.end_at - now()) / 2)))
     WHERE v.pay_within_s > 0
$$;

-- Gives units of the stock to the first who wait: those of the orders p_from, which have just ended by the entries
-- p_given_by, or one for each id of which there is no order. It passes over users for whom a dead letter has a unit. The
-- caller has locked the voucher's row.
CREATE FUNCTION promote_heirs(p_slot integer, p_voucher bigint, p_from uuid[], p_given_by text[]) RETURNS void
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_due     timestamptz;
    v_letters boolean := EXISTS (SELECT FROM dead_letter d WHERE d.voucher_id = p_voucher AND d.ended_at IS NULL);
BEGIN
    SELECT promoted_until(v.*) INTO v_due FROM seckill_voucher v
     WHERE v.id = p_voucher AND v.state IN ('open', 'paused') AND v.end_at > clock_timestamp();
    IF NOT FOUND THEN
        RETURN;
    END IF;
    WITH unit AS MATERIALIZED (
        SELECT o.id, f.given_by, row_number() OVER (ORDER BY o.id) AS n
          FROM unnest(p_from, p_given_by) AS f (id, given_by)
         CROSS JOIN LATERAL (SELECT f.id, coalesce((SELECT w.quantity FROM voucher_order w
                                                     WHERE w.slot = p_slot AND w.voucher_id = p_voucher AND w.id = f.id),
                                                   1) AS quantity) o
         CROSS JOIN generate_series(1, o.quantity)
    ), heir AS MATERIALIZED (
        SELECT first.id, row_number() OVER (ORDER BY first.id) AS n
          FROM (SELECT w.id FROM voucher_order w
                 WHERE w.slot = p_slot AND w.voucher_id = p_voucher AND w.status = 'waiting'
                   AND NOT (v_letters AND EXISTS (SELECT FROM held_order h
                                                   WHERE h.slot = p_slot AND h.voucher_id = p_voucher
                                                     AND h.user_id = w.user_id))
                 ORDER BY w.slot, w.voucher_id, w.id
                 LIMIT (SELECT count(*) FROM unit)) first
    ), promoted AS (
        UPDATE voucher_order o
           SET status = 'unpaid', updated_at = now(), due_at = v_due, heir_of = unit.id, given_by = unit.given_by
          FROM heir JOIN unit USING (n)
         WHERE o.slot = p_slot AND o.voucher_id = p_voucher AND o.id = heir.id
        RETURNING o.id
    ), noted AS (
        INSERT INTO order_event (slot, voucher_id, order_id, status, by_whom)
        SELECT p_slot, p_voucher, p.id, 'unpaid', 'service' FROM promoted p ORDER BY p.id
    )
    UPDATE voucher_stock s SET stock = s.stock - p.count, live = s.live + p.count, waiting = s.waiting - p.count
      FROM (SELECT count(*) FROM promoted) p
     WHERE s.voucher_id = p_voucher AND s.slot = p_slot;
END
$$;

-- The same for units that a script took, once for an entry and in the order of the entries. A rebuild names none: it gives
-- them back to the stock.
CREATE FUNCTION promote_units(p_slot integer, p_voucher bigint, p_epoch bigint, p_ids uuid[], p_journal text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_units integer;
BEGIN
    UPDATE voucher_line l
       SET epoch = p_epoch, journal_ms = journal_number(p_journal, 1), journal_seq = journal_number(p_journal, 2)
     WHERE l.voucher_id = p_voucher
       AND (p_epoch, journal_number(p_journal, 1), journal_number(p_journal, 2)) > (l.epoch, l.journal_ms, l.journal_seq);
    IF FOUND THEN
        SELECT least(cardinality(p_ids), s.stock) INTO v_units
          FROM voucher_stock s WHERE s.voucher_id = p_voucher AND s.slot = p_slot AND s.waiting > 0;
        PERFORM promote_heirs(p_slot, p_voucher, p_ids[:v_units],
                              array_fill(p_journal || '@' || p_epoch, ARRAY[v_units]))
          WHERE v_units > 0;
    END IF;
END
$$;

-- Who has the units of an ended order that were passed on, by now: an heir that ended may have passed its unit on, too.
CREATE FUNCTION last_heirs(p_slot integer, p_voucher bigint, p_id uuid)
RETURNS TABLE (id uuid, user_id text, request_key text, status order_status, reason text)
LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH RECURSIVE heir AS (
        SELECT h.id FROM voucher_order h WHERE h.slot = p_slot AND h.voucher_id = p_voucher AND h.heir_of = p_id
         UNION ALL
        SELECT h.id FROM heir
          JOIN voucher_order h ON h.slot = p_slot AND h.voucher_id = p_voucher AND h.heir_of = heir.id)
    SELECT o.id, o.user_id, o.request_key, o.status, o.reason
      FROM heir
      JOIN voucher_order o ON o.slot = p_slot AND o.voucher_id = p_voucher AND o.id = heir.id
     WHERE NOT EXISTS (SELECT FROM voucher_order n
                        WHERE n.slot = p_slot AND n.voucher_id = p_voucher AND n.heir_of = o.id)
     ORDER BY o.id;
END
$$;

-- As in 040_waiting.sql. Nor does a refusal bring a promoted one to Redis, since it may have ended: its own entry does.
CREATE OR REPLACE FUNCTION buyer_value(p_slot integer, p_voucher bigint, p_id uuid) RETURNS text
LANGUAGE plpgsql STRICT AS $$
BEGIN
    RETURN (SELECT concat_ws(' ', w.id, CASE WHEN w.quantity > 1 OR w.request_key IS NOT NULL THEN w.quantity END,
                             w.request_key)
              FROM voucher_order w
             WHERE w.slot = p_slot AND w.voucher_id = p_voucher AND w.id = p_id AND w.status <> 'waiting'
               AND w.given_by IS NULL);
END
$$;

-- As in 040_waiting.sql. An order whose unit was passed on is `gone`, as one whose refund kept the units.
CREATE OR REPLACE FUNCTION place_orders(p_slot integer, p_voucher bigint, p_epoch bigint, p_ids uuid[], p_users text[],
                                        p_journal text DEFAULT NULL, p_quantities smallint[] DEFAULT NULL,
                                        p_keys text[] DEFAULT NULL, p_offer integer DEFAULT 0)
RETURNS TABLE (n integer, outcome text, live_id uuid, first_id uuid, created_ms bigint, gone_by text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_stock  integer;
    v_epoch  bigint;
    v_due    uuid;
    v_scope  bigint;
    v_key    bigint; -- of the index of live orders
    v_new    uuid[];
    v_order  record;
    v_late   uuid[] := '{}';
    v_kept   uuid[];
    v_placed uuid[];
    v_taken  integer;
    v_units  bigint;
    v_ms     bigint := journal_number(p_journal, 1);
    v_seq    bigint := journal_number(p_journal, 2);
BEGIN
    SELECT s.stock, s.epoch, s.due_after, s.scope INTO v_stock, v_epoch, v_due, v_scope
      FROM voucher_stock s WHERE s.voucher_id = p_voucher AND s.slot = p_slot FOR UPDATE;
    IF NOT FOUND OR p_epoch <> v_epoch THEN
        RETURN QUERY VALUES (NULL::integer, 'stale', NULL::uuid, NULL::uuid, NULL::bigint, NULL::text);
        RETURN;
    END IF;

    v_key := coalesce(v_scope, p_voucher);
    IF v_scope IS NOT NULL THEN
        PERFORM lock_scope(v_scope);
        v_scope := nullif(v_scope, p_voucher); -- as orders of the first voucher have it: from before it had a scope, too
    END IF;

    -- Nearly always there is no conflict; then a plain INSERT costs a third less than one that is ready for it.
    BEGIN
        IF p_quantities IS NULL THEN
            INSERT INTO voucher_order (id, slot, user_id, voucher_id, offer, scope)
            SELECT o.id, p_slot, o.user_id, p_voucher, p_offer, v_scope FROM unnest(p_ids, p_users) AS o (id, user_id);
        ELSE
            INSERT INTO voucher_order (id, slot, user_id, voucher_id, quantity, request_key, offer, scope)
            SELECT o.id, p_slot, o.user_id, p_voucher, o.quantity, o.key, p_offer, v_scope
              FROM unnest(p_ids, p_users, p_quantities, p_keys) AS o (id, user_id, quantity, key);
        END IF;
        v_new := p_ids;
    EXCEPTION WHEN unique_violation THEN
        -- A key counts for a day.
        FOR v_order IN SELECT old.id FROM unnest(p_users, p_keys) AS o (user_id, key)
                        CROSS JOIN LATERAL (SELECT w.id FROM voucher_order w
                                             WHERE w.user_id = o.user_id AND w.voucher_id = p_voucher
                                               AND w.request_key = o.key
                                               AND w.created_at < now() - interval '1 day' OFFSET 0) old LOOP
            UPDATE voucher_order own SET request_key = NULL
             WHERE own.slot = p_slot AND own.voucher_id = p_voucher AND own.id = v_order.id;
        END LOOP;
        WITH inserted AS (
            INSERT INTO voucher_order (id, slot, user_id, voucher_id, quantity, request_key, offer, scope)
            SELECT o.id, p_slot, o.user_id, p_voucher, coalesce(o.quantity, 1), o.key, p_offer, v_scope
              FROM unnest(p_ids, p_users, p_quantities, p_keys) AS o (id, user_id, quantity, key)
            ON CONFLICT DO NOTHING
            RETURNING id)
        SELECT coalesce(array_agg(id), '{}') INTO v_new FROM inserted;
    END;

    -- An order gets all its units or none.
    v_units := cardinality(v_new);
    IF p_quantities IS NOT NULL THEN
        SELECT coalesce(sum(o.quantity), 0) INTO v_units
          FROM (SELECT DISTINCT ON (p.id) p.quantity FROM unnest(p_ids, p_quantities) AS p (id, quantity)
                 WHERE p.id = ANY (v_new)) o;
    END IF;
    IF v_units > v_stock THEN
        v_units := 0;
        FOR v_order IN SELECT o.id, max(coalesce(o.quantity, 1)) AS quantity
                         FROM unnest(p_ids, p_quantities) WITH ORDINALITY AS o (id, quantity, n)
                        WHERE o.id = ANY (v_new) GROUP BY o.id ORDER BY min(o.n) LOOP
            IF v_units + v_order.quantity <= v_stock THEN
                v_units := v_units + v_order.quantity;
            ELSE
                v_late := v_late || v_order.id;
            END IF;
        END LOOP;
    END IF;
    v_taken := cardinality(v_new) - cardinality(v_late);
    IF v_taken > 0 THEN
        IF EXISTS (SELECT FROM unnest(v_new) AS id WHERE id < v_due) THEN
            SELECT id INTO v_due FROM unnest(v_new) AS id ORDER BY id LIMIT 1; -- it was settled late
        END IF;
        UPDATE voucher_stock s
           SET stock = stock - v_units, live = live + v_taken, due_after = v_due,
               journal_ms = CASE WHEN (v_ms, v_seq) > (journal_ms, journal_seq) THEN v_ms ELSE journal_ms END,
               journal_seq = CASE WHEN (v_ms, v_seq) > (journal_ms, journal_seq) THEN v_seq ELSE journal_seq END
         WHERE s.voucher_id = p_voucher AND s.slot = p_slot;
        v_placed := CASE WHEN v_late = '{}' THEN v_new
                         ELSE ARRAY(SELECT n.id FROM unnest(v_new) WITH ORDINALITY AS n (id, nth)
                                     WHERE n.id <> ALL (v_late) ORDER BY n.nth) END;
        INSERT INTO order_placed (slot, voucher_id, ids)
        SELECT p_slot, p_voucher, v_placed[f : f + 99] FROM generate_series(1, v_taken, 100) AS f ORDER BY f;
    END IF;
    IF v_taken = cardinality(p_ids) THEN
        RETURN QUERY VALUES (NULL::integer, 'placed', NULL::uuid, NULL::uuid, unix_ms(now()), NULL::text);
        RETURN;
    END IF;

    -- The uncommon path. Each order is looked up by itself (LATERAL, OFFSET 0), and each user's live order in the index
    -- that the user stands first in (slot + 0): a plan that was made while the table was small would else go through
    -- all the voucher's orders for each one of the batch.
    --
    -- First the orders that came after the last unit ...
    FOR v_order IN SELECT l.id FROM unnest(v_late) AS l (id) LOOP
        UPDATE voucher_order own SET status = 'refused', reason = 'SOLD_OUT', request_key = NULL
         WHERE own.slot = p_slot AND own.voucher_id = p_voucher AND own.id = v_order.id;
    END LOOP;
    -- ... then those that met a live order of their user, the first order under their key, or one that was just refused:
    -- kept, so that their URL can say why.
    WITH inserted AS (
        INSERT INTO voucher_order (id, slot, user_id, voucher_id, quantity, offer, status, reason)
        SELECT o.id, p_slot, o.user_id, p_voucher, coalesce(o.quantity, 1), p_offer, 'refused',
               CASE WHEN EXISTS (SELECT FROM voucher_order first
                                  WHERE first.user_id = o.user_id AND first.voucher_id = p_voucher
                                    AND first.request_key = o.key OFFSET 0)
                    THEN 'REPEATED'
                    WHEN EXISTS (SELECT FROM voucher_order live
                                  WHERE live.user_id = o.user_id AND coalesce(live.scope, live.voucher_id) = v_key
                                    AND live.slot + 0 = p_slot AND live.status IN ('waiting', 'unpaid', 'paid') OFFSET 0)
                    THEN 'ALREADY_ORDERED' ELSE 'SOLD_OUT' END
          FROM unnest(p_ids, p_users, p_quantities, p_keys) AS o (id, user_id, quantity, key)
        ON CONFLICT DO NOTHING
        RETURNING id)
    SELECT coalesce(array_agg(id), '{}') INTO v_kept FROM inserted;
    INSERT INTO order_event (slot, voucher_id, order_id, status, by_whom, why)
    SELECT p_slot, p_voucher, own.id, 'refused', 'service', own.reason
      FROM unnest(v_late || v_kept) WITH ORDINALITY AS r (id, n)
     CROSS JOIN LATERAL (SELECT w.id, w.reason FROM voucher_order w
                          WHERE w.slot = p_slot AND w.voucher_id = p_voucher AND w.id = r.id OFFSET 0) own
     ORDER BY r.n;

    RETURN QUERY
    SELECT o.n::integer,
           CASE WHEN own.user_id <> o.user_id THEN 'clash'
                WHEN own.status IN ('unpaid', 'paid') AND own.id = ANY (v_new) THEN 'placed'
                WHEN own.status IN ('unpaid', 'paid') THEN 'already_placed'
                WHEN own.reason = 'KEPT' OR passed.given_by IS NOT NULL THEN 'gone'
                WHEN own.id <> ALL (v_new || v_kept)
                     AND own.reason = 'SOLD_OUT' AND v_stock < v_units + own.quantity THEN 'sold_out'
                WHEN own.id <> ALL (v_new || v_kept) THEN 'ended'
                WHEN own.reason = 'SOLD_OUT' THEN 'sold_out'
                WHEN own.reason = 'REPEATED' AND first.quantity <> own.quantity THEN 'reused'
                WHEN own.reason = 'REPEATED' THEN 'repeated'
                ELSE 'duplicate'
           END,
           CASE WHEN own.status IN ('unpaid', 'paid', 'refused') THEN live.id END, first.id, unix_ms(own.created_at),
           CASE WHEN own.reason = 'KEPT'
                THEN (SELECT e.journal FROM order_event e WHERE e.order_id = own.id AND e.journal IS NOT NULL)
                ELSE nullif(passed.given_by, '') END
      FROM unnest(p_ids, p_users, p_keys) WITH ORDINALITY AS o (id, user_id, key, n)
     CROSS JOIN LATERAL (SELECT w.user_id, w.status, w.reason, w.id, w.quantity, w.created_at
                           FROM voucher_order w
                          WHERE w.slot = p_slot AND w.voucher_id = p_voucher AND w.id = o.id OFFSET 0) own
      LEFT JOIN LATERAL (SELECT h.given_by FROM voucher_order h
                          WHERE h.slot = p_slot AND h.voucher_id = p_voucher AND h.heir_of = own.id
                          LIMIT 1 OFFSET 0) passed ON true
      LEFT JOIN LATERAL (SELECT l.id FROM voucher_order l
                          WHERE l.user_id = o.user_id AND coalesce(l.scope, l.voucher_id) = v_key AND l.slot + 0 = p_slot
                            AND l.status IN ('waiting', 'unpaid', 'paid') AND l.id <> o.id OFFSET 0) live ON true
      LEFT JOIN LATERAL (SELECT f.id, f.quantity FROM voucher_order f
                          WHERE f.user_id = o.user_id AND f.voucher_id = p_voucher AND f.request_key = o.key
                            AND f.id <> o.id OFFSET 0) first ON true
     ORDER BY o.n;
END
$$;

-- As in 040_waiting.sql. Units that return go to the first who wait, and so do those of the move 'promoted', whose ids
-- are no orders but units that a script took. Of an ended order:
--   units    so many return to the stock by now: neither has an heir them, nor were they kept
--   heirs    who has the others: 'user order [quantity key],...'
--   came_by  of a promoted order: the entry that gave it its unit, if it is of the same epoch
DROP FUNCTION return_batches(integer[], bigint[], bigint[], integer[], uuid[], text, text, text, text[]);
CREATE FUNCTION return_batches(p_slots integer[], p_vouchers bigint[], p_epochs bigint[], p_counts integer[],
                                          p_ids uuid[], p_move text, p_by text, p_why text, p_journals text[])
RETURNS TABLE (n integer, outcome text, user_id text, units integer, nth smallint, batch integer, heirs text, came_by text)
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    v_status  order_status := CASE WHEN p_move <> 'promoted' THEN split_part(p_move, '-', 1)::order_status END;
    v_reason  text := CASE p_move WHEN 'refunded' THEN 'RESTOCKED' WHEN 'refunded-kept' THEN 'KEPT' END;
    v_from    order_status[] := ARRAY(SELECT m.from_status FROM order_move m WHERE m.to_status = v_status);
    v_slots   integer[]; -- of entries; NULL: stale
    v_batches integer[]; -- of ids
    v_line    record;    -- of a voucher with orders that wait
BEGIN
    PERFORM FROM unnest(p_slots, p_vouchers) AS e (slot, voucher)
      JOIN voucher_stock s ON s.voucher_id = e.voucher AND s.slot = e.slot
     ORDER BY s.voucher_id
       FOR UPDATE OF s;
    v_slots := ARRAY(
        SELECT s.slot
          FROM unnest(p_slots, p_vouchers, p_epochs) WITH ORDINALITY AS e (slot, voucher, epoch, batch)
          LEFT JOIN seckill_voucher v ON v.id = e.voucher
          LEFT JOIN voucher_stock s
            ON s.voucher_id = e.voucher AND s.slot = e.slot
           AND e.epoch IS NOT DISTINCT FROM CASE WHEN v.state <> 'retired' THEN s.epoch END
         ORDER BY e.batch);
    v_batches := ARRAY(SELECT e.batch FROM unnest(p_counts) WITH ORDINALITY AS e (count, batch), generate_series(1, e.count)
                        ORDER BY e.batch);
    FOR v_line IN WITH moved AS (
        UPDATE voucher_order o
           SET status = v_status, reason = CASE WHEN o.status = 'waiting' THEN 'LEFT' ELSE v_reason END, updated_at = now(),
               ended_nth = 1 + coalesce((SELECT max(w.ended_nth) FROM voucher_order w
                                          WHERE w.user_id = o.user_id AND w.voucher_id = o.voucher_id
                                            AND w.ended_nth IS NOT NULL), 0)
          FROM unnest(p_ids, v_batches) AS a (id, batch), seckill_voucher v
         WHERE o.slot = v_slots[a.batch] AND o.voucher_id = p_vouchers[a.batch] AND o.id = a.id
           AND v.id = p_vouchers[a.batch] AND o.status = ANY (v_from)
           AND (v_status <> 'expired'
                OR (due_at(o.created_at, v.pay_within_s, o.due_at) <= now() AND NOT expiry_is_held(v.id)))
        RETURNING o.slot, o.voucher_id, o.id, o.quantity, a.batch, o.reason IS NOT DISTINCT FROM 'LEFT' AS waited
    ), noted AS (
        INSERT INTO order_event (slot, voucher_id, order_id, status, by_whom, why, journal)
        SELECT m.slot, m.voucher_id, m.id, v_status, p_by, p_why,
               CASE WHEN v_reason = 'KEPT' THEN p_journals[m.batch] || '@' || p_epochs[m.batch] END
          FROM moved m
    ), given_back AS (
        UPDATE payment p SET state = 'refunded' FROM moved m
         WHERE v_status = 'refunded' AND p.order_id = m.id AND p.state = 'accepted'
    )
    UPDATE voucher_stock s
       SET stock = stock + CASE WHEN v_reason = 'KEPT' THEN 0 ELSE m.units END, live = live - m.orders,
           waiting = waiting - m.waited
      FROM (SELECT slot, voucher_id, coalesce(sum(quantity) FILTER (WHERE NOT waited), 0) AS units,
                   count(*) FILTER (WHERE NOT waited) AS orders, count(*) FILTER (WHERE waited) AS waited,
                   array_agg(id ORDER BY id) FILTER (WHERE NOT waited) AS ids,
                   array_agg(coalesce(p_journals[batch] || '@' || p_epochs[batch], '') ORDER BY id)
                       FILTER (WHERE NOT waited) AS entries
              FROM moved GROUP BY slot, voucher_id) m
     WHERE s.voucher_id = m.voucher_id AND s.slot = m.slot
    RETURNING s.slot, s.voucher_id, s.waiting, m.ids, m.entries LOOP
        IF v_line.waiting > 0 AND v_line.ids IS NOT NULL AND v_reason IS DISTINCT FROM 'KEPT' THEN
            PERFORM promote_heirs(v_line.slot, v_line.voucher_id, v_line.ids, v_line.entries);
        END IF;
    END LOOP;
    IF p_move = 'promoted' THEN
        PERFORM promote_units(v_slots[e.batch], p_vouchers[e.batch], p_epochs[e.batch], e.ids, p_journals[e.batch])
           FROM (SELECT i.batch, array_agg(i.id ORDER BY i.at) AS ids
                   FROM unnest(p_ids, v_batches) WITH ORDINALITY AS i (id, batch, at)
                  GROUP BY i.batch
                  ORDER BY i.batch) e
          WHERE v_slots[e.batch] IS NOT NULL AND p_journals[e.batch] IS NOT NULL;
    END IF;
    RETURN QUERY
    SELECT a.n::integer,
           CASE WHEN p_move = 'promoted' THEN 'returned'
                WHEN own.status IS NULL THEN 'unknown'
                WHEN own.status IN ('cancelled', 'expired', 'refunded') THEN 'returned'
                ELSE 'kept' END,
           CASE WHEN p_move = 'promoted' THEN a.id::text ELSE own.user_id END,
           CASE WHEN p_move = 'promoted' THEN 1 - passed.units
                WHEN own.reason = 'KEPT' THEN
                    (SELECT 0 FROM order_event e
                      WHERE e.order_id = own.id
                        AND e.journal IN (p_journals[a.batch] || '@' || p_epochs[a.batch], p_journals[a.batch]))
                WHEN own.status IN ('cancelled', 'expired', 'refunded') AND own.reason IS DISTINCT FROM 'LEFT'
                    THEN own.quantity - passed.units
                ELSE 0 END::integer,
           own.ended_nth, a.batch, passed.heirs,
           CASE WHEN split_part(own.given_by, '@', 2) = p_epochs[a.batch]::text THEN split_part(own.given_by, '@', 1) END
      FROM (SELECT i.id, i.batch, row_number() OVER (PARTITION BY i.batch ORDER BY i.at) AS n
              FROM unnest(p_ids, v_batches) WITH ORDINALITY AS i (id, batch, at)) a
      LEFT JOIN LATERAL (SELECT w.id, w.user_id, w.status, w.reason, w.quantity, w.ended_nth, w.given_by
                           FROM voucher_order w
                          WHERE w.slot = v_slots[a.batch] AND w.voucher_id = p_vouchers[a.batch] AND w.id = a.id
                         OFFSET 0) own ON true
      LEFT JOIN LATERAL (SELECT count(*) AS units,
                                string_agg(concat_ws(' ', h.user_id, h.id, CASE WHEN h.request_key IS NOT NULL THEN 1 END,
                                                     h.request_key), ',' ORDER BY h.id)
                                    FILTER (WHERE h.status IN ('unpaid', 'paid')) AS heirs
                           FROM (SELECT a.id WHERE EXISTS (SELECT FROM voucher_line l
                                                            WHERE l.voucher_id = p_vouchers[a.batch])) lined
                          CROSS JOIN LATERAL last_heirs(v_slots[a.batch], p_vouchers[a.batch], lined.id) h
                          WHERE h.status IN ('unpaid', 'paid') OR h.reason = 'KEPT') passed ON true
     WHERE v_slots[a.batch] IS NOT NULL
    UNION ALL
    SELECT NULL, 'stale', NULL, NULL, NULL, e.batch::integer, NULL, NULL
      FROM unnest(v_slots) WITH ORDINALITY AS e (slot, batch) WHERE e.slot IS NULL
     ORDER BY 6, 1;
END
$$;

DROP FUNCTION return_orders(integer, bigint, bigint, uuid[], text, text, text, text);
CREATE FUNCTION return_orders(p_slot integer, p_voucher bigint, p_epoch bigint, p_ids uuid[], p_move text,
                              p_by text, p_why text, p_journal text)
RETURNS TABLE (n integer, outcome text, user_id text, units integer, nth smallint, heirs text, came_by text)
LANGUAGE sql AS $$
    SELECT n, outcome, user_id, units, nth, heirs, came_by
      FROM return_batches(ARRAY[p_slot], ARRAY[p_voucher], ARRAY[p_epoch], ARRAY[cardinality(p_ids)], p_ids, p_move, p_by,
                          p_why, ARRAY[p_journal])
$$;

-- As in 036_extend.sql. A walk begins with the orders that have a time of their own, and does not look at them again.
CREATE OR REPLACE FUNCTION due_orders(p_slot integer, p_voucher bigint, p_from uuid, p_most integer)
RETURNS TABLE (due uuid[], walked_to uuid, next_ms bigint, now_ms bigint)
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    v_within interval;
    v_after  uuid;
    v_order  record;
    v_first  uuid;        -- the first that is unpaid
    v_last   uuid;
    v_next   timestamptz;
    v_at     timestamptz;
    v_rows   integer := 0;
    v_young  uuid;         -- ids from this one on are too new, but for the clocks
    v_newer  integer := 0; -- so many of them
BEGIN
    due := '{}';
    now_ms := unix_ms(clock_timestamp());
    SELECT make_interval(secs => v.pay_within_s), s.due_after INTO v_within, v_after
      FROM voucher_stock s JOIN seckill_voucher v ON v.id = s.voucher_id
     WHERE s.voucher_id = p_voucher AND s.slot = p_slot;
    IF expiry_is_held(p_voucher) THEN
        v_next := now() + interval '2 s'; -- the hold may have ended
    ELSIF v_within > interval '0' THEN
        IF p_from IS NULL THEN
            due := ARRAY(SELECT o.id FROM voucher_order o
                          WHERE o.slot = p_slot AND o.voucher_id = p_voucher AND o.status = 'unpaid' AND o.due_at <= now()
                          ORDER BY o.slot, o.voucher_id, o.due_at LIMIT p_most);
            v_next := (SELECT o.due_at FROM voucher_order o
                        WHERE o.slot = p_slot AND o.voucher_id = p_voucher AND o.status = 'unpaid' AND o.due_at > now()
                        ORDER BY o.slot, o.voucher_id, o.due_at LIMIT 1);
            IF cardinality(due) >= p_most THEN
                v_next := now(); -- there may be more, and the walk has not begun
            END IF;
        END IF;
        v_young := uuid_at(now() - v_within);
        FOR v_order IN SELECT o.id, o.status, o.created_at, o.due_at IS NULL AS walked FROM voucher_order o
                        WHERE o.slot = p_slot AND o.voucher_id = p_voucher AND o.id >= coalesce(p_from, v_after)
                          AND o.id IS DISTINCT FROM p_from AND cardinality(due) < p_most
                        ORDER BY o.slot, o.voucher_id, o.id LIMIT 2000 LOOP
            v_rows := v_rows + 1;
            v_last := v_order.id;
            v_newer := v_newer + (v_order.id >= v_young)::integer;
            IF v_order.status = 'unpaid' AND v_order.walked THEN
                v_first := coalesce(v_first, v_order.id);
                v_at := v_order.created_at + v_within;
                IF v_at <= now() THEN
                    due := due || v_order.id;
                ELSE
                    v_next := least(v_next, v_at);
                END IF;
            END IF;
            EXIT WHEN v_newer >= 500 OR cardinality(due) >= p_most;
        END LOOP;
        IF v_newer >= 500 THEN
            v_next := least(v_next, v_within + to_timestamp(
                ('x' || translate(left(v_last::text, 13), '-', ''))::bit(48)::bigint / 1000.0)); -- uuid_at(), backwards
        ELSIF v_rows = 2000 OR (v_rows > 0 AND cardinality(due) >= p_most) THEN
            walked_to := v_last;
        END IF;
        -- Only where it saves much: buyers need this row, too.
        IF coalesce(p_from = v_after, true) AND v_rows >= 500 AND coalesce(v_first, v_last) > v_after THEN
            -- What was settled late has come in before the lock, or will see due_after.
            PERFORM FROM voucher_stock s WHERE s.voucher_id = p_voucher AND s.slot = p_slot FOR UPDATE SKIP LOCKED;
            IF FOUND THEN
                PERFORM FROM voucher_order o
                  WHERE o.slot = p_slot AND o.voucher_id = p_voucher AND o.id >= v_after
                    AND o.id < coalesce(v_first, v_last) AND o.status = 'unpaid' AND o.due_at IS NULL
                  ORDER BY o.slot, o.voucher_id, o.id LIMIT 1;
                IF NOT FOUND THEN
                    UPDATE voucher_stock s SET due_after = coalesce(v_first, v_last)
                     WHERE s.voucher_id = p_voucher AND s.slot = p_slot AND s.due_after = v_after;
                END IF;
            END IF;
        END IF;
    END IF;
    next_ms := unix_ms(v_next);
    RETURN NEXT;
END
$$;

-- As in 040_waiting.sql. Orders with a time of their own may be older than the walk.
CREATE OR REPLACE FUNCTION voucher_is_open(p_voucher bigint) RETURNS boolean
LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    v_stock voucher_stock;
BEGIN
    IF EXISTS (SELECT FROM dead_letter d WHERE d.voucher_id = p_voucher AND d.ended_at IS NULL)
       OR EXISTS (SELECT FROM voucher_stock s WHERE s.voucher_id = p_voucher AND s.waiting > 0) THEN
        RETURN true;
    END IF;
    SELECT s.* INTO v_stock FROM voucher_stock s JOIN seckill_voucher v ON v.id = s.voucher_id
     WHERE s.voucher_id = p_voucher AND s.live > 0 AND v.pay_within_s > 0;
    IF FOUND THEN
        PERFORM FROM voucher_order o
          WHERE o.slot = v_stock.slot AND o.voucher_id = p_voucher AND o.status = 'unpaid' AND o.due_at IS NOT NULL
          ORDER BY o.slot, o.voucher_id, o.due_at LIMIT 1;
        IF NOT FOUND THEN
            PERFORM FROM voucher_order o
              WHERE o.slot = v_stock.slot AND o.voucher_id = p_voucher AND o.id >= v_stock.due_after AND o.status = 'unpaid'
              ORDER BY o.slot, o.voucher_id, o.id LIMIT 1;
        END IF;
    END IF;
    RETURN FOUND;
END
$$;

-- As in 036_extend.sql. Orders with a time of their own are looked for by it.
CREATE OR REPLACE FUNCTION troubles(p_most integer) RETURNS TABLE (id bigint, document text)
LANGUAGE sql STABLE AS $$
    SELECT t.id, json_strip_nulls(json_build_object('voucher_id', nullif(t.id, 0)::text, 'title', v.title, 'what', t.what,
                                                    'count', t.count, 'late_s', t.late_s,
                                                    'since', rfc3339(t.since), 'by', t.by_whom))::text
      FROM ((SELECT l.voucher_id AS id, 'DEAD_LETTERS' AS what, count(*) AS count, NULL::bigint AS late_s,
                    NULL::timestamptz AS since, NULL AS by_whom
               FROM dead_letter l
              WHERE l.ended_at IS NULL
              GROUP BY l.voucher_id
              ORDER BY l.voucher_id DESC
              LIMIT p_most)
            UNION ALL
            (SELECT s.voucher_id, 'EXPIRY_LATE', NULL, extract(epoch FROM now() - o.due_at)::bigint, NULL, NULL
               FROM seckill_voucher live
               JOIN voucher_stock s ON s.voucher_id = live.id
              CROSS JOIN LATERAL (SELECT least((SELECT own.due_at FROM voucher_order own
                                                 WHERE own.slot = s.slot AND own.voucher_id = s.voucher_id
                                                   AND own.status = 'unpaid' AND own.due_at IS NOT NULL
                                                 ORDER BY own.due_at
                                                 LIMIT 1), min(expires_at(w.created_at, live.pay_within_s))) AS due_at
                                    FROM (SELECT walked.status, walked.created_at, walked.due_at FROM voucher_order walked
                                           WHERE walked.slot = s.slot AND walked.voucher_id = s.voucher_id
                                             AND walked.id >= s.due_after
                                           ORDER BY walked.id
                                           LIMIT 1000) w
                                   WHERE w.status = 'unpaid' AND w.due_at IS NULL) o
              WHERE live.state IN ('open', 'paused', 'closed') AND live.pay_within_s > 0 AND s.live > 0
                AND o.due_at < now() - interval '30 s' AND NOT expiry_is_held(s.voucher_id)
              ORDER BY s.voucher_id DESC
              LIMIT p_most)
            UNION ALL
            (SELECT h.voucher_id, 'EXPIRY_HELD', NULL, NULL, h.since, h.by_whom
               FROM expiry_hold h
              ORDER BY h.voucher_id
              LIMIT p_most)) t
      LEFT JOIN seckill_voucher v ON v.id = t.id
     ORDER BY t.id DESC, t.what
$$;

-- As in 040_waiting.sql, with promotions.
CREATE OR REPLACE FUNCTION order_events(p_after_tx xid8, p_after_seq bigint, p_most integer, p_only text DEFAULT NULL)
RETURNS TABLE (tx xid8, seq bigint, document json)
LANGUAGE sql STABLE AS $$
    SELECT e.tx, e.seq, json_strip_nulls(json_build_object(
               'event', CASE WHEN e.type = 'moved' AND e.status = 'unpaid' THEN 'order.promoted'
                             WHEN e.type = 'moved' THEN 'order.' || e.status
                             WHEN e.type IN ('placed', 'extended') THEN 'order.' || e.type
                             ELSE replace(e.type, 'payment_', 'payment.') END,
               'type', CASE WHEN e.type LIKE 'sale.%' THEN 'sale' ELSE e.type END, 'order_id', e.order_id,
               'voucher_id', e.voucher_id::text, 'user_id', o.user_id,
               'quantity', o.quantity, 'total_cents', f.price_cents * o.quantity, 'currency', f.currency,
               'status', CASE WHEN e.type IN ('moved', 'placed') OR o.status IS NULL THEN e.status ELSE o.status END,
               'at', rfc3339(e.at), 'by', e.by_whom, 'why', e.why,
               'expires_at', CASE WHEN e.type = 'extended' OR (e.type = 'moved' AND e.status = 'unpaid')
                                  THEN rfc3339(o.due_at) END,
               'reference', CASE WHEN e.type = 'extended' THEN e.reference END,
               'payment', CASE WHEN e.type <> 'extended' AND p.reference IS NOT NULL THEN json_build_object(
                   'reference', p.reference, 'amount_cents', p.amount_cents, 'currency', p.currency) END))
      FROM (SELECT * FROM (
                (SELECT w.tx, w.seq, w.slot, w.voucher_id, w.order_id, w.at, w.status, w.by_whom, w.why, w.reference,
                        coalesce(w.type, old_event_type(w)) AS type
                   FROM order_event w
                  WHERE (p_only IS NULL OR p_only = 'moves') AND (w.tx, w.seq) > (p_after_tx, p_after_seq)
                    AND w.tx < pg_snapshot_xmin(pg_current_snapshot())
                  ORDER BY w.tx, w.seq
                  LIMIT p_most)
                UNION ALL
                (SELECT b.tx, b.seq + o.n - 1, b.slot, b.voucher_id, o.id, b.at,
                        (CASE WHEN b.joined THEN 'waiting' ELSE 'unpaid' END)::order_status, 'user', NULL, NULL,
                        CASE WHEN b.joined THEN 'moved' ELSE 'placed' END
                   FROM (SELECT * FROM order_placed p
                          WHERE (p_only IS NULL OR p_only = 'placed') AND (p.tx, p.seq) > (p_after_tx, p_after_seq - 100)
                            AND p.tx < pg_snapshot_xmin(pg_current_snapshot())
                          ORDER BY p.tx, p.seq
                          LIMIT p_most + 1) b
                  CROSS JOIN LATERAL unnest(b.ids) WITH ORDINALITY AS o (id, n)
                  WHERE (b.tx, b.seq + o.n - 1) > (p_after_tx, p_after_seq)
                  ORDER BY b.tx, b.seq, o.n
                  LIMIT p_most)
                UNION ALL
                (SELECT s.tx, s.seq, s.slot, s.voucher_id, NULL, s.at, NULL, 'service', NULL, NULL, s.name
                   FROM sale_event s
                  WHERE (p_only IS NULL OR p_only = 'sales') AND (s.tx, s.seq) > (p_after_tx, p_after_seq)
                    AND s.tx < pg_snapshot_xmin(pg_current_snapshot())
                  ORDER BY s.tx, s.seq
                  LIMIT p_most)) of_all
             ORDER BY tx, seq
             LIMIT p_most) e
      LEFT JOIN LATERAL (SELECT own.user_id, own.quantity, own.offer, own.status, own.due_at FROM voucher_order own
                          WHERE own.slot = e.slot AND own.voucher_id = e.voucher_id AND own.id = e.order_id
                         OFFSET 0) o ON true
      LEFT JOIN LATERAL order_offer(e.voucher_id, o.offer) f ON o.offer IS NOT NULL
      LEFT JOIN LATERAL (SELECT noted.reference, noted.amount_cents, noted.currency
                           FROM payment noted
                          WHERE noted.order_id = e.order_id
                            AND CASE WHEN e.reference IS NOT NULL THEN noted.reference = e.reference
                                     WHEN e.type = 'moved' THEN e.status IN ('paid', 'refunded')
                                     ELSE e.type = 'payment_to_refund' AND noted.at = e.at END
                          ORDER BY noted.at
                          LIMIT 1) p ON true
     ORDER BY e.tx, e.seq
$$;

DO $$
DECLARE
    v_function text;
BEGIN
    FOREACH v_function IN ARRAY ARRAY[
        'buyer_value(integer, bigint, uuid)',
        'place_orders(integer, bigint, bigint, uuid[], text[], text, smallint[], text[], integer)',
        'return_batches(integer[], bigint[], bigint[], integer[], uuid[], text, text, text, text[])',
        'return_orders(integer, bigint, bigint, uuid[], text, text, text, text)',
        'due_orders(integer, bigint, uuid, integer)', 'troubles(integer)', 'order_events(xid8, bigint, integer, text)'] LOOP
        EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER SET search_path = %I, pg_temp', v_function, current_schema());
    END LOOP;
    REVOKE EXECUTE ON FUNCTION promote_heirs(integer, bigint, uuid[], text[]),
                               promote_units(integer, bigint, bigint, uuid[], text), last_heirs(integer, bigint, uuid),
                               promoted_until(seckill_voucher),
                               return_batches(integer[], bigint[], bigint[], integer[], uuid[], text, text, text, text[]),
                               return_orders(integer, bigint, bigint, uuid[], text, text, text, text) FROM PUBLIC;
    GRANT EXECUTE ON FUNCTION return_batches(integer[], bigint[], bigint[], integer[], uuid[], text, text, text,
                                             text[]) TO seckill_service;
    GRANT EXECUTE ON FUNCTION return_orders(integer, bigint, bigint, uuid[], text, text, text, text) TO seckill_service;
END
$$;
