-- Orders that end after they were placed, and give their units back; and which unpaid ones are due to expire.

-- Ends orders of one or more vouchers and gives their units back: cancelled, expired, refunded (its units sell again)
-- or refunded-kept (they do not). Entry i is of one voucher, no other entry is of that, and it has the next
-- p_counts[i] of p_ids. A commit costs the same for one order as for hundreds. One outcome for each order, the n-th of
-- entry `batch`; n NULL: for all of them.
--
--   returned  it has ended by such a move, now or before: Redis may forget its buyer, and gets `units` back, if its
--             buyer's field still holds this id. `units` NULL: a refund by another journal entry has kept them, and that
--             one sees to Redis
--   kept      its status does not allow the move, or it is not due
--   unknown   there is no such order
--   stale     the epoch is not the voucher's: nothing is done for this entry
--
-- `nth`: how many of the user's orders had ended with this one. NULL: it is live or refused.
--
-- p_journals[i] is the journal entry that asks for it; NULL: none, or one that ends before Redis is filled. Idempotent
-- by order id, and under the locks of the vouchers' rows, taken in the order of place_batches(): so no two orders of a
-- user get the same number, for a user has one live order of a voucher at most. An epoch that is NULL: of a retired
-- voucher, of which Redis has nothing. The plans are pinned: orders by their key, and made once.
CREATE FUNCTION return_batches(p_slots integer[], p_vouchers bigint[], p_epochs bigint[], p_counts integer[],
                               p_ids uuid[], p_move text, p_by text, p_why text, p_journals text[])
RETURNS TABLE (n integer, outcome text, user_id text, units integer, nth smallint, batch integer)
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    v_status  order_status := split_part(p_move, '-', 1)::order_status;
    v_reason  text := CASE p_move WHEN 'refunded' THEN 'RESTOCKED' WHEN 'refunded-kept' THEN 'KEPT' END;
    v_from    order_status[] := ARRAY(SELECT m.from_status FROM order_move m WHERE m.to_status = v_status);
    v_slots   integer[]; -- of entries; NULL: stale
    v_batches integer[]; -- of ids
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
    WITH moved AS (
        UPDATE voucher_order o
           SET status = v_status, reason = v_reason, updated_at = now(),
               ended_nth = 1 + coalesce((SELECT max(w.ended_nth) FROM voucher_order w
                                          WHERE w.user_id = o.user_id AND w.voucher_id = o.voucher_id
                                            AND w.ended_nth IS NOT NULL), 0)
          FROM unnest(p_ids, v_batches) AS a (id, batch), seckill_voucher v
         WHERE o.slot = v_slots[a.batch] AND o.voucher_id = p_vouchers[a.batch] AND o.id = a.id
           AND v.id = p_vouchers[a.batch] AND o.status = ANY (v_from)
           AND (v_status <> 'expired' OR expires_at(o.created_at, v.pay_within_s) <= now())
        RETURNING o.slot, o.voucher_id, o.id, o.quantity, a.batch
    ), noted AS (
        INSERT INTO order_event (slot, voucher_id, order_id, status, by_whom, why, journal)
        SELECT m.slot, m.voucher_id, m.id, v_status, p_by, p_why, CASE WHEN v_reason = 'KEPT' THEN p_journals[m.batch] END
          FROM moved m
    ), given_back AS (
        UPDATE payment p SET state = 'refunded' FROM moved m
         WHERE v_status = 'refunded' AND p.order_id = m.id AND p.state = 'accepted'
    )
    UPDATE voucher_stock s
       SET stock = stock + CASE WHEN v_reason = 'KEPT' THEN 0 ELSE m.units END, live = live - m.orders
      FROM (SELECT slot, voucher_id, sum(quantity) AS units, count(*) AS orders FROM moved GROUP BY slot, voucher_id) m
     WHERE s.voucher_id = m.voucher_id AND s.slot = m.slot;
    RETURN QUERY
    SELECT a.n::integer,
           CASE WHEN own.status IS NULL THEN 'unknown'
                WHEN own.status IN ('cancelled', 'expired', 'refunded') THEN 'returned'
                ELSE 'kept' END,
           own.user_id,
           CASE WHEN own.reason = 'KEPT' THEN
                    (SELECT 0 FROM order_event e WHERE e.order_id = own.id AND e.journal = p_journals[a.batch])
                WHEN own.status IN ('cancelled', 'expired', 'refunded') THEN own.quantity
                ELSE 0 END::integer,
           own.ended_nth, a.batch
      FROM (SELECT i.id, i.batch, row_number() OVER (PARTITION BY i.batch ORDER BY i.at) AS n
              FROM unnest(p_ids, v_batches) WITH ORDINALITY AS i (id, batch, at)) a
      LEFT JOIN LATERAL (SELECT w.id, w.user_id, w.status, w.reason, w.quantity, w.ended_nth
                           FROM voucher_order w
                          WHERE w.slot = v_slots[a.batch] AND w.voucher_id = p_vouchers[a.batch] AND w.id = a.id
                         OFFSET 0) own ON true
     WHERE v_slots[a.batch] IS NOT NULL
    UNION ALL
    SELECT NULL, 'stale', NULL, NULL, NULL, e.batch::integer
      FROM unnest(v_slots) WITH ORDINALITY AS e (slot, batch) WHERE e.slot IS NULL
     ORDER BY 6, 1;
END
$$;

-- The case of one entry.
CREATE FUNCTION return_orders(p_slot integer, p_voucher bigint, p_epoch bigint, p_ids uuid[], p_move text,
                              p_by text, p_why text, p_journal text)
RETURNS TABLE (n integer, outcome text, user_id text, units integer, nth smallint)
LANGUAGE sql AS $$
    SELECT n, outcome, user_id, units, nth
      FROM return_batches(ARRAY[p_slot], ARRAY[p_voucher], ARRAY[p_epoch], ARRAY[cardinality(p_ids)], p_ids, p_move, p_by,
                          p_why, ARRAY[p_journal])
$$;

-- Returns an order of a retired voucher, of which Redis knows nothing any more: see return_orders().
CREATE FUNCTION return_retired(p_slot integer, p_voucher bigint, p_id uuid, p_move text, p_by text, p_why text)
RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT r.outcome FROM return_orders(p_slot, p_voucher, NULL, ARRAY[p_id], p_move, p_by, p_why, NULL) r);
END
$$;

-- Orders of a voucher that are to expire now, at most p_most of them, found by walking along its orders from the first
-- that may be unpaid. p_from: where this walk has got to; NULL: it begins. `walked_to` is where it goes on; NULL: it
-- has ended. `next_ms`: when the next one may be due; NULL: none of those that were seen. Times are Unix ms by this
-- server's clock.
--
-- An id tells when its order was made, and the order is due no sooner than that long after. So a walk ends behind 500 ids
-- that are too new, whatever became of their orders; those behind them are due no sooner than the last of these. (Not at
-- the first one: the clocks of instances differ.)
--
-- There is no index of what is due: it would cost every purchase. So `due_after` notes before which order none is
-- unpaid, and each part of a walk moves it that has nothing unpaid before it: what has been paid or has ended is read
-- by one walk, not by each. The plan is that of rebuild_buyers(), made once: made again for each voucher it costs as
-- much as the search.
CREATE FUNCTION due_orders(p_slot integer, p_voucher bigint, p_from uuid, p_most integer)
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
    IF v_within > interval '0' THEN
        v_young := uuid_at(now() - v_within);
        FOR v_order IN SELECT o.id, o.status, o.created_at FROM voucher_order o
                        WHERE o.slot = p_slot AND o.voucher_id = p_voucher AND o.id >= coalesce(p_from, v_after)
                          AND o.id IS DISTINCT FROM p_from
                        ORDER BY o.slot, o.voucher_id, o.id LIMIT 2000 LOOP
            v_rows := v_rows + 1;
            v_last := v_order.id;
            v_newer := v_newer + (v_order.id >= v_young)::integer;
            IF v_order.status = 'unpaid' THEN
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
        ELSIF v_rows = 2000 OR cardinality(due) >= p_most THEN
            walked_to := v_last;
        END IF;
        -- Only where it saves much: buyers need this row, too.
        IF coalesce(p_from = v_after, true) AND v_rows >= 500 AND coalesce(v_first, v_last) > v_after THEN
            PERFORM FROM voucher_stock s WHERE s.voucher_id = p_voucher AND s.slot = p_slot FOR UPDATE;
            -- What was settled late has come in before the lock, or will see due_after.
            PERFORM FROM voucher_order o
              WHERE o.slot = p_slot AND o.voucher_id = p_voucher AND o.id >= v_after AND o.id < coalesce(v_first, v_last)
                AND o.status = 'unpaid'
              ORDER BY o.slot, o.voucher_id, o.id LIMIT 1;
            IF NOT FOUND THEN
                UPDATE voucher_stock s SET due_after = coalesce(v_first, v_last)
                 WHERE s.voucher_id = p_voucher AND s.slot = p_slot AND s.due_after = v_after;
            END IF;
        END IF;
    END IF;
    next_ms := unix_ms(v_next);
    RETURN NEXT;
END
$$;
