-- The two numbers of a journal id; zeros where they are not of the size that they can have. An id only proves what
-- Redis has lost: it must never refuse an order.
CREATE FUNCTION journal_number(p_journal text, p_part integer) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_journal ~ '^[0-9]{1,15}-[0-9]{1,15}$' THEN split_part(p_journal, '-', p_part)::bigint ELSE 0 END
$$;

-- Places a batch of orders for one segment: one round trip, one outcome for each order; n NULL: the same for all of them,
-- which is the common case, and cheaper to make, send and read.
--
--   placed          inserted now, one unit taken
--   already_placed  this very id is a live order: nothing is taken again
--   ended           this id ended before this call (refused, cancelled): the unit that Redis took for it returns
--   duplicate       the user has another live order, live_id; this id is kept as refused, and its unit returns
--   sold_out        this id is not live, and there is no unit that could return
--   stale           the epoch is not the segment's: the caller has been fenced off, nothing is done
--   clash           the id belongs to another user's order: only a forged id comes to this
--
-- An order that ended before this call may have been granted a unit once more by Redis. It returns if PostgreSQL has any
-- left by now; if it has none, Redis has had one too many. tests/model shows both sides of that. `live_id` is the
-- user's live order, if it is another one.
--
-- Idempotent by order id: settling a batch again gives the same end and never revives what has ended. The segment's row
-- lock, taken first and once, orders all batches of a segment. p_journal is the newest journal id of the batch.
CREATE FUNCTION place_orders(p_slot integer, p_voucher bigint, p_epoch bigint, p_ids uuid[], p_users text[],
                             p_journal text DEFAULT NULL)
RETURNS TABLE (n integer, outcome text, live_id uuid)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_stock integer;
    v_epoch bigint;
    v_new   uuid[];
    v_late  uuid;
    v_kept  uuid[];
    v_taken integer;
    v_ms    bigint := journal_number(p_journal, 1);
    v_seq   bigint := journal_number(p_journal, 2);
BEGIN
    SELECT s.stock, s.epoch INTO v_stock, v_epoch
      FROM seckill_segment s WHERE s.voucher_id = p_voucher AND s.slot = p_slot FOR UPDATE;
    IF NOT FOUND OR p_epoch <> v_epoch THEN
        RETURN QUERY VALUES (NULL::integer, 'stale', NULL::uuid);
        RETURN;
    END IF;

    -- Nearly always there is no conflict; then a plain INSERT costs a third less than one that is ready for it.
    BEGIN
        INSERT INTO voucher_order (id, slot, user_id, voucher_id)
        SELECT o.id, p_slot, o.user_id, p_voucher FROM unnest(p_ids, p_users) AS o (id, user_id);
        v_new := p_ids;
    EXCEPTION WHEN unique_violation THEN
        WITH inserted AS (
            INSERT INTO voucher_order (id, slot, user_id, voucher_id)
            SELECT o.id, p_slot, o.user_id, p_voucher FROM unnest(p_ids, p_users) AS o (id, user_id)
            ON CONFLICT DO NOTHING
            RETURNING id)
        SELECT coalesce(array_agg(id), '{}') INTO v_new FROM inserted;
    END;

    v_taken := least(cardinality(v_new), v_stock);
    IF v_taken > 0 THEN
        UPDATE seckill_segment s
           SET stock = stock - v_taken, live = live + v_taken,
               journal_ms = CASE WHEN (v_ms, v_seq) > (journal_ms, journal_seq) THEN v_ms ELSE journal_ms END,
               journal_seq = CASE WHEN (v_ms, v_seq) > (journal_ms, journal_seq) THEN v_seq ELSE journal_seq END
         WHERE s.voucher_id = p_voucher AND s.slot = p_slot;
    END IF;
    IF v_taken = cardinality(p_ids) THEN
        RETURN QUERY VALUES (NULL::integer, 'placed', NULL::uuid);
        RETURN;
    END IF;

    -- The uncommon road. Each order is looked up by itself (LATERAL, OFFSET 0), and each user's live order in the index
    -- that the user stands first in (slot + 0): a plan that was made while the table was small would else go through
    -- all the segment's orders for each one of the batch.
    --
    -- First the orders that came after the last unit ...
    FOR v_late IN SELECT o.id FROM unnest(p_ids) WITH ORDINALITY AS o (id, n)
                   WHERE o.id = ANY (v_new) GROUP BY o.id ORDER BY min(o.n) OFFSET v_taken LOOP
        UPDATE voucher_order own SET status = 'refused', reason = 'SOLD_OUT'
         WHERE own.slot = p_slot AND own.voucher_id = p_voucher AND own.id = v_late;
    END LOOP;
    -- ... then those that met a live order of their user, or one that was just refused: kept, so that their
    -- URL can say why.
    WITH inserted AS (
        INSERT INTO voucher_order (id, slot, user_id, voucher_id, status, reason)
        SELECT o.id, p_slot, o.user_id, p_voucher, 'refused',
               CASE WHEN EXISTS (SELECT FROM voucher_order live
                                  WHERE live.user_id = o.user_id AND live.voucher_id = p_voucher
                                    AND live.slot + 0 = p_slot AND live.status IN ('unpaid', 'paid') OFFSET 0)
                    THEN 'ALREADY_ORDERED' ELSE 'SOLD_OUT' END
          FROM unnest(p_ids, p_users) AS o (id, user_id)
        ON CONFLICT DO NOTHING
        RETURNING id)
    SELECT coalesce(array_agg(id), '{}') INTO v_kept FROM inserted;

    RETURN QUERY
    SELECT o.n::integer,
           CASE WHEN own.user_id <> o.user_id THEN 'clash'
                WHEN own.status IN ('unpaid', 'paid') AND own.id = ANY (v_new) THEN 'placed'
                WHEN own.status IN ('unpaid', 'paid') THEN 'already_placed'
                WHEN own.id <> ALL (v_new || v_kept) AND v_stock = v_taken THEN 'sold_out'
                WHEN own.id <> ALL (v_new || v_kept) THEN 'ended'
                WHEN own.reason = 'SOLD_OUT' THEN 'sold_out'
                ELSE 'duplicate'
           END,
           live.id
      FROM unnest(p_ids, p_users) WITH ORDINALITY AS o (id, user_id, n)
     CROSS JOIN LATERAL (SELECT w.user_id, w.status, w.reason, w.id FROM voucher_order w
                          WHERE w.slot = p_slot AND w.voucher_id = p_voucher AND w.id = o.id OFFSET 0) own
      LEFT JOIN LATERAL (SELECT l.id FROM voucher_order l
                          WHERE l.user_id = o.user_id AND l.voucher_id = p_voucher AND l.slot + 0 = p_slot
                            AND l.status IN ('unpaid', 'paid') AND l.id <> o.id OFFSET 0) live ON true
     ORDER BY o.n;
END
$$;

-- Batches of several segments in one transaction: a commit costs the same for one order as for hundreds. Batch i has the
-- next p_counts[i] of p_ids and p_users. Segments are locked in one order by all callers. All slots are those of one server.
-- Returns the outcomes of place_orders(), and which batch (from 1) they are about.
CREATE FUNCTION place_batches(p_slots integer[], p_vouchers bigint[], p_epochs bigint[], p_counts integer[],
                              p_ids uuid[], p_users text[], p_journals text[])
RETURNS TABLE (n integer, outcome text, live_id uuid, batch integer)
LANGUAGE plpgsql AS $$
DECLARE
    v_firsts integer[]; -- of each batch, in p_ids
    v_ready  bigint;
BEGIN
    SELECT array_agg(f.first ORDER BY f.i) INTO v_firsts
      FROM (SELECT o.i, (sum(o.count) OVER (ORDER BY o.i) - o.count + 1)::integer AS first
              FROM unnest(p_counts) WITH ORDINALITY AS o (count, i)) f;
    SELECT count(*) FILTER (WHERE locked.ready) INTO v_ready
      FROM (SELECT s.epoch = o.epoch AND s.stock >= o.count AS ready
              FROM unnest(p_slots, p_vouchers, p_epochs, p_counts) AS o (slot, voucher, epoch, count)
              JOIN seckill_segment s ON s.voucher_id = o.voucher AND s.slot = o.slot
             ORDER BY s.voucher_id, s.slot
               FOR UPDATE OF s) locked;

    -- Nearly always all can be placed: then all are, at once.
    IF v_ready = cardinality(p_slots) THEN
        BEGIN
            INSERT INTO voucher_order (id, slot, user_id, voucher_id)
            SELECT o.id, p_slots[o.i], o.user_id, p_vouchers[o.i]
              FROM (SELECT p.id, p.user_id, width_bucket(p.k::integer, v_firsts) AS i
                      FROM unnest(p_ids, p_users) WITH ORDINALITY AS p (id, user_id, k)) o;
            UPDATE seckill_segment s
               SET stock = s.stock - o.count, live = s.live + o.count,
                   journal_ms = CASE WHEN (o.ms, o.seq) > (s.journal_ms, s.journal_seq) THEN o.ms ELSE s.journal_ms END,
                   journal_seq = CASE WHEN (o.ms, o.seq) > (s.journal_ms, s.journal_seq) THEN o.seq ELSE s.journal_seq END
              FROM (SELECT u.slot, u.voucher, u.count, journal_number(u.journal, 1) AS ms, journal_number(u.journal, 2) AS seq
                      FROM unnest(p_slots, p_vouchers, p_counts, p_journals) AS u (slot, voucher, count, journal)) o
             WHERE s.voucher_id = o.voucher AND s.slot = o.slot;
            RETURN QUERY SELECT NULL::integer, 'placed'::text, NULL::uuid, i FROM generate_subscripts(p_slots, 1) AS i;
            RETURN;
        EXCEPTION WHEN unique_violation THEN -- one by one
        END;
    END IF;
    FOR i IN 1 .. cardinality(p_slots) LOOP
        RETURN QUERY SELECT p.n, p.outcome, p.live_id, i
                       FROM place_orders(p_slots[i], p_vouchers[i], p_epochs[i],
                                         p_ids[v_firsts[i]:v_firsts[i] + p_counts[i] - 1],
                                         p_users[v_firsts[i]:v_firsts[i] + p_counts[i] - 1], p_journals[i]) p;
    END LOOP;
END
$$;

-- Keeps orders as refused that were accepted once and hold no unit any more, each with its reason. An order
-- that PostgreSQL knows already stays what it is. Returns what each one is now: already_placed or ended.
CREATE FUNCTION refuse_orders(p_slot integer, p_voucher bigint, p_ids uuid[], p_users text[], p_reasons text[])
RETURNS TABLE (n integer, outcome text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    INSERT INTO voucher_order (id, slot, user_id, voucher_id, status, reason)
    SELECT o.id, p_slot, o.user_id, p_voucher, 'refused', o.reason
      FROM unnest(p_ids, p_users, p_reasons) AS o (id, user_id, reason)
    ON CONFLICT DO NOTHING;
    RETURN QUERY
    SELECT o.n::integer, CASE WHEN own.status IN ('unpaid', 'paid') THEN 'already_placed' ELSE 'ended' END
      FROM unnest(p_ids) WITH ORDINALITY AS o (id, n)
     CROSS JOIN LATERAL (SELECT w.status FROM voucher_order w
                          WHERE w.slot = p_slot AND w.voucher_id = p_voucher AND w.id = o.id OFFSET 0) own
     ORDER BY o.n;
END
$$;

-- A user's own order; NULL if it is another's. No row: there is no such order. Normally one sale was in the slot.
CREATE FUNCTION find_order(p_slot integer, p_id uuid, p_user text) RETURNS SETOF json
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN own.user_id = p_user THEN order_details_json(own.o) END
      FROM seckill_segment s
     CROSS JOIN LATERAL (SELECT o, o.user_id FROM voucher_order o
                          WHERE o.slot = s.slot AND o.voucher_id = s.voucher_id AND o.id = p_id OFFSET 0) own
     WHERE s.slot = p_slot
     ORDER BY own.user_id = p_user DESC
     LIMIT 1
$$;

-- The newest orders of one user: their ids, and the finished text of each. After them, without a text, those of the
-- orders p_pending, of the vouchers p_vouchers, that are pending: Redis has them and PostgreSQL does not. Both are of one
-- moment, so an order that is settled just now is shown once, and one that is older than the newest is not taken for
-- pending.
CREATE FUNCTION list_orders(p_user text, p_pending uuid[], p_vouchers bigint[])
RETURNS TABLE (id uuid, document json, voucher_id bigint)
LANGUAGE sql STABLE AS $$
    SELECT l.id, l.document, l.voucher_id
      FROM (SELECT o.id, order_json(o) AS document, o.voucher_id
              FROM (SELECT * FROM voucher_order WHERE user_id = p_user AND status IN ('unpaid', 'paid')
                    UNION ALL
                    SELECT * FROM voucher_order
                     WHERE user_id = p_user AND status IN ('cancelled', 'expired', 'refused', 'refunded')
                    ORDER BY id DESC
                    LIMIT 100) o
            UNION ALL
            SELECT p.id, NULL, p.voucher_id
              FROM unnest(p_pending, p_vouchers) AS p (id, voucher_id)
             WHERE NOT EXISTS (SELECT FROM seckill_segment s
                                CROSS JOIN LATERAL (SELECT FROM voucher_order own
                                                     WHERE own.slot = s.slot AND own.voucher_id = s.voucher_id
                                                       AND own.id = p.id OFFSET 0) own
                                WHERE s.voucher_id = p.voucher_id)) l
     ORDER BY l.document IS NULL, l.id DESC
$$;
