-- What Redis is compared with, rebuilt from, and brought up to date with.

-- What Redis must agree with, for each of these vouchers, at one moment: epoch, newest journal id, units neither in
-- live orders nor held by dead letters, users with a live or held order, state, window, offer and change number. Costs
-- the same however many orders there are.
CREATE FUNCTION voucher_accounts(p_slots integer[], p_vouchers bigint[])
RETURNS TABLE (slot smallint, voucher_id bigint, epoch bigint, journal_ms bigint, journal_seq bigint, stock bigint,
               buyers bigint, change bigint, state text, begin_ms bigint, end_ms bigint, letters bigint,
               offer integer)
LANGUAGE sql STABLE AS $$
    SELECT s.slot, s.voucher_id, s.epoch, s.journal_ms, s.journal_seq, greatest(s.stock - h.units, 0), s.live + h.users,
           v.change, v.state, unix_ms(v.begin_at), unix_ms(v.end_at),
           (SELECT count(*) FROM dead_letter d
             WHERE d.voucher_id = s.voucher_id AND d.slot = s.slot AND d.ended_at IS NULL),
           v.offer
      FROM unnest(p_slots, p_vouchers) AS asked (slot, voucher_id)
      JOIN voucher_stock s ON s.voucher_id = asked.voucher_id AND s.slot = asked.slot
      JOIN seckill_voucher v ON v.id = s.voucher_id
     CROSS JOIN LATERAL (SELECT coalesce(sum(held.quantity), 0) AS units, count(DISTINCT held.user_id) AS users
                           FROM held_order held
                          WHERE held.voucher_id = s.voucher_id AND held.slot = s.slot) h
$$;

-- What Redis is to be brought up to date with, at one moment: state, window, offer, and the units that were added after
-- p_after. What was taken away is not among them: it has left Redis before. No row: the voucher is retired.
CREATE FUNCTION voucher_changes(p_slot integer, p_voucher bigint, p_after bigint)
RETURNS TABLE (change bigint, state text, begin_ms bigint, end_ms bigint, added bigint, offer integer)
LANGUAGE sql STABLE AS $$
    SELECT v.change, v.state, unix_ms(v.begin_at), unix_ms(v.end_at),
           (SELECT coalesce(sum(c.units), 0) FROM stock_change c
             WHERE c.voucher_id = s.voucher_id AND c.change > p_after AND c.units > 0),
           v.offer
      FROM voucher_stock s
      JOIN seckill_voucher v ON v.id = s.voucher_id
     WHERE s.voucher_id = p_voucher AND s.slot = p_slot AND v.state <> 'retired'
$$;

-- Fences every writer of the voucher that is still in flight. The new epoch is newer than Redis's too, should that be
-- ahead: of a database that was restored, say. One that is a billion ahead was forged: rebuild_begin.lua overrules it.
-- Journal ids start from the beginning. Refusals may be cached for p_cache_ms from now on, or for longer where that
-- applied before (`cached_ms`): other instances may have such ones, so it never shrinks. No row: there is no such
-- voucher, or it is retired.
CREATE FUNCTION rebuild_epoch(p_slot integer, p_voucher bigint, p_seen bigint, p_cache_ms integer)
RETURNS TABLE (epoch bigint, cached_ms integer, cache_ms integer)
LANGUAGE sql AS $$
    WITH before AS (
        SELECT b.voucher_id, b.cache_ms
          FROM voucher_stock b
         WHERE b.voucher_id = p_voucher AND b.slot = p_slot
           AND NOT EXISTS (SELECT FROM seckill_voucher v WHERE v.id = p_voucher AND v.state = 'retired')
           FOR UPDATE)
    UPDATE voucher_stock s
       SET epoch = CASE WHEN p_seen <= s.epoch + 1000000000 THEN greatest(s.epoch, p_seen) ELSE s.epoch END + 1,
           journal_ms = 0, journal_seq = 0, cache_ms = greatest(s.cache_ms, p_cache_ms)
      FROM before b
     WHERE s.voucher_id = b.voucher_id
    RETURNING s.epoch, b.cache_ms, s.cache_ms
$$;

-- What the voucher is to be opened with, at one moment: stock, terms, number of buyers, the change number of the terms.
-- No row: the epoch is no longer the voucher's.
CREATE FUNCTION rebuild_stock(p_slot integer, p_voucher bigint, p_epoch bigint)
RETURNS TABLE (stock bigint, begin_ms bigint, end_ms bigint, state text, buyers bigint, change bigint, offer integer)
LANGUAGE sql STABLE AS $$
    SELECT a.stock, a.begin_ms, a.end_ms, a.state, a.buyers, a.change, a.offer
      FROM voucher_accounts(ARRAY[p_slot], ARRAY[p_voucher]) a
     WHERE a.epoch = p_epoch
$$;

-- One chunk of a rebuild, in the order of ids. All of its kinds come from one walk along the voucher's orders:
--
--   live    a live order, or one that a dead letter holds: what Redis keeps of its buyer, as place_orders.lua writes it
--   ended   one that has ended, of the last day, that came with an Idempotency-Key; the field is the user and the key
--   passed  any other order, and only about one in 256 of them: the walk has come to here. So a chunk ends within some
--           128,000 rows (50 ms) where nothing is to be kept, and the next one begins behind it
--
-- `nth`: with this order so many of the user's have ended, and that is p_bound or more; else NULL. Whatever its kind:
-- the user is what `field` begins with.
--
-- Fewer rows than p_most: the walk has ended. Each order is read once.
--
-- The plan is one that the planner cannot leave: along the key (slot, voucher_id, id), in its order. It had taken the
-- index of live orders, or a bitmap, for each chunk, where ended orders outnumber live ones; then each chunk read the
-- live orders of all vouchers. Without bitmaps, sorts and sequential scans only the key gives rows in its own order.
-- No JIT: each row counts as expensive to a planner that was forbidden something, and compiling would take longer than
-- a chunk.
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
