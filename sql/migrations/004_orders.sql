-- Orders that Redis has granted are placed here, a batch at a time.

-- The two numbers of a journal id; zeros where they are not of the size that they can have. An id only proves what
-- Redis has lost: it must never refuse an order.
CREATE FUNCTION journal_number(p_journal text, p_part integer) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_journal ~ '^[0-9]{1,15}-[0-9]{1,15}$' THEN split_part(p_journal, '-', p_part)::bigint ELSE 0 END
$$;

-- Places a batch of orders of one voucher: one round trip, one outcome for each order; n NULL: the same for all of them,
-- which is the common case, and cheaper to make, send and read.
--
--   placed          inserted now, its units taken
--   already_placed  this very id is a live order: nothing is taken again
--   ended           this id ended before this call (refused, cancelled ...): the units that Redis took for it return
--   duplicate       the user has another live order, live_id; this id is kept as refused, and its units return
--   repeated        the user's Idempotency-Key has led to another order, first_id, live or ended: the same as duplicate
--   reused          the same, and that order is of another quantity
--   gone            a refund has kept its units; those that Redis has granted it after gone_by, which is the journal entry
--                   of the refund, return
--   sold_out        this id is not live, and there are no units that could return
--   stale           the epoch is not the voucher's: granted before the last rebuild, nothing is done
--   clash           the id belongs to another user's order: only a forged id comes to this
--
-- An order that ended before this call may have been granted units once more by Redis. They return; but not those of one
-- that was sold out, if PostgreSQL still has none, because then Redis has had too many. `live_id` is the user's live
-- order, if it is another one: of an order that was never live, since the claim of one that was has been given up.
-- tests/model shows each side of this.
--
-- Idempotent by order id: settling a batch again gives the same end and never revives what has ended. The lock on the
-- voucher's row, taken first and once, orders all batches of a voucher. p_journal is the newest journal id of the
-- batch. p_quantities and p_keys are NULL where every order is of one unit and without an Idempotency-Key. p_offer is
-- the offer of all of them.
CREATE FUNCTION place_orders(p_slot integer, p_voucher bigint, p_epoch bigint, p_ids uuid[], p_users text[],
                             p_journal text DEFAULT NULL, p_quantities smallint[] DEFAULT NULL,
                             p_keys text[] DEFAULT NULL, p_offer integer DEFAULT 0)
RETURNS TABLE (n integer, outcome text, live_id uuid, first_id uuid, created_ms bigint, gone_by text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_stock integer;
    v_epoch bigint;
    v_due   uuid;
    v_new   uuid[];
    v_order record;
    v_late  uuid[] := '{}';
    v_kept  uuid[];
    v_taken integer;
    v_units bigint;
    v_ms    bigint := journal_number(p_journal, 1);
    v_seq   bigint := journal_number(p_journal, 2);
BEGIN
    SELECT s.stock, s.epoch, s.due_after INTO v_stock, v_epoch, v_due
      FROM voucher_stock s WHERE s.voucher_id = p_voucher AND s.slot = p_slot FOR UPDATE;
    IF NOT FOUND OR p_epoch <> v_epoch THEN
        RETURN QUERY VALUES (NULL::integer, 'stale', NULL::uuid, NULL::uuid, NULL::bigint, NULL::text);
        RETURN;
    END IF;

    -- Nearly always there is no conflict; then a plain INSERT costs a third less than one that is ready for it.
    BEGIN
        IF p_quantities IS NULL THEN
            INSERT INTO voucher_order (id, slot, user_id, voucher_id, offer)
            SELECT o.id, p_slot, o.user_id, p_voucher, p_offer FROM unnest(p_ids, p_users) AS o (id, user_id);
        ELSE
            INSERT INTO voucher_order (id, slot, user_id, voucher_id, quantity, request_key, offer)
            SELECT o.id, p_slot, o.user_id, p_voucher, o.quantity, o.key, p_offer
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
            INSERT INTO voucher_order (id, slot, user_id, voucher_id, quantity, request_key, offer)
            SELECT o.id, p_slot, o.user_id, p_voucher, coalesce(o.quantity, 1), o.key, p_offer
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
    END IF;
    IF v_taken = cardinality(p_ids) THEN
        RETURN QUERY VALUES (NULL::integer, 'placed', NULL::uuid, NULL::uuid, unix_ms(now()), NULL::text);
        RETURN;
    END IF;

    -- The uncommon road. Each order is looked up by itself (LATERAL, OFFSET 0), and each user's live order in the index
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
                                  WHERE live.user_id = o.user_id AND live.voucher_id = p_voucher
                                    AND live.slot + 0 = p_slot AND live.status IN ('unpaid', 'paid') OFFSET 0)
                    THEN 'ALREADY_ORDERED' ELSE 'SOLD_OUT' END
          FROM unnest(p_ids, p_users, p_quantities, p_keys) AS o (id, user_id, quantity, key)
        ON CONFLICT DO NOTHING
        RETURNING id)
    SELECT coalesce(array_agg(id), '{}') INTO v_kept FROM inserted;

    RETURN QUERY
    SELECT o.n::integer,
           CASE WHEN own.user_id <> o.user_id THEN 'clash'
                WHEN own.status IN ('unpaid', 'paid') AND own.id = ANY (v_new) THEN 'placed'
                WHEN own.status IN ('unpaid', 'paid') THEN 'already_placed'
                WHEN own.reason = 'KEPT' THEN 'gone'
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
                THEN (SELECT e.journal FROM order_event e WHERE e.order_id = own.id AND e.journal IS NOT NULL) END
      FROM unnest(p_ids, p_users, p_keys) WITH ORDINALITY AS o (id, user_id, key, n)
     CROSS JOIN LATERAL (SELECT w.user_id, w.status, w.reason, w.id, w.quantity, w.created_at
                           FROM voucher_order w
                          WHERE w.slot = p_slot AND w.voucher_id = p_voucher AND w.id = o.id OFFSET 0) own
      LEFT JOIN LATERAL (SELECT l.id FROM voucher_order l
                          WHERE l.user_id = o.user_id AND l.voucher_id = p_voucher AND l.slot + 0 = p_slot
                            AND l.status IN ('unpaid', 'paid') AND l.id <> o.id OFFSET 0) live ON true
      LEFT JOIN LATERAL (SELECT f.id, f.quantity FROM voucher_order f
                          WHERE f.user_id = o.user_id AND f.voucher_id = p_voucher AND f.request_key = o.key
                            AND f.id <> o.id OFFSET 0) first ON true
     ORDER BY o.n;
END
$$;

-- Batches of several vouchers in one transaction: a commit costs the same for one order as for hundreds. Batch i has
-- the next p_counts[i] of p_ids, p_users, p_quantities and p_keys, all of p_offers[i]. No voucher may have two of the
-- batches: its row is updated once, so the units of the second one would stay in the stock. All callers lock vouchers
-- in one order. All slots are those of one server. Returns the outcomes of place_orders(), and which batch (from 1)
-- they are about.
CREATE FUNCTION place_batches(p_slots integer[], p_vouchers bigint[], p_epochs bigint[], p_counts integer[],
                              p_ids uuid[], p_users text[], p_journals text[],
                              p_quantities smallint[] DEFAULT NULL, p_keys text[] DEFAULT NULL,
                              p_offers integer[] DEFAULT NULL)
RETURNS TABLE (n integer, outcome text, live_id uuid, first_id uuid, created_ms bigint, gone_by text, batch integer)
LANGUAGE plpgsql AS $$
DECLARE
    v_firsts integer[]; -- of each batch, in p_ids
    v_lasts  integer[];
    v_units  integer[] := p_counts;
    v_ready  bigint;
BEGIN
    IF (SELECT count(DISTINCT v) FROM unnest(p_vouchers) AS v) <> cardinality(p_vouchers) THEN
        RAISE EXCEPTION 'place_batches(): two batches of one voucher';
    END IF;
    SELECT array_agg(f.last - f.count + 1 ORDER BY f.i), array_agg(f.last ORDER BY f.i) INTO v_firsts, v_lasts
      FROM (SELECT o.i, o.count, (sum(o.count) OVER (ORDER BY o.i))::integer AS last
              FROM unnest(p_counts) WITH ORDINALITY AS o (count, i)) f;
    IF p_quantities IS NOT NULL THEN
        SELECT array_agg((SELECT sum(q) FROM unnest(p_quantities[v_firsts[i]:v_lasts[i]]) AS q) ORDER BY i) INTO v_units
          FROM generate_subscripts(p_slots, 1) AS i;
    END IF;
    SELECT count(*) FILTER (WHERE locked.ready) INTO v_ready
      FROM (SELECT s.epoch = o.epoch AND s.stock >= o.units
                   AND NOT EXISTS (SELECT FROM unnest(p_ids[o.first:o.last]) AS id WHERE id < s.due_after) AS ready
              FROM unnest(p_slots, p_vouchers, p_epochs, v_units, v_firsts, v_lasts)
                   AS o (slot, voucher, epoch, units, first, last)
              JOIN voucher_stock s ON s.voucher_id = o.voucher AND s.slot = o.slot
             ORDER BY s.voucher_id
               FOR UPDATE OF s) locked;

    -- Nearly always all can be placed: then all are, at once.
    IF v_ready = cardinality(p_slots) THEN
        BEGIN
            INSERT INTO voucher_order (id, slot, user_id, voucher_id, quantity, request_key, offer)
            SELECT o.id, p_slots[o.i], o.user_id, p_vouchers[o.i], coalesce(o.quantity, 1), o.key,
                   coalesce(p_offers[o.i], 0)
              FROM (SELECT p.id, p.user_id, p.quantity, p.key, width_bucket(p.k::integer, v_firsts) AS i
                      FROM unnest(p_ids, p_users, p_quantities, p_keys)
                           WITH ORDINALITY AS p (id, user_id, quantity, key, k)) o;
            UPDATE voucher_stock s
               SET stock = s.stock - o.units, live = s.live + o.count,
                   journal_ms = CASE WHEN (o.ms, o.seq) > (s.journal_ms, s.journal_seq) THEN o.ms ELSE s.journal_ms END,
                   journal_seq = CASE WHEN (o.ms, o.seq) > (s.journal_ms, s.journal_seq) THEN o.seq ELSE s.journal_seq END
              FROM (SELECT u.slot, u.voucher, u.count, u.units, journal_number(u.journal, 1) AS ms,
                           journal_number(u.journal, 2) AS seq
                      FROM unnest(p_slots, p_vouchers, p_counts, v_units, p_journals)
                           AS u (slot, voucher, count, units, journal)) o
             WHERE s.voucher_id = o.voucher AND s.slot = o.slot;
            RETURN QUERY
            SELECT NULL::integer, 'placed'::text, NULL::uuid, NULL::uuid, unix_ms(now()), NULL::text, i
              FROM generate_subscripts(p_slots, 1) AS i;
            RETURN;
        EXCEPTION WHEN unique_violation THEN -- one by one
        END;
    END IF;
    FOR i IN 1 .. cardinality(p_slots) LOOP
        RETURN QUERY SELECT p.n, p.outcome, p.live_id, p.first_id, p.created_ms, p.gone_by, i
                       FROM place_orders(p_slots[i], p_vouchers[i], p_epochs[i], p_ids[v_firsts[i]:v_lasts[i]],
                                         p_users[v_firsts[i]:v_lasts[i]], p_journals[i],
                                         p_quantities[v_firsts[i]:v_lasts[i]], p_keys[v_firsts[i]:v_lasts[i]],
                                         coalesce(p_offers[i], 0)) p;
    END LOOP;
END
$$;

-- What Redis keeps of the buyer of an order, as place_orders.lua writes it: a correction that puts another live order
-- in the place of a refused one must not lose its quantity and key, or a repeat of that order would not be known as
-- one. VOLATILE: it sees what the call of place_orders() beside it has done and waited for.
CREATE FUNCTION buyer_value(p_slot integer, p_voucher bigint, p_id uuid) RETURNS text
LANGUAGE plpgsql STRICT AS $$
BEGIN
    RETURN (SELECT concat_ws(' ', w.id, CASE WHEN w.quantity > 1 OR w.request_key IS NOT NULL THEN w.quantity END,
                             w.request_key)
              FROM voucher_order w
             WHERE w.slot = p_slot AND w.voucher_id = p_voucher AND w.id = p_id);
END
$$;

-- Keeps orders as refused that were accepted once and hold no unit any more, each with its reason. An order
-- that PostgreSQL knows already stays what it is; one of a voucher that was archived may be in a file, and is not written
-- once more. Returns what each one is now: already_placed or ended.
CREATE FUNCTION refuse_orders(p_slot integer, p_voucher bigint, p_ids uuid[], p_users text[], p_reasons text[],
                              p_quantities smallint[], p_offers integer[] DEFAULT NULL)
RETURNS TABLE (n integer, outcome text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    INSERT INTO voucher_order (id, slot, user_id, voucher_id, quantity, offer, status, reason)
    SELECT o.id, p_slot, o.user_id, p_voucher, o.quantity, coalesce(o.offer, 0), 'refused', o.reason
      FROM unnest(p_ids, p_users, p_reasons, p_quantities, p_offers) AS o (id, user_id, reason, quantity, offer)
     WHERE NOT EXISTS (SELECT FROM archived_voucher a WHERE a.voucher_id = p_voucher)
    ON CONFLICT DO NOTHING;
    RETURN QUERY
    SELECT o.n::integer, CASE WHEN own.status IN ('unpaid', 'paid') THEN 'already_placed' ELSE 'ended' END
      FROM unnest(p_ids) WITH ORDINALITY AS o (id, n)
      LEFT JOIN LATERAL (SELECT w.status FROM voucher_order w
                          WHERE w.slot = p_slot AND w.voucher_id = p_voucher AND w.id = o.id OFFSET 0) own ON true
     ORDER BY o.n;
END
$$;

-- A user's own order; NULL if it is another's. No row: there is no such order. Normally one sale was in the slot. What is
-- asked as often as this is PL/pgSQL, which keeps its plan; SQL that runs as its owner is planned in each call.
CREATE FUNCTION find_order(p_slot integer, p_id uuid, p_user text) RETURNS SETOF json
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY
    SELECT CASE WHEN own.user_id = p_user THEN order_details_json(own.o) END
      FROM voucher_stock s
     CROSS JOIN LATERAL (SELECT o, o.user_id FROM voucher_order o
                          WHERE o.slot = s.slot AND o.voucher_id = s.voucher_id AND o.id = p_id OFFSET 0) own
     WHERE s.slot = p_slot
     ORDER BY own.user_id = p_user DESC
     LIMIT 1;
END
$$;
