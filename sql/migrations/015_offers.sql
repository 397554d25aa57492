-- Offers: numbered versions of what a buyer agrees to.
--
-- An instance checks limit, ticket and price of an order in memory, and names the offer by which it did. Redis grants
-- under the voucher's offer only (place_orders.lua), and the order keeps its number: so terms that change cost no buyer
-- another price than the one that was seen, and no instance sells under terms that it has not heard are over. The window
-- is not part of it, because place_orders.lua checks the window itself.

CREATE TABLE seckill_offer (
    voucher_id  bigint   NOT NULL,
    offer       integer  NOT NULL,
    price_cents bigint   NOT NULL, -- of one unit
    currency    text     NOT NULL,
    user_limit  smallint NOT NULL,
    ticket      boolean  NOT NULL,
    work_bits   smallint NOT NULL,
    PRIMARY KEY (voucher_id, offer)
);
INSERT INTO seckill_offer
SELECT v.id, v.offer, v.price_cents, v.currency, v.user_limit, v.ticket, v.work_bits FROM seckill_voucher v;

-- 0: it is older than this table, and has the voucher's first offer that is kept (order_offer()).
ALTER TABLE voucher_order ADD COLUMN offer integer NOT NULL DEFAULT 0;
ALTER TABLE dead_letter ADD COLUMN offer integer NOT NULL DEFAULT 0;
ALTER TABLE archived_orders ADD COLUMN offer integer NOT NULL DEFAULT 0;
ALTER TABLE archived_orders DROP CONSTRAINT archived_orders_pkey;
ALTER TABLE archived_orders ADD PRIMARY KEY (slot, voucher_id, status, reason, offer);

-- The terms that an order was placed under. No order is refused because its offer is not known: a number that only a
-- forged journal entry can name counts as 0.
CREATE FUNCTION order_offer(p_voucher bigint, p_offer integer) RETURNS SETOF seckill_offer
LANGUAGE sql STABLE ROWS 1 AS $$
    SELECT f.* FROM seckill_offer f WHERE f.voucher_id = p_voucher ORDER BY f.offer <> p_offer, f.offer LIMIT 1
$$;

-- ---- changes ----

-- A new offer makes tickets of the one before it void.
CREATE OR REPLACE FUNCTION number_voucher_change() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE seckill_catalogue SET change = change + 1 RETURNING change INTO NEW.change;
    IF TG_OP = 'UPDATE'
       AND (NEW.price_cents, NEW.currency, NEW.user_limit, NEW.ticket, NEW.work_bits)
           <> (OLD.price_cents, OLD.currency, OLD.user_limit, OLD.ticket, OLD.work_bits) THEN
        NEW.offer := OLD.offer + 1;
    END IF;
    PERFORM pg_notify('seckill_catalogue', '');
    RETURN NEW;
END
$$;

CREATE FUNCTION keep_offer() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO seckill_offer (voucher_id, offer, price_cents, currency, user_limit, ticket, work_bits)
    VALUES (NEW.id, NEW.offer, NEW.price_cents, NEW.currency, NEW.user_limit, NEW.ticket, NEW.work_bits)
        ON CONFLICT DO NOTHING;
    RETURN NULL;
END
$$;

CREATE TRIGGER keep_offer AFTER INSERT OR UPDATE ON seckill_voucher
    FOR EACH ROW EXECUTE FUNCTION keep_offer();

-- As in 003_catalogue.sql, with the price: an instance compares it with the one that an order was checked under.
DROP FUNCTION catalogue_changes(bigint, integer, bigint);
CREATE FUNCTION catalogue_changes(p_after bigint, p_most integer, p_first bigint DEFAULT 0)
RETURNS TABLE (newest_change bigint, newest_voucher bigint, change bigint, voucher_id bigint, state text,
               begin_ms bigint, end_ms bigint, segments smallint, segment smallint, tag text, slot smallint,
               user_limit smallint, pay_within_s integer, ticket integer, work_bits smallint, offer integer,
               price_cents bigint, currency text)
LANGUAGE sql STABLE AS $$
    SELECT c.change, coalesce((SELECT max(id) FROM seckill_voucher), 0), v.change, v.id, v.state,
           unix_ms(v.begin_at), unix_ms(v.end_at), v.segments, s.segment, s.tag, s.slot,
           v.user_limit, v.pay_within_s, v.ticket::integer, v.work_bits, v.offer, v.price_cents, v.currency
      FROM seckill_catalogue c
      LEFT JOIN ((SELECT * FROM seckill_voucher changed
                   WHERE changed.change > p_after
                     AND (changed.state <> 'retired' OR (p_after > 0 AND changed.change > p_first))
                   ORDER BY changed.change
                   LIMIT p_most) v
                 JOIN seckill_segment s ON s.voucher_id = v.id) ON true
     ORDER BY v.change, s.segment
$$;

-- NULL leaves a term as it is. Before the start, and before the first order, all may change; after it only the title, the
-- end to a later time, and what tickets take, since robots come when a sale is on. The first order may be in Redis alone
-- while this looks: it keeps the offer that it was placed under.
CREATE OR REPLACE FUNCTION change_voucher(p_id bigint, p_if_match bigint, p_key text, p_by text, p_title text,
                               p_price_cents bigint, p_currency text, p_begin_ms bigint, p_end_ms bigint,
                               p_user_limit smallint, p_pay_within_s integer, p_ticket boolean DEFAULT NULL,
                               p_work_bits smallint DEFAULT NULL)
RETURNS operation_end
LANGUAGE plpgsql AS $$
DECLARE
    v_request bytea := operation_request('change', p_id::text, p_title, p_price_cents::text, p_currency,
                                         p_begin_ms::text, p_end_ms::text, p_user_limit::text, p_pay_within_s::text,
                                         p_ticket::text, p_work_bits::text);
    v_outcome text := begin_operation(p_id, p_if_match, p_key, v_request);
    v_old     seckill_voucher;
    v_new     seckill_voucher;
    v_begun   boolean;
BEGIN
    IF v_outcome IS NOT NULL THEN
        RETURN end_operation(v_outcome, p_id, p_key, v_request);
    END IF;
    SELECT v.* INTO v_old FROM seckill_voucher v WHERE v.id = p_id;
    v_begun := v_old.begin_at <= clock_timestamp()
        OR EXISTS (SELECT FROM seckill_segment s
                    CROSS JOIN LATERAL (SELECT FROM voucher_order o
                                         WHERE o.slot = s.slot AND o.voucher_id = s.voucher_id
                                         LIMIT 1 OFFSET 0) first
                    WHERE s.voucher_id = p_id)
        OR EXISTS (SELECT FROM dead_letter d WHERE d.voucher_id = p_id AND d.ended_at IS NULL);
    v_new := v_old;
    v_new.title := coalesce(p_title, v_old.title);
    v_new.price_cents := coalesce(p_price_cents, v_old.price_cents);
    v_new.currency := coalesce(p_currency, v_old.currency);
    v_new.begin_at := coalesce(to_timestamp(p_begin_ms / 1000.0), v_old.begin_at);
    v_new.end_at := coalesce(to_timestamp(p_end_ms / 1000.0), v_old.end_at);
    v_new.user_limit := coalesce(p_user_limit, v_old.user_limit);
    v_new.pay_within_s := coalesce(p_pay_within_s, v_old.pay_within_s);
    v_new.ticket := coalesce(p_ticket, v_old.ticket);
    v_new.work_bits := coalesce(p_work_bits, v_old.work_bits);
    v_outcome := CASE
        WHEN v_old.state NOT IN ('open', 'paused') THEN 'state'
        WHEN v_begun
             AND ((v_new.price_cents, v_new.currency, v_new.begin_at, v_new.user_limit, v_new.pay_within_s)
                  <> (v_old.price_cents, v_old.currency, v_old.begin_at, v_old.user_limit, v_old.pay_within_s)
                  OR v_new.end_at < v_old.end_at) THEN 'started'
        WHEN v_new.begin_at >= v_new.end_at THEN 'invalid'
        ELSE 'done' END;
    IF v_outcome = 'done' AND v_new IS DISTINCT FROM v_old THEN
        UPDATE seckill_voucher v
           SET title = v_new.title, price_cents = v_new.price_cents, currency = v_new.currency,
               begin_at = v_new.begin_at, end_at = v_new.end_at, user_limit = v_new.user_limit,
               pay_within_s = v_new.pay_within_s, ticket = v_new.ticket, work_bits = v_new.work_bits
         WHERE v.id = p_id RETURNING v.change INTO v_new.change;
        INSERT INTO admin_event (by_whom, what, voucher_id, change, detail)
        VALUES (p_by, 'changed', p_id, v_new.change,
                jsonb_strip_nulls(jsonb_build_object(
                    'title', p_title, 'price_cents', p_price_cents, 'currency', p_currency,
                    'begin_at', rfc3339(to_timestamp(p_begin_ms / 1000.0)),
                    'end_at', rfc3339(to_timestamp(p_end_ms / 1000.0)),
                    'limit', p_user_limit, 'pay_within_s', p_pay_within_s, 'ticket', p_ticket,
                    'work_bits', p_work_bits)));
    END IF;
    RETURN end_operation(v_outcome, p_id, p_key, v_request);
END
$$;

-- PL/pgSQL, which keeps its plan.
CREATE OR REPLACE FUNCTION order_json(o voucher_order) RETURNS json
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_within integer;
    v_offer  seckill_offer;
BEGIN
    SELECT v.pay_within_s INTO v_within FROM seckill_voucher v WHERE v.id = o.voucher_id;
    SELECT f.* INTO v_offer FROM order_offer(o.voucher_id, o.offer) f;
    RETURN json_strip_nulls(json_build_object(
        'id', o.id, 'voucher_id', o.voucher_id::text, 'user_id', o.user_id, 'quantity', o.quantity,
        'price_cents', v_offer.price_cents, 'total_cents', v_offer.price_cents * o.quantity,
        'currency', v_offer.currency, 'status', o.status, 'reason', o.reason, 'created_at', rfc3339(o.created_at),
        'expires_at', rfc3339(expires_at(o.created_at, v_within))));
END
$$;

-- ---- orders ----

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
--   stale           the epoch is not the segment's: the caller has been fenced off, nothing is done
--   clash           the id belongs to another user's order: only a forged id comes to this
--
-- An order that ended before this call may have been granted units once more by Redis. They return; but not those of one
-- that was sold out, if PostgreSQL still has none, because then Redis has had too many. `live_id` is the user's live order, if it is another one: of an order that was never live, since the claim of one
-- that was has been given up. tests/model shows each side of this.
--
-- Idempotent by order id: settling a batch again gives the same end and never revives what has ended. The segment's row
-- lock, taken first and once, orders all batches of a segment. p_journal is the newest journal id of the batch.
-- p_quantities and p_keys are NULL where every order is of one unit and without an Idempotency-Key. p_offer is the offer of
-- all of them.
DROP FUNCTION place_orders(integer, bigint, bigint, uuid[], text[], text, smallint[], text[]);
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
      FROM seckill_segment s WHERE s.voucher_id = p_voucher AND s.slot = p_slot FOR UPDATE;
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
        UPDATE seckill_segment s
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
    -- all the segment's orders for each one of the batch.
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

-- Batches of several segments in one transaction: a commit costs the same for one order as for hundreds. Batch i has the
-- next p_counts[i] of p_ids, p_users, p_quantities and p_keys, all of p_offers[i]. Segments are locked in one order by all callers. All slots are
-- those of one server. Returns the outcomes of place_orders(), and which batch (from 1) they are about.
DROP FUNCTION place_batches(integer[], bigint[], bigint[], integer[], uuid[], text[], text[], smallint[], text[]);
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
              JOIN seckill_segment s ON s.voucher_id = o.voucher AND s.slot = o.slot
             ORDER BY s.voucher_id, s.slot
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
            UPDATE seckill_segment s
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

-- Keeps orders as refused that were accepted once and hold no unit any more, each with its reason. An order
-- that PostgreSQL knows already stays what it is; one of a voucher that was archived may be in a file, and is not written
-- once more. Returns what each one is now: already_placed or ended.
DROP FUNCTION refuse_orders(integer, bigint, uuid[], text[], text[], smallint[]);
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


-- Notes a payment for an order.
--
--   paid            the order is paid by it
--   already         this very payment was noted before: nothing is done, whatever has become of the order since
--   to_refund       the order had ended: the money is to be given back, the order stays as it is
--   already_paid    the order is paid under another reference: nothing is noted
--   reference_used  the reference belongs to another order: nothing is noted
--   wrong_amount    not what the order costs, or not what was noted under this reference: nothing is noted
--   unknown         PostgreSQL does not know the order
--
-- `document` is the order where the payment is noted. The amount of a payment for an order that has ended is not
-- compared: whatever came is given back. What it costs is the price of its offer.
CREATE OR REPLACE FUNCTION pay_order(p_slot integer, p_id uuid, p_reference text, p_amount_cents bigint, p_currency text, p_by text)
RETURNS TABLE (outcome text, document json)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_voucher bigint := voucher_of_order(p_slot, p_id);
    v_order   voucher_order;
    v_noted   payment;
    v_payable boolean;
BEGIN
    SELECT o.* INTO v_order FROM voucher_order o
     WHERE o.slot = p_slot AND o.voucher_id = v_voucher AND o.id = p_id FOR UPDATE;
    IF NOT FOUND THEN
        RETURN QUERY VALUES ('unknown', NULL::json);
        RETURN;
    END IF;

    SELECT p.* INTO v_noted FROM payment p WHERE p.reference = p_reference;
    IF NOT FOUND THEN
        v_payable := EXISTS (SELECT FROM order_move m WHERE m.from_status = v_order.status AND m.to_status = 'paid');
        IF v_order.status = 'paid' THEN
            RETURN QUERY VALUES ('already_paid', NULL::json);
            RETURN;
        END IF;
        IF v_payable AND NOT EXISTS (SELECT FROM order_offer(v_voucher, v_order.offer) f
                                      WHERE f.price_cents * v_order.quantity = p_amount_cents
                                        AND f.currency = p_currency) THEN
            RETURN QUERY VALUES ('wrong_amount', NULL::json);
            RETURN;
        END IF;
        INSERT INTO payment (reference, slot, voucher_id, order_id, amount_cents, currency, state, by_whom)
        VALUES (p_reference, p_slot, v_voucher, p_id, p_amount_cents, p_currency,
                CASE WHEN v_payable THEN 'accepted' ELSE 'to_refund' END, p_by)
        ON CONFLICT DO NOTHING;
        IF NOT FOUND THEN -- noted meanwhile; not for this order, whose row is locked
            RETURN QUERY VALUES ('reference_used', NULL::json);
            RETURN;
        END IF;
        IF v_payable THEN
            UPDATE voucher_order o SET status = 'paid', updated_at = now()
             WHERE o.slot = p_slot AND o.voucher_id = v_voucher AND o.id = p_id
            RETURNING o.* INTO v_order;
        END IF;
        INSERT INTO order_event (slot, voucher_id, order_id, status, by_whom, why)
        VALUES (p_slot, v_voucher, p_id, v_order.status, p_by, CASE WHEN NOT v_payable THEN 'PAYMENT_TO_REFUND' END);
        RETURN QUERY VALUES (CASE WHEN v_payable THEN 'paid' ELSE 'to_refund' END, order_details_json(v_order));
    ELSIF (v_noted.slot, v_noted.voucher_id, v_noted.order_id) <> (p_slot, v_voucher, p_id) THEN
        RETURN QUERY VALUES ('reference_used', NULL::json);
    ELSIF (v_noted.amount_cents, v_noted.currency) <> (p_amount_cents, p_currency) THEN
        RETURN QUERY VALUES ('wrong_amount', NULL::json);
    ELSE
        RETURN QUERY VALUES ('already', order_details_json(v_order));
    END IF;
END
$$;

-- ---- dead letters ----

-- Keeps what cannot be settled, unless all its orders are in letters that wait for a decision: a letter that was tried
-- again in vain. Repeating it changes nothing. Returns whether a letter was added.
DROP FUNCTION set_aside(integer, bigint, text, bytea, text, text);
CREATE FUNCTION set_aside(p_slot integer, p_voucher bigint, p_journal text, p_raw bytea, p_orders text, p_reason text,
                          p_offer integer DEFAULT 0)
RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO dead_letter (slot, voucher_id, journal_id, raw, orders, reason, offer)
    SELECT p_slot, p_voucher, p_journal, p_raw, p_orders, p_reason, p_offer
     WHERE p_orders IS NULL
        OR EXISTS (SELECT unnest(string_to_array(p_orders, ','))
                   EXCEPT
                   SELECT unnest(string_to_array(d.orders, ','))
                     FROM dead_letter d
                    WHERE d.voucher_id = p_voucher AND d.slot = p_slot AND d.ended_at IS NULL)
    ON CONFLICT DO NOTHING;
    RETURN FOUND;
END
$$;

-- A letter's orders, whether it waits for a decision, and the offer of its orders.
DROP FUNCTION find_dead_letter(integer, bigint, bigint);
CREATE FUNCTION find_dead_letter(p_slot integer, p_voucher bigint, p_letter bigint)
RETURNS TABLE (orders text, waits boolean, offer integer)
LANGUAGE sql STABLE AS $$
    SELECT d.orders, d.ended_at IS NULL, d.offer
      FROM dead_letter d WHERE d.voucher_id = p_voucher AND d.slot = p_slot AND d.id = p_letter
$$;

-- Ends a dead letter: its orders are refused. Returns those that are, because they may have to be taken out of Redis;
-- repeated, it returns the same.
CREATE OR REPLACE FUNCTION write_off(p_slot integer, p_voucher bigint, p_letter bigint)
RETURNS TABLE (id uuid, user_id text, quantity smallint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_orders text;
    v_offer  integer;
BEGIN
    UPDATE dead_letter d SET ended_at = coalesce(ended_at, now())
     WHERE d.id = p_letter AND d.voucher_id = p_voucher AND d.slot = p_slot
    RETURNING d.orders, d.offer INTO v_orders, v_offer;
    INSERT INTO voucher_order (id, slot, user_id, voucher_id, quantity, offer, status, reason)
    SELECT split_part(o, ' ', 1)::uuid, p_slot, split_part(o, ' ', 2), p_voucher,
           coalesce(nullif(split_part(o, ' ', 3), ''), '1')::smallint, v_offer, 'refused', 'WRITTEN_OFF'
      FROM unnest(string_to_array(v_orders, ',')) AS o
    ON CONFLICT DO NOTHING;
    RETURN QUERY
    SELECT own.id, own.user_id, own.quantity
      FROM unnest(string_to_array(v_orders, ',')) AS o
     CROSS JOIN LATERAL (SELECT w.id, w.user_id, w.quantity, w.reason FROM voucher_order w
                          WHERE w.slot = p_slot AND w.voucher_id = p_voucher
                            AND w.id = split_part(o, ' ', 1)::uuid OFFSET 0) own
     WHERE own.reason = 'WRITTEN_OFF';
END
$$;

-- ---- what Redis is compared with, rebuilt from, and brought up to date with ----

-- What Redis must agree with, for each of these segments: epoch, newest journal id, units neither in live orders nor held
-- by dead letters, users with a live or held order; and of their vouchers, at the same moment, state, window, offer and the
-- change number. Costs the same however many orders there are.
DROP FUNCTION rebuild_stock(integer, bigint, bigint);
DROP FUNCTION segment_accounts(integer[], bigint[]);
CREATE FUNCTION segment_accounts(p_slots integer[], p_vouchers bigint[])
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
      JOIN seckill_segment s ON s.voucher_id = asked.voucher_id AND s.slot = asked.slot
      JOIN seckill_voucher v ON v.id = s.voucher_id
     CROSS JOIN LATERAL (SELECT coalesce(sum(held.quantity), 0) AS units, count(DISTINCT held.user_id) AS users
                           FROM held_order held
                          WHERE held.voucher_id = s.voucher_id AND held.slot = s.slot) h
$$;

-- What the segment is to be opened with, at one moment: stock, terms, number of buyers, the change number of the terms.
-- No row: the epoch is no longer the segment's.
CREATE FUNCTION rebuild_stock(p_slot integer, p_voucher bigint, p_epoch bigint)
RETURNS TABLE (stock bigint, begin_ms bigint, end_ms bigint, state text, buyers bigint, change bigint, offer integer)
LANGUAGE sql STABLE AS $$
    SELECT a.stock, a.begin_ms, a.end_ms, a.state, a.buyers, a.change, a.offer
      FROM segment_accounts(ARRAY[p_slot], ARRAY[p_voucher]) a
     WHERE a.epoch = p_epoch
$$;

-- What Redis is to be brought up to date with, at one moment: state, window, offer, and the units that were added to the segment
-- after p_after. What was taken away is not among them: it has left Redis before. No row: the voucher is retired.
DROP FUNCTION segment_changes(integer, bigint, bigint);
CREATE FUNCTION segment_changes(p_slot integer, p_voucher bigint, p_after bigint)
RETURNS TABLE (change bigint, state text, begin_ms bigint, end_ms bigint, added bigint, offer integer)
LANGUAGE sql STABLE AS $$
    SELECT v.change, v.state, unix_ms(v.begin_at), unix_ms(v.end_at),
           (SELECT coalesce(sum(c.units), 0) FROM stock_change c
             WHERE c.voucher_id = s.voucher_id AND c.segment = s.segment AND c.change > p_after AND c.units > 0),
           v.offer
      FROM seckill_segment s
      JOIN seckill_voucher v ON v.id = s.voucher_id
     WHERE s.voucher_id = p_voucher AND s.slot = p_slot AND v.state <> 'retired'
$$;

-- ---- settlement and archive ----

-- All of one moment, and counted: nothing is taken from a counter but the stock and `live_counted`, which are to be held
-- against what was counted; orders that were moved out to files were counted then. A sum of nothing is NULL. No row:
-- there is no such voucher.
--
-- `units` are those of now: what was added is among them, what was taken away is not. `refused` is
-- 'REASON orders units,REASON orders units,...'. `prices` is one such entry for each price that live orders have, the
-- price of each order's offer: 'CURRENCY cents orders units paid_orders paid_units,...'. `letters`: those that wait for a decision; they hold `held_...`.
-- `duplicates`: live orders beyond the first of their user. They are told by a hash of 64 bits: sorting users by name takes
-- five times as long, and of a million users two have the same hash once in 40 million counts.
DROP FUNCTION settlement(bigint);
CREATE FUNCTION settlement(p_voucher bigint)
RETURNS TABLE (state text, refused text, prices text, at_ms bigint, begin_ms bigint, end_ms bigint, pay_within_s integer,
               units bigint, added bigint, taken_away bigint, stock bigint, live_counted bigint,
               unpaid_orders bigint, unpaid_units bigint, paid_orders bigint, paid_units bigint,
               cancelled_orders bigint, cancelled_units bigint, expired_orders bigint, expired_units bigint,
               restocked_orders bigint, restocked_units bigint, kept_orders bigint, kept_units bigint,
               refused_orders bigint, refused_units bigint, letters bigint, held_orders bigint, held_units bigint,
               duplicates bigint)
LANGUAGE sql STABLE AS $$
    WITH counted AS MATERIALIZED (
        SELECT o.status, o.reason, o.offer, count(*) AS orders, sum(o.quantity) AS units
          FROM seckill_segment s
          JOIN voucher_order o ON o.slot = s.slot AND o.voucher_id = s.voucher_id
         WHERE s.voucher_id = p_voucher
         GROUP BY o.status, o.reason, o.offer
         UNION ALL
        SELECT a.status, nullif(a.reason, ''), a.offer, a.orders, a.units
          FROM archived_orders a
         WHERE a.voucher_id = p_voucher),
    held AS MATERIALIZED (
        SELECT h.letter, h.quantity
          FROM held_order h
         WHERE h.voucher_id = p_voucher)
    SELECT v.state, refused.reasons, priced.prices,
           unix_ms(now()), unix_ms(v.begin_at), unix_ms(v.end_at), v.pay_within_s,
           segments.units, changes.added, changes.taken_away, segments.stock, segments.live,
           o.unpaid_orders, o.unpaid_units, o.paid_orders, o.paid_units,
           o.cancelled_orders, o.cancelled_units, o.expired_orders, o.expired_units,
           o.restocked_orders, o.restocked_units, o.kept_orders, o.kept_units,
           o.refused_orders, o.refused_units, letters.open, held_now.orders, held_now.units, second.orders
      FROM seckill_voucher v
     CROSS JOIN LATERAL (SELECT sum(s.units) AS units, sum(s.stock) AS stock, sum(s.live) AS live
                           FROM seckill_segment s WHERE s.voucher_id = v.id) segments
     CROSS JOIN LATERAL (SELECT sum(c.units) FILTER (WHERE c.units > 0) AS added,
                                -sum(c.units) FILTER (WHERE c.units < 0) AS taken_away
                           FROM stock_change c WHERE c.voucher_id = v.id) changes
     CROSS JOIN (SELECT sum(c.orders) FILTER (WHERE c.status = 'unpaid') AS unpaid_orders,
                        sum(c.units) FILTER (WHERE c.status = 'unpaid') AS unpaid_units,
                        sum(c.orders) FILTER (WHERE c.status = 'paid') AS paid_orders,
                        sum(c.units) FILTER (WHERE c.status = 'paid') AS paid_units,
                        sum(c.orders) FILTER (WHERE c.status = 'cancelled') AS cancelled_orders,
                        sum(c.units) FILTER (WHERE c.status = 'cancelled') AS cancelled_units,
                        sum(c.orders) FILTER (WHERE c.status = 'expired') AS expired_orders,
                        sum(c.units) FILTER (WHERE c.status = 'expired') AS expired_units,
                        sum(c.orders) FILTER (WHERE c.status = 'refunded' AND c.reason = 'RESTOCKED') AS restocked_orders,
                        sum(c.units) FILTER (WHERE c.status = 'refunded' AND c.reason = 'RESTOCKED') AS restocked_units,
                        sum(c.orders) FILTER (WHERE c.status = 'refunded' AND c.reason <> 'RESTOCKED') AS kept_orders,
                        sum(c.units) FILTER (WHERE c.status = 'refunded' AND c.reason <> 'RESTOCKED') AS kept_units,
                        sum(c.orders) FILTER (WHERE c.status = 'refused') AS refused_orders,
                        sum(c.units) FILTER (WHERE c.status = 'refused') AS refused_units
                   FROM counted c) o
     CROSS JOIN (SELECT string_agg(concat_ws(' ', r.reason, r.orders, r.units), ',' ORDER BY r.reason) AS reasons
                   FROM (SELECT CASE WHEN c.reason ~ '^[A-Z_]{1,40}$' THEN c.reason ELSE 'OTHER' END AS reason,
                                sum(c.orders) AS orders, sum(c.units) AS units
                           FROM counted c
                          WHERE c.status = 'refused'
                          GROUP BY 1) r) refused
     CROSS JOIN (SELECT string_agg(concat_ws(' ', p.currency, p.price_cents, p.orders, p.units, p.paid_orders, p.paid_units),
                                   ',' ORDER BY p.currency, p.price_cents) AS prices
                   FROM (SELECT f.currency, f.price_cents, sum(c.orders) AS orders, sum(c.units) AS units,
                                coalesce(sum(c.orders) FILTER (WHERE c.status = 'paid'), 0) AS paid_orders,
                                coalesce(sum(c.units) FILTER (WHERE c.status = 'paid'), 0) AS paid_units
                           FROM counted c
                          CROSS JOIN LATERAL order_offer(p_voucher, c.offer) f
                          WHERE c.status IN ('unpaid', 'paid')
                          GROUP BY f.currency, f.price_cents) p) priced
     CROSS JOIN (SELECT count(*) AS orders, sum(h.quantity) AS units FROM held h) held_now
     CROSS JOIN (SELECT count(*) AS open
                   FROM dead_letter d
                  WHERE d.voucher_id = p_voucher AND d.ended_at IS NULL
                    AND (d.orders IS NULL OR d.id IN (SELECT h.letter FROM held h))) letters
     CROSS JOIN (SELECT coalesce((SELECT a.duplicates FROM archived_voucher a WHERE a.voucher_id = p_voucher),
                                 duplicate_orders(p_voucher)) AS orders) second
     WHERE v.id = p_voucher
$$;

-- The next part of a voucher: the first p_most orders of a segment, with their events and payments, as three files. An
-- order stays as long as money that came for it is to be given back. Locked: nothing of it changes until the transaction
-- ends. No row: nothing is left to be moved.
CREATE OR REPLACE FUNCTION archive_lines(p_voucher bigint, p_most integer, p_locked boolean)
RETURNS TABLE (part integer, slot smallint, ids uuid[], orders text, events text, payments text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    FOR slot IN SELECT s.slot FROM seckill_segment s WHERE s.voucher_id = p_voucher ORDER BY s.slot LOOP
        ids := ARRAY(SELECT o.id FROM voucher_order o
                      WHERE o.slot = archive_lines.slot AND o.voucher_id = p_voucher
                        AND NOT EXISTS (SELECT FROM payment p
                                         WHERE p.order_id = o.id AND p.state = 'to_refund' OFFSET 0)
                      ORDER BY o.id LIMIT p_most);
        EXIT WHEN ids <> '{}';
    END LOOP;
    IF coalesce(ids, '{}') = '{}' THEN
        RETURN;
    END IF;
    IF p_locked THEN
        PERFORM FROM voucher_order o
          WHERE o.slot = archive_lines.slot AND o.voucher_id = p_voucher AND o.id = ANY (ids) ORDER BY o.id FOR UPDATE;
    END IF;
    part := (SELECT count(*) + 1 FROM archived_part a WHERE a.voucher_id = p_voucher);
    SELECT E'id,slot,voucher_id,user_id,quantity,status,reason,created_at,updated_at,request_key,offer,price_cents,currency\n' ||
           coalesce(string_agg(concat_ws(',', o.id, o.slot, o.voucher_id, csv_field(o.user_id), o.quantity, o.status,
                                         csv_field(o.reason), csv_time(o.created_at), csv_time(o.updated_at),
                                         csv_field(o.request_key), o.offer, coalesce(f.price_cents::text, ''),
                                         csv_field(f.currency)) || E'\n', '' ORDER BY o.id), '')
      INTO orders
      FROM unnest(ids) AS moved (id)
     CROSS JOIN LATERAL (SELECT * FROM voucher_order w
                          WHERE w.slot = archive_lines.slot AND w.voucher_id = p_voucher AND w.id = moved.id
                         OFFSET 0) o
      LEFT JOIN LATERAL order_offer(p_voucher, o.offer) f ON true;
    SELECT E'tx,seq,order_id,voucher_id,at,status,by,why,journal\n' ||
           coalesce(string_agg(concat_ws(',', e.tx, e.seq, e.order_id, e.voucher_id, csv_time(e.at), e.status,
                                         csv_field(e.by_whom), csv_field(e.why), csv_field(e.journal)) || E'\n', '' ORDER BY e.tx, e.seq), '')
      INTO events
      FROM unnest(ids) AS moved (id)
     CROSS JOIN LATERAL (SELECT * FROM order_event w
                          WHERE w.order_id = moved.id AND w.slot = archive_lines.slot AND w.voucher_id = p_voucher
                         OFFSET 0) e;
    SELECT E'reference,order_id,voucher_id,amount_cents,currency,state,by,at\n' ||
           coalesce(string_agg(concat_ws(',', csv_field(p.reference), p.order_id, p.voucher_id, p.amount_cents, p.currency,
                                         p.state, csv_field(p.by_whom), csv_time(p.at)) || E'\n', ''
                               ORDER BY p.order_id, p.reference), '')
      INTO payments
      FROM unnest(ids) AS moved (id)
     CROSS JOIN LATERAL (SELECT * FROM payment w
                          WHERE w.order_id = moved.id AND w.slot = archive_lines.slot AND w.voucher_id = p_voucher
                         OFFSET 0) p;
    RETURN NEXT;
END
$$;

-- Removes what has been written, and counts it. False: it is not the same any more.
CREATE OR REPLACE FUNCTION archive_drop(p_voucher bigint, p_part integer, p_most integer, p_digest text) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_part     record;
    v_orders   integer;
    v_events   integer;
    v_payments integer;
BEGIN
    IF NOT EXISTS (SELECT FROM archived_voucher a WHERE a.voucher_id = p_voucher) THEN
        RETURN false;
    END IF;
    SELECT * INTO v_part FROM archive_lines(p_voucher, p_most, true);
    IF NOT FOUND OR v_part.part <> p_part
       OR encode(sha256(convert_to(v_part.orders || v_part.events || v_part.payments, 'UTF8')), 'hex') <> p_digest THEN
        RETURN false;
    END IF;
    DELETE FROM order_event e WHERE e.order_id = ANY (v_part.ids) AND e.slot = v_part.slot AND e.voucher_id = p_voucher;
    GET DIAGNOSTICS v_events = ROW_COUNT;
    DELETE FROM payment p WHERE p.order_id = ANY (v_part.ids) AND p.slot = v_part.slot AND p.voucher_id = p_voucher;
    GET DIAGNOSTICS v_payments = ROW_COUNT;
    WITH moved AS (
        DELETE FROM voucher_order o
         WHERE o.slot = v_part.slot AND o.voucher_id = p_voucher AND o.id = ANY (v_part.ids)
        RETURNING o.id, o.status, o.reason, o.offer, o.quantity)
    INSERT INTO archived_orders AS a (slot, voucher_id, status, reason, offer, orders, units, first_id, last_id)
    SELECT v_part.slot, p_voucher, m.status, coalesce(m.reason, ''), m.offer, count(*), sum(m.quantity), min(m.id::text)::uuid,
           max(m.id::text)::uuid
      FROM moved m
     GROUP BY m.status, coalesce(m.reason, ''), m.offer
    ON CONFLICT (slot, voucher_id, status, reason, offer) DO UPDATE
       SET orders = a.orders + EXCLUDED.orders, units = a.units + EXCLUDED.units,
           first_id = least(a.first_id, EXCLUDED.first_id), last_id = greatest(a.last_id, EXCLUDED.last_id);
    v_orders := cardinality(v_part.ids);
    INSERT INTO archived_part (voucher_id, part, orders, events, payments, orders_sha256, events_sha256, payments_sha256)
    VALUES (p_voucher, p_part, v_orders, v_events, v_payments, sha256(convert_to(v_part.orders, 'UTF8')),
            sha256(convert_to(v_part.events, 'UTF8')), sha256(convert_to(v_part.payments, 'UTF8')));
    RETURN true;
END
$$;


-- A file of orders with the pseudonym in the place of the user, whose Idempotency-Keys go; and how many orders that were.
-- A user's id needs no quotes (csv_field()); a reason may have them, and then commas and ends of lines in them. Files that
-- are older than offers have no offer and price at the end of a line.
CREATE OR REPLACE FUNCTION erase_in_file(p_text text, p_user text, p_pseudonym text) RETURNS TABLE (orders bigint, rewritten text)
LANGUAGE sql IMMUTABLE AS $$
    SELECT regexp_count(p_text, own.line, 1, 'w'),
           regexp_replace(p_text, own.line, '\1' || p_pseudonym || '\2\3', 'gw')
      FROM (SELECT '^([0-9a-f-]{36},[0-9]+,[0-9]+,)' || regexp_replace(p_user, '([.])', '\\\1', 'g') ||
                   '(,[0-9]+,[a-z]+,(?:"(?:[^"]|"")*"|[^",\n]*),[^",\n]*,[^",\n]*,)[0-9a-f]*((?:,[0-9]+,[0-9]*,[A-Z]*)?)$') AS own (line)
$$;

-- As 011_grants.sql does it for those before: a function that was made anew has lost its rights and its settings.
DO $$
DECLARE
    v_service  text[] := ARRAY[
        'catalogue_changes(bigint, integer, bigint)',
        'change_voucher(bigint, bigint, text, text, text, bigint, text, bigint, bigint, smallint, integer, boolean,'
        ' smallint)',
        'place_orders(integer, bigint, bigint, uuid[], text[], text, smallint[], text[], integer)',
        'place_batches(integer[], bigint[], bigint[], integer[], uuid[], text[], text[], smallint[], text[], integer[])',
        'refuse_orders(integer, bigint, uuid[], text[], text[], smallint[], integer[])',
        'pay_order(integer, uuid, text, bigint, text, text)',
        'set_aside(integer, bigint, text, bytea, text, text, integer)', 'find_dead_letter(integer, bigint, bigint)',
        'write_off(integer, bigint, bigint)', 'segment_accounts(integer[], bigint[])', 'settlement(bigint)',
        'rebuild_stock(integer, bigint, bigint)', 'segment_changes(integer, bigint, bigint)'];
    v_keeper   text[] := ARRAY['archive_drop'];
    v_inner    text[] := ARRAY['archive_lines', 'order_offer'];
    v_function text;
BEGIN
    FOREACH v_function IN ARRAY v_service || v_keeper || v_inner LOOP
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', v_function);
    END LOOP;
    FOREACH v_function IN ARRAY v_service || v_keeper LOOP
        EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER SET search_path = %I, pg_temp', v_function, current_schema());
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', v_function,
                       CASE WHEN v_function = ANY (v_keeper) THEN 'seckill_keeper' ELSE 'seckill_service' END);
    END LOOP;
END
$$;
