-- What Redis is compared with, and rebuilt from.

-- What Redis must agree with, for each of these segments: epoch, newest journal id, units neither in live orders nor held
-- by dead letters, users with a live or held order; and of their vouchers, at the same moment, state, window and the
-- change number. Costs the same however many orders there are.
CREATE FUNCTION segment_accounts(p_slots integer[], p_vouchers bigint[])
RETURNS TABLE (slot smallint, voucher_id bigint, epoch bigint, journal_ms bigint, journal_seq bigint, stock bigint,
               buyers bigint, change bigint, state text, begin_ms bigint, end_ms bigint, letters bigint)
LANGUAGE sql STABLE AS $$
    SELECT s.slot, s.voucher_id, s.epoch, s.journal_ms, s.journal_seq, greatest(s.stock - h.units, 0), s.live + h.users,
           v.change, v.state, unix_ms(v.begin_at), unix_ms(v.end_at),
           (SELECT count(*) FROM dead_letter d
             WHERE d.voucher_id = s.voucher_id AND d.slot = s.slot AND d.ended_at IS NULL)
      FROM unnest(p_slots, p_vouchers) AS asked (slot, voucher_id)
      JOIN seckill_segment s ON s.voucher_id = asked.voucher_id AND s.slot = asked.slot
      JOIN seckill_voucher v ON v.id = s.voucher_id
     CROSS JOIN LATERAL (SELECT coalesce(sum(held.quantity), 0) AS units, count(DISTINCT held.user_id) AS users
                           FROM held_order held
                          WHERE held.voucher_id = s.voucher_id AND held.slot = s.slot) h
$$;

-- Fences every writer of the segment that is still in flight. The new epoch is newer than Redis's too, should that be
-- ahead: of a database that was restored, say. One that is a billion ahead was forged: rebuild_begin.lua overrules it.
-- Journal ids start from the beginning. No row: there is no such segment, or its voucher is retired.
CREATE FUNCTION rebuild_epoch(p_slot integer, p_voucher bigint, p_seen bigint) RETURNS SETOF bigint
LANGUAGE sql AS $$
    UPDATE seckill_segment s
       SET epoch = CASE WHEN p_seen <= s.epoch + 1000000000 THEN greatest(s.epoch, p_seen) ELSE s.epoch END + 1,
           journal_ms = 0, journal_seq = 0
     WHERE s.voucher_id = p_voucher AND s.slot = p_slot
       AND NOT EXISTS (SELECT FROM seckill_voucher v WHERE v.id = p_voucher AND v.state = 'retired')
    RETURNING s.epoch
$$;

-- What the segment is to be opened with, at one moment: stock, terms, number of buyers, the change number of the terms.
-- No row: the epoch is no longer the segment's.
CREATE FUNCTION rebuild_stock(p_slot integer, p_voucher bigint, p_epoch bigint)
RETURNS TABLE (stock bigint, begin_ms bigint, end_ms bigint, state text, buyers bigint, change bigint)
LANGUAGE sql STABLE AS $$
    SELECT a.stock, a.begin_ms, a.end_ms, a.state, a.buyers, a.change
      FROM segment_accounts(ARRAY[p_slot], ARRAY[p_voucher]) a
     WHERE a.epoch = p_epoch
$$;

-- One chunk of a segment's buyers, live orders and held ones, in the order of their ids: what Redis keeps of each, as
-- place_orders.lua writes it. Between them the orders that have ended, of the
-- last day, if they had such a key (`ended`): their field is the user and the key.
CREATE FUNCTION rebuild_buyers(p_slot integer, p_voucher bigint, p_after uuid, p_most integer)
RETURNS TABLE (id uuid, user_id text, value text, ended boolean)
LANGUAGE sql STABLE AS $$
    SELECT o.id, CASE WHEN o.ended THEN o.user_id || ' ' || o.request_key ELSE o.user_id END, concat_ws(' ', o.id, CASE WHEN o.quantity > 1 OR o.request_key IS NOT NULL THEN o.quantity END,
                                      o.request_key),
           o.ended
      FROM ((SELECT w.id, w.user_id, w.quantity, w.request_key, w.status NOT IN ('unpaid', 'paid') AS ended
               FROM voucher_order w
              WHERE w.slot = p_slot AND w.voucher_id = p_voucher AND w.id > p_after
                AND (w.status IN ('unpaid', 'paid')
                     OR (w.request_key IS NOT NULL AND w.created_at > now() - interval '1 day'))
              ORDER BY w.id
              LIMIT p_most)
            UNION ALL
            (SELECT h.id, h.user_id, h.quantity, h.request_key, false
               FROM held_order h
              WHERE h.slot = p_slot AND h.voucher_id = p_voucher AND h.id > p_after
              ORDER BY h.id
              LIMIT p_most)
            ORDER BY id
            LIMIT p_most) o
     ORDER BY o.id
$$;
