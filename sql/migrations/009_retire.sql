-- The end of a sale: when nothing of it is open, the voucher is retired. It leaves Redis and the catalogue, and may be
-- recalled.

-- Whether something of a voucher is open that its retirement would leave so for ever: a dead letter that waits for a
-- decision, or an order that is still to expire. The plan is pinned as that of rebuild_buyers().
CREATE FUNCTION voucher_is_open(p_voucher bigint) RETURNS boolean
LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    v_stock voucher_stock;
BEGIN
    IF EXISTS (SELECT FROM dead_letter d WHERE d.voucher_id = p_voucher AND d.ended_at IS NULL) THEN
        RETURN true;
    END IF;
    SELECT s.* INTO v_stock FROM voucher_stock s JOIN seckill_voucher v ON v.id = s.voucher_id
     WHERE s.voucher_id = p_voucher AND s.live > 0 AND v.pay_within_s > 0;
    IF FOUND THEN
        PERFORM FROM voucher_order o
          WHERE o.slot = v_stock.slot AND o.voucher_id = p_voucher AND o.id >= v_stock.due_after AND o.status = 'unpaid'
          ORDER BY o.slot, o.voucher_id, o.id LIMIT 1;
    END IF;
    RETURN FOUND;
END
$$;

-- Whether a voucher's sale ended so long ago by this server's clock, and nothing of it is open. Asked before Redis is
-- closed for it; it locks nothing, so retire_voucher() decides once more. A voucher that was recalled stays as long as one
-- whose sale has just ended.
CREATE FUNCTION may_retire(p_voucher bigint, p_after_ms bigint) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM seckill_voucher v
                    WHERE v.id = p_voucher AND v.state <> 'retired'
                      AND greatest(v.end_at, v.recalled_at) + p_after_ms * interval '1 ms' <= now())
           AND NOT voucher_is_open(p_voucher)
$$;

-- Retires a voucher whose sale has ended and of which nothing is open, if it is still under the epoch that the caller
-- saw. It gets a new epoch, so an instance that still holds an order of it is fenced off.
CREATE FUNCTION retire_voucher(p_voucher bigint, p_slot integer, p_epoch bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM seckill_catalogue FOR UPDATE; -- as everything that changes a voucher: before its own row
    PERFORM FROM voucher_stock s WHERE s.voucher_id = p_voucher FOR UPDATE;
    IF NOT EXISTS (SELECT FROM voucher_stock s
                    WHERE s.voucher_id = p_voucher AND s.slot = p_slot AND s.epoch = p_epoch)
       OR voucher_is_open(p_voucher) THEN
        RETURN false;
    END IF;
    UPDATE seckill_voucher v SET state = 'retired'
     WHERE v.id = p_voucher AND v.end_at <= now() AND v.state <> 'retired';
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE voucher_stock s SET epoch = s.epoch + 1, journal_ms = 0, journal_seq = 0 WHERE s.voucher_id = p_voucher;
    RETURN true;
END
$$;

-- Makes a retired voucher one of the catalogue again, closed: 'recalled'; or 'archived': its orders are not all here;
-- or 'none': it is not retired.
CREATE FUNCTION recall_voucher(p_voucher bigint) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM seckill_catalogue FOR UPDATE;
    IF EXISTS (SELECT FROM archived_voucher a WHERE a.voucher_id = p_voucher) THEN
        RETURN 'archived';
    END IF;
    UPDATE seckill_voucher v SET state = 'closed', recalled_at = now() WHERE v.id = p_voucher AND v.state = 'retired';
    RETURN CASE WHEN FOUND THEN 'recalled' ELSE 'none' END;
END
$$;

-- A voucher that is not in the catalogue: its state (NULL: there is none; 'archived': retired, and orders of it are in
-- files), and the live order that the user has of it.
CREATE FUNCTION find_retired(p_voucher bigint, p_user text) RETURNS TABLE (state text, live_id uuid)
LANGUAGE sql STABLE AS $$
    SELECT (SELECT CASE WHEN EXISTS (SELECT FROM archived_orders a WHERE a.voucher_id = p_voucher) THEN 'archived'
                        ELSE v.state END
              FROM seckill_voucher v WHERE v.id = p_voucher),
           (SELECT o.id FROM voucher_order o
             WHERE o.user_id = p_user AND o.voucher_id = p_voucher AND o.status IN ('unpaid', 'paid')
             LIMIT 1)
$$;

-- What is to be known of an order that no sale of the catalogue has: the newest epoch at which a sale in its slot was
-- retired (0: none was), and whether the order may be one that was moved out to a file.
CREATE FUNCTION retired_epoch(p_slot integer, p_id uuid) RETURNS TABLE (epoch bigint, archived boolean)
LANGUAGE sql STABLE AS $$
    SELECT (SELECT coalesce(max(s.epoch), 0)
              FROM voucher_stock s
              JOIN seckill_voucher v ON v.id = s.voucher_id
             WHERE s.slot = p_slot AND v.state = 'retired'),
           EXISTS (SELECT FROM archived_orders a
                    WHERE a.slot = p_slot AND p_id BETWEEN a.first_id AND a.last_id)
$$;
