-- What a rebuild reads and whether a sale may be retired, in a plan that the planner cannot leave: along the key (slot,
-- voucher_id, id), in its order. It had taken the index of live orders, or a bitmap, for each chunk, where ended orders
-- outnumber live ones; then each chunk read the live orders of all vouchers.
--
-- Without bitmaps, sorts and sequential scans only the key gives rows in its own order. No JIT: each row counts as expensive
-- to a planner that was forbidden something, and compiling would take longer than a chunk.

-- One chunk of a rebuild, in the order of ids. All of its kinds come from one walk along the voucher's orders:
--
--   live    a live order, or one that a dead letter holds: what Redis keeps of its buyer, as place_orders.lua writes it
--   ended   one that has ended, of the last day, that came with an Idempotency-Key; the field is the user and the key
--   passed  any other order, and only about one in 256 of them: the walk has come to here. So a chunk ends within some
--           128,000 rows (50 ms) where nothing is to be kept, and the next one begins behind it
--
-- Fewer rows than p_most: the walk has ended. Each order is read once.
DROP FUNCTION rebuild_buyers(integer, bigint, uuid, integer);
CREATE FUNCTION rebuild_buyers(p_slot integer, p_voucher bigint, p_after uuid, p_most integer)
RETURNS TABLE (id uuid, kind text, field text, value text)
LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT o.id, o.kind, CASE WHEN o.kind = 'ended' THEN o.user_id || ' ' || o.request_key ELSE o.user_id END,
           concat_ws(' ', o.id, CASE WHEN o.quantity > 1 OR o.request_key IS NOT NULL THEN o.quantity END,
                     o.request_key)
      FROM ((SELECT w.id, w.user_id, w.quantity, w.request_key,
                    CASE WHEN w.status IN ('unpaid', 'paid') THEN 'live'
                         WHEN w.request_key IS NOT NULL AND w.created_at > now() - interval '1 day' THEN 'ended'
                         ELSE 'passed' END AS kind
               FROM voucher_order w
              WHERE w.slot = p_slot AND w.voucher_id = p_voucher AND w.id > p_after
                AND (w.status IN ('unpaid', 'paid')
                     OR (w.request_key IS NOT NULL AND w.created_at > now() - interval '1 day')
                     OR uuid_hash(w.id) % 256 = 0)
              ORDER BY w.slot, w.voucher_id, w.id
              LIMIT p_most)
            UNION ALL
            (SELECT h.id, h.user_id, h.quantity, h.request_key, 'live'
               FROM held_order h
              WHERE h.slot = p_slot AND h.voucher_id = p_voucher AND h.id > p_after
              ORDER BY h.id
              LIMIT p_most)) o
     ORDER BY o.id
     LIMIT p_most;
END
$$;

-- Whether something of a voucher is open that its retirement would leave so for ever: a dead letter that waits for a
-- decision, or an order that is still to expire.
CREATE FUNCTION voucher_is_open(p_voucher bigint) RETURNS boolean
LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    v_segment record;
BEGIN
    IF EXISTS (SELECT FROM dead_letter d WHERE d.voucher_id = p_voucher AND d.ended_at IS NULL) THEN
        RETURN true;
    END IF;
    FOR v_segment IN SELECT s.slot, s.due_after FROM seckill_segment s JOIN seckill_voucher v ON v.id = s.voucher_id
                      WHERE s.voucher_id = p_voucher AND s.live > 0 AND v.pay_within_s > 0 LOOP
        PERFORM FROM voucher_order o
          WHERE o.slot = v_segment.slot AND o.voucher_id = p_voucher AND o.id >= v_segment.due_after
            AND o.status = 'unpaid'
          ORDER BY o.slot, o.voucher_id, o.id LIMIT 1;
        IF FOUND THEN
            RETURN true;
        END IF;
    END LOOP;
    RETURN false;
END
$$;

-- Retires a voucher whose sale has ended and of which nothing is open, if the segment is still under the epoch that the
-- caller saw. All its segments get a new epoch, so an instance that still holds an order of it is fenced off.
CREATE OR REPLACE FUNCTION retire_voucher(p_voucher bigint, p_slot integer, p_epoch bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM seckill_catalogue FOR UPDATE; -- as everything that changes a voucher: before its own row
    PERFORM FROM seckill_segment s WHERE s.voucher_id = p_voucher ORDER BY s.segment FOR UPDATE;
    IF NOT EXISTS (SELECT FROM seckill_segment s
                    WHERE s.voucher_id = p_voucher AND s.slot = p_slot AND s.epoch = p_epoch)
       OR voucher_is_open(p_voucher) THEN
        RETURN false;
    END IF;
    UPDATE seckill_voucher v SET state = 'retired'
     WHERE v.id = p_voucher AND v.end_at <= now() AND v.state <> 'retired';
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE seckill_segment s SET epoch = s.epoch + 1, journal_ms = 0, journal_seq = 0 WHERE s.voucher_id = p_voucher;
    RETURN true;
END
$$;

-- As in 011_grants.sql.
DO $$
DECLARE
    v_function text;
BEGIN
    FOREACH v_function IN ARRAY ARRAY['rebuild_buyers(integer, bigint, uuid, integer)',
                                      'retire_voucher(bigint, integer, bigint)'] LOOP
        EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER SET search_path = %I, pg_temp', v_function, current_schema());
    END LOOP;
END
$$;
REVOKE EXECUTE ON FUNCTION rebuild_buyers(integer, bigint, uuid, integer), voucher_is_open(bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION rebuild_buyers(integer, bigint, uuid, integer) TO seckill_service;
