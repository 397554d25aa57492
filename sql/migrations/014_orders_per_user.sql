-- The bound of a user's orders of one voucher (SECKILL_ORDERS_PER_USER): cancelled, expired and refunded ones count, refused
-- ones do not. A user has at most one live order, so it is enough to count those that ended. Redis decides
-- (lua/place_orders.lua) by what is counted here.

-- The user's n-th order of this voucher that ended. NULL: it is live or refused, or it ended before this column was
-- there: such orders do not count.
ALTER TABLE voucher_order ADD COLUMN ended_nth smallint;

-- Finds the newest number in one step. The index of a user's ended orders would do it with a walk along those of all
-- vouchers, under the segment's row lock. A purchase does not touch this one.
CREATE INDEX voucher_order_nth ON voucher_order (user_id, voucher_id, ended_nth) WHERE ended_nth IS NOT NULL;

DROP FUNCTION return_orders(integer, bigint, bigint, uuid[], text, text, text, text);

-- Ends orders of one segment and gives their units back: cancelled, expired, refunded (its units sell again) or
-- refunded-kept (they do not). One outcome for each order; n NULL: for all of them.
--
--   returned  it has ended by such a move, now or before: Redis may forget its buyer, and gets `units` back, if its
--             buyer's field still holds this id. `units` NULL: a refund by another journal entry has kept them, and that
--             one sees to Redis
--   kept      its status does not allow the move, or it is not due
--   unknown   there is no such order
--   stale     the epoch is not the segment's: nothing is done
--
-- `nth`: how many of the user's orders had ended with this one. NULL: it is live, or refused, or ended before that was
-- counted.
--
-- p_journal is the journal entry that asks for it; NULL: none, or one that ends before Redis is filled. Idempotent by
-- order id, and under the segment's row lock, as place_orders(): so no two orders of a user get the same number. p_epoch
-- NULL: of a retired voucher, of which Redis has nothing. Order by order: a plan for all of them that was made while the
-- segment was small would read all its orders, and stay. No seqscan for the same reason.
CREATE FUNCTION return_orders(p_slot integer, p_voucher bigint, p_epoch bigint, p_ids uuid[], p_move text, p_by text,
                              p_why text, p_journal text)
RETURNS TABLE (n integer, outcome text, user_id text, units integer, nth smallint)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    v_status  order_status := split_part(p_move, '-', 1)::order_status;
    v_reason  text := CASE p_move WHEN 'refunded' THEN 'RESTOCKED' WHEN 'refunded-kept' THEN 'KEPT' END;
    v_epoch   bigint;
    v_state   text;
    v_within  integer;
    v_from    order_status[] := ARRAY(SELECT m.from_status FROM order_move m WHERE m.to_status = v_status);
    v_id      uuid;
    v_moved   uuid[] := '{}';
    v_units   integer := 0;
    v_more    integer;
BEGIN
    SELECT v.state, v.pay_within_s INTO v_state, v_within FROM seckill_voucher v WHERE v.id = p_voucher;
    SELECT s.epoch INTO v_epoch
      FROM seckill_segment s WHERE s.voucher_id = p_voucher AND s.slot = p_slot FOR UPDATE;
    IF NOT FOUND OR p_epoch IS DISTINCT FROM (CASE WHEN v_state = 'retired' THEN NULL ELSE v_epoch END) THEN
        RETURN QUERY VALUES (NULL::integer, 'stale', NULL::text, NULL::integer, NULL::smallint);
        RETURN;
    END IF;
    FOREACH v_id IN ARRAY p_ids LOOP
        UPDATE voucher_order o
           SET status = v_status, reason = v_reason, updated_at = now(),
               ended_nth = 1 + coalesce((SELECT max(w.ended_nth) FROM voucher_order w
                                          WHERE w.user_id = o.user_id AND w.voucher_id = p_voucher
                                            AND w.ended_nth IS NOT NULL), 0)
         WHERE o.slot = p_slot AND o.voucher_id = p_voucher AND o.id = v_id AND o.status = ANY (v_from)
           AND (v_status <> 'expired' OR expires_at(o.created_at, v_within) <= now())
        RETURNING o.quantity INTO v_more;
        IF FOUND THEN
            v_moved := v_moved || v_id;
            v_units := v_units + v_more;
        END IF;
    END LOOP;
    IF v_moved <> '{}' THEN
        INSERT INTO order_event (slot, voucher_id, order_id, status, by_whom, why, journal)
        SELECT p_slot, p_voucher, m.id, v_status, p_by, p_why, CASE WHEN v_reason = 'KEPT' THEN p_journal END
          FROM unnest(v_moved) AS m (id);
        IF v_status = 'refunded' THEN
            UPDATE payment p SET state = 'refunded' WHERE p.order_id = ANY (v_moved) AND p.state = 'accepted';
        END IF;
        UPDATE seckill_segment s
           SET stock = stock + CASE WHEN v_reason = 'KEPT' THEN 0 ELSE v_units END,
               live = live - cardinality(v_moved)
         WHERE s.voucher_id = p_voucher AND s.slot = p_slot;
    END IF;
    RETURN QUERY
    SELECT o.n::integer,
           CASE WHEN own.status IS NULL THEN 'unknown'
                WHEN own.status IN ('cancelled', 'expired', 'refunded') THEN 'returned'
                ELSE 'kept' END,
           own.user_id,
           CASE WHEN own.reason = 'KEPT' THEN
                    (SELECT 0 FROM order_event e WHERE e.order_id = own.id AND e.journal = p_journal)
                WHEN own.status IN ('cancelled', 'expired', 'refunded') THEN own.quantity
                ELSE 0 END::integer,
           own.ended_nth
      FROM unnest(p_ids) WITH ORDINALITY AS o (id, n)
      LEFT JOIN LATERAL (SELECT w.id, w.user_id, w.status, w.reason, w.quantity, w.ended_nth
                           FROM voucher_order w
                          WHERE w.slot = p_slot AND w.voucher_id = p_voucher AND w.id = o.id OFFSET 0) own ON true
     ORDER BY o.n;
END
$$;

-- One chunk of a rebuild, in the order of ids. All of its kinds come from one walk along the voucher's orders:
--
--   live    a live order, or one that a dead letter holds: what Redis keeps of its buyer, as place_orders.lua writes it
--   ended   one that has ended, of the last day, that came with an Idempotency-Key; the field is the user and the key
--   passed  any other order, and only about one in 256 of them: the walk has come to here. So a chunk ends within some
--           128,000 rows (50 ms) where nothing is to be kept, and the next one begins behind it
--
-- `nth`: with this order so many of the user's have ended, and that is p_bound or more; else NULL. Whatever its kind: the user
-- is what `field` begins with.
--
-- Fewer rows than p_most: the walk has ended. Each order is read once. The plan is pinned as in 013_rebuild.sql.
DROP FUNCTION rebuild_buyers(integer, bigint, uuid, integer);
CREATE FUNCTION rebuild_buyers(p_slot integer, p_voucher bigint, p_after uuid, p_most integer, p_bound integer)
RETURNS TABLE (id uuid, kind text, field text, value text, nth smallint)
LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT o.id, o.kind, CASE WHEN o.kind = 'ended' THEN o.user_id || ' ' || o.request_key ELSE o.user_id END,
           concat_ws(' ', o.id, CASE WHEN o.quantity > 1 OR o.request_key IS NOT NULL THEN o.quantity END,
                     o.request_key),
           CASE WHEN o.ended_nth >= p_bound THEN o.ended_nth END
      FROM ((SELECT w.id, w.user_id, w.quantity, w.request_key, w.ended_nth,
                    CASE WHEN w.status IN ('unpaid', 'paid') THEN 'live'
                         WHEN w.request_key IS NOT NULL AND w.created_at > now() - interval '1 day' THEN 'ended'
                         ELSE 'passed' END AS kind
               FROM voucher_order w
              WHERE w.slot = p_slot AND w.voucher_id = p_voucher AND w.id > p_after
                AND (w.status IN ('unpaid', 'paid')
                     OR (w.request_key IS NOT NULL AND w.created_at > now() - interval '1 day')
                     OR w.ended_nth >= p_bound
                     OR uuid_hash(w.id) % 256 = 0)
              ORDER BY w.slot, w.voucher_id, w.id
              LIMIT p_most)
            UNION ALL
            (SELECT h.id, h.user_id, h.quantity, h.request_key, NULL, 'live'
               FROM held_order h
              WHERE h.slot = p_slot AND h.voucher_id = p_voucher AND h.id > p_after
              ORDER BY h.id
              LIMIT p_most)) o
     ORDER BY o.id
     LIMIT p_most;
END
$$;

-- As in 011_grants.sql.
DO $$
DECLARE
    v_function text;
BEGIN
    FOREACH v_function IN ARRAY ARRAY['return_orders(integer, bigint, bigint, uuid[], text, text, text, text)',
                                      'rebuild_buyers(integer, bigint, uuid, integer, integer)'] LOOP
        EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER SET search_path = %I, pg_temp', v_function, current_schema());
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', v_function);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO seckill_service', v_function);
    END LOOP;
END
$$;
