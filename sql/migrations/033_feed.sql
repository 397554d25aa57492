-- The feed has every event of every order, and of every sale.
--
-- A row for each placed order would slow the purchase. So a row of order_placed has the orders that one transaction
-- placed of one voucher, and order_events() makes an event of each. Its numbers are those of order_event, which are 128
-- apart from now on: the n-th order of a row has the row's number and n - 1. So a cursor can stand inside a row, and the
-- cursors that readers hold stay what they are. At most 100 orders: none is stored out of line, at 1.7 kB a row.
--
-- No row is ever changed. Those of order_placed go with the last part of their voucher's orders (archive_end()), whose
-- files have the same orders.
ALTER TABLE order_event ALTER COLUMN seq SET INCREMENT BY 128;

CREATE TABLE order_placed (
    tx         xid8        NOT NULL DEFAULT pg_current_xact_id(),
    seq        bigint      NOT NULL DEFAULT nextval('order_event_seq_seq'),
    slot       smallint    NOT NULL,
    voucher_id bigint      NOT NULL,
    at         timestamptz NOT NULL DEFAULT now(),
    ids        uuid[]      NOT NULL CHECK (cardinality(ids) BETWEEN 1 AND 100),
    PRIMARY KEY (tx, seq)
);
CREATE INDEX order_placed_voucher ON order_placed (voucher_id);

-- What a sale has come to: a few rows for each voucher.
CREATE TABLE sale_event (
    tx         xid8        NOT NULL DEFAULT pg_current_xact_id(),
    seq        bigint      NOT NULL DEFAULT nextval('order_event_seq_seq'),
    slot       smallint    NOT NULL,
    voucher_id bigint      NOT NULL,
    at         timestamptz NOT NULL DEFAULT now(),
    name       text        NOT NULL,
    PRIMARY KEY (tx, seq)
);

-- Where each sale is, by its newest event. No row: it has not begun.
CREATE TABLE sale_phase (
    voucher_id bigint      PRIMARY KEY,
    phase      text        NOT NULL CHECK (phase IN ('open', 'sold_out', 'ended')),
    at         timestamptz NOT NULL DEFAULT now()
);
-- Sales of before have no events.
INSERT INTO sale_phase (voucher_id, phase)
SELECT v.id, CASE WHEN v.state IN ('closed', 'retired') OR v.end_at <= now() THEN 'ended'
                  WHEN s.stock = 0 THEN 'sold_out' ELSE 'open' END
  FROM seckill_voucher v
  JOIN voucher_stock s ON s.voucher_id = v.id
 WHERE v.begin_at <= now() OR v.state IN ('closed', 'retired');

-- Writes the events that lead a sale to this phase, which an instance has found. Several instances may call it: each
-- event is written once. Returns whether there were any. A sale that flickers, since units return one by one, reopens once in five seconds at most. The window is
-- compared here, so that the clock of one instance decides nothing.
CREATE FUNCTION note_phase(p_slot integer, p_voucher bigint, p_phase text) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_begun  boolean;
    v_over   boolean;
    v_before text;
    v_at     timestamptz;
BEGIN
    SELECT v.begin_at <= now(), v.end_at <= now() OR v.state IN ('closed', 'retired') INTO v_begun, v_over
      FROM seckill_voucher v
      JOIN voucher_stock s ON s.voucher_id = v.id AND s.slot = p_slot
     WHERE v.id = p_voucher FOR NO KEY UPDATE OF v;
    SELECT p.phase, p.at INTO v_before, v_at FROM sale_phase p WHERE p.voucher_id = p_voucher;
    IF v_over IS DISTINCT FROM (p_phase = 'ended') OR NOT (v_begun OR v_over) OR v_before = p_phase
       OR (p_phase = 'open' AND v_before = 'sold_out' AND v_at > now() - interval '5 s') THEN
        RETURN false;
    END IF;
    INSERT INTO sale_phase AS p (voucher_id, phase) VALUES (p_voucher, p_phase)
    ON CONFLICT (voucher_id) DO UPDATE SET phase = EXCLUDED.phase, at = now();
    INSERT INTO sale_event (slot, voucher_id, name)
    SELECT p_slot, p_voucher, 'sale.' || name
      FROM unnest(CASE WHEN v_before IS NULL AND v_begun AND p_phase <> 'open' THEN ARRAY['opened', p_phase]
                       WHEN v_before IS NULL AND p_phase = 'open' THEN ARRAY['opened']
                       WHEN p_phase = 'open' THEN ARRAY['reopened']
                       ELSE ARRAY[p_phase] END) WITH ORDINALITY AS e (name, n)
     ORDER BY n;
    RETURN true;
END
$$;

-- As in 007_rebuild.sql, with the phase.
DROP FUNCTION voucher_accounts(integer[], bigint[]);
CREATE FUNCTION voucher_accounts(p_slots integer[], p_vouchers bigint[])
RETURNS TABLE (slot smallint, voucher_id bigint, epoch bigint, journal_ms bigint, journal_seq bigint, stock bigint,
               buyers bigint, change bigint, state text, begin_ms bigint, end_ms bigint, letters bigint,
               offer integer, phase text)
LANGUAGE sql STABLE AS $$
    SELECT s.slot, s.voucher_id, s.epoch, s.journal_ms, s.journal_seq, greatest(s.stock - h.units, 0), s.live + h.users,
           v.change, v.state, unix_ms(v.begin_at), unix_ms(v.end_at),
           (SELECT count(*) FROM dead_letter d
             WHERE d.voucher_id = s.voucher_id AND d.slot = s.slot AND d.ended_at IS NULL),
           v.offer, phase.phase
      FROM unnest(p_slots, p_vouchers) AS asked (slot, voucher_id)
      JOIN voucher_stock s ON s.voucher_id = asked.voucher_id AND s.slot = asked.slot
      JOIN seckill_voucher v ON v.id = s.voucher_id
      LEFT JOIN sale_phase phase ON phase.voucher_id = s.voucher_id
     CROSS JOIN LATERAL (SELECT coalesce(sum(held.quantity), 0) AS units, count(DISTINCT held.user_id) AS users
                           FROM held_order held
                          WHERE held.voucher_id = s.voucher_id AND held.slot = s.slot) h
$$;

-- As in 004_orders.sql, and what is placed or refused is an event.
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
                                  WHERE live.user_id = o.user_id AND live.voucher_id = p_voucher
                                    AND live.slot + 0 = p_slot AND live.status IN ('unpaid', 'paid') OFFSET 0)
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

-- As in 004_orders.sql, and what is placed is an event.
CREATE OR REPLACE FUNCTION place_batches(p_slots integer[], p_vouchers bigint[], p_epochs bigint[], p_counts integer[],
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
            INSERT INTO order_placed (slot, voucher_id, ids)
            SELECT p_slots[i], p_vouchers[i], p_ids[f : least(f + 99, v_lasts[i])]
              FROM generate_subscripts(p_slots, 1) AS i
             CROSS JOIN LATERAL generate_series(v_firsts[i], v_lasts[i], 100) AS f
             ORDER BY i, f;
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

-- As in 018_repeats_wait.sql, and each that is refused is an event.
CREATE OR REPLACE FUNCTION refuse_orders(p_slot integer, p_voucher bigint, p_ids uuid[], p_users text[],
                                         p_reasons text[], p_quantities smallint[], p_offers integer[] DEFAULT NULL)
RETURNS TABLE (n integer, outcome text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    WITH refused AS (
        INSERT INTO voucher_order (id, slot, user_id, voucher_id, quantity, offer, status, reason)
        SELECT o.id, p_slot, o.user_id, p_voucher, o.quantity, coalesce(o.offer, 0), 'refused', o.reason
          FROM unnest(p_ids, p_users, p_reasons, p_quantities, p_offers) AS o (id, user_id, reason, quantity, offer)
         WHERE NOT EXISTS (SELECT FROM archived_voucher a WHERE a.voucher_id = p_voucher)
        ON CONFLICT DO NOTHING
        RETURNING id, reason)
    INSERT INTO order_event (slot, voucher_id, order_id, status, by_whom, why)
    SELECT p_slot, p_voucher, r.id, 'refused', 'service', r.reason FROM refused r;
    IF NOT FOUND THEN
        PERFORM pg_logical_emit_message(true, 'seckill', '');
    END IF;
    RETURN QUERY
    SELECT o.n::integer, CASE WHEN own.status IN ('unpaid', 'paid') THEN 'already_placed' ELSE 'ended' END
      FROM unnest(p_ids) WITH ORDINALITY AS o (id, n)
      LEFT JOIN LATERAL (SELECT w.status FROM voucher_order w
                          WHERE w.slot = p_slot AND w.voucher_id = p_voucher AND w.id = o.id OFFSET 0) own ON true
     ORDER BY o.n;
END
$$;

-- As in 006_dead_letters.sql, and each that is refused is an event.
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
    WITH refused AS (
        INSERT INTO voucher_order (id, slot, user_id, voucher_id, quantity, offer, status, reason)
        SELECT split_part(o, ' ', 1)::uuid, p_slot, split_part(o, ' ', 2), p_voucher,
               coalesce(nullif(split_part(o, ' ', 3), ''), '1')::smallint, v_offer, 'refused', 'WRITTEN_OFF'
          FROM unnest(string_to_array(v_orders, ',')) AS o
        ON CONFLICT DO NOTHING
        RETURNING id)
    INSERT INTO order_event (slot, voucher_id, order_id, status, by_whom, why)
    SELECT p_slot, p_voucher, r.id, 'refused', 'operator', 'WRITTEN_OFF' FROM refused r;
    RETURN QUERY
    SELECT own.id, own.user_id, own.quantity
      FROM unnest(string_to_array(v_orders, ',')) AS o
     CROSS JOIN LATERAL (SELECT w.id, w.user_id, w.quantity, w.reason FROM voucher_order w
                          WHERE w.slot = p_slot AND w.voucher_id = p_voucher
                            AND w.id = split_part(o, ' ', 1)::uuid OFFSET 0) own
     WHERE own.reason = 'WRITTEN_OFF';
END
$$;

-- As in 031_paid_twice.sql, with the other events, and the name of each, which says what has happened. `type` is from
-- before there were names. p_only: 'placed', 'moves' (and payments) or 'sales'.
DROP FUNCTION order_events(xid8, bigint, integer);
CREATE FUNCTION order_events(p_after_tx xid8, p_after_seq bigint, p_most integer, p_only text DEFAULT NULL)
RETURNS TABLE (tx xid8, seq bigint, document json)
LANGUAGE sql STABLE AS $$
    SELECT e.tx, e.seq, json_strip_nulls(json_build_object(
               'event', CASE WHEN e.type = 'moved' THEN 'order.' || e.status
                             WHEN e.type = 'placed' THEN 'order.placed'
                             ELSE replace(e.type, 'payment_', 'payment.') END,
               'type', CASE WHEN e.type LIKE 'sale.%' THEN 'sale' ELSE e.type END, 'order_id', e.order_id,
               'voucher_id', e.voucher_id::text, 'user_id', o.user_id,
               'quantity', o.quantity, 'total_cents', f.price_cents * o.quantity, 'currency', f.currency,
               'status', CASE WHEN e.type IN ('moved', 'placed') OR o.status IS NULL THEN e.status ELSE o.status END,
               'at', rfc3339(e.at), 'by', e.by_whom, 'why', e.why,
               'payment', CASE WHEN p.reference IS NOT NULL THEN json_build_object(
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
                (SELECT b.tx, b.seq + o.n - 1, b.slot, b.voucher_id, o.id, b.at, 'unpaid', 'user', NULL, NULL, 'placed'
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
      LEFT JOIN LATERAL (SELECT own.user_id, own.quantity, own.offer, own.status FROM voucher_order own
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

-- As in 011_lists.sql, of the same events.
DROP FUNCTION latest_events(integer, integer);
CREATE FUNCTION latest_events(p_last integer, p_most integer, p_only text DEFAULT NULL)
RETURNS TABLE (tx xid8, seq bigint, document json)
LANGUAGE sql STABLE AS $$
    SELECT f.tx, f.seq, f.document
      FROM (SELECT) always
      LEFT JOIN (SELECT n.tx, n.seq FROM (
                     (SELECT w.tx, w.seq FROM order_event w
                       WHERE (p_only IS NULL OR p_only = 'moves') AND w.tx < pg_snapshot_xmin(pg_current_snapshot())
                       ORDER BY w.tx DESC, w.seq DESC
                       LIMIT p_last + 1)
                     UNION ALL
                     (SELECT b.tx, b.seq + o.n
                        FROM (SELECT * FROM order_placed p
                               WHERE (p_only IS NULL OR p_only = 'placed') AND p.tx < pg_snapshot_xmin(pg_current_snapshot())
                               ORDER BY p.tx DESC, p.seq DESC
                               LIMIT p_last + 1) b
                       CROSS JOIN LATERAL generate_series(0, cardinality(b.ids) - 1) AS o (n)
                       ORDER BY b.tx DESC, b.seq DESC, o.n DESC
                       LIMIT p_last + 1)
                     UNION ALL
                     (SELECT s.tx, s.seq FROM sale_event s
                       WHERE (p_only IS NULL OR p_only = 'sales') AND s.tx < pg_snapshot_xmin(pg_current_snapshot())
                       ORDER BY s.tx DESC, s.seq DESC
                       LIMIT p_last + 1)) n
                  ORDER BY n.tx DESC, n.seq DESC
                 OFFSET p_last LIMIT 1) before ON true
     CROSS JOIN LATERAL order_events(coalesce(before.tx, '0'), coalesce(before.seq, 0), p_most, p_only) f
$$;

-- Where the feed ends: the newest event of each kind that order_events() returns, if there is any.
CREATE FUNCTION feed_end() RETURNS TABLE (kind text, tx xid8, seq bigint)
LANGUAGE sql STABLE AS $$
    (SELECT 'moves', w.tx, w.seq FROM order_event w
      WHERE w.tx < pg_snapshot_xmin(pg_current_snapshot()) ORDER BY w.tx DESC, w.seq DESC LIMIT 1)
    UNION ALL
    (SELECT 'placed', p.tx, p.seq + cardinality(p.ids) - 1 FROM order_placed p
      WHERE p.tx < pg_snapshot_xmin(pg_current_snapshot()) ORDER BY p.tx DESC, p.seq DESC LIMIT 1)
    UNION ALL
    (SELECT 'sales', s.tx, s.seq FROM sale_event s
      WHERE s.tx < pg_snapshot_xmin(pg_current_snapshot()) ORDER BY s.tx DESC, s.seq DESC LIMIT 1)
$$;

-- As in 014_archive.sql, and the voucher's rows of order_placed go.
CREATE OR REPLACE FUNCTION archive_end(p_voucher bigint) RETURNS TABLE (parts bigint, orders bigint, events bigint, payments bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    SELECT count(*), coalesce(sum(a.orders), 0), coalesce(sum(a.events), 0), coalesce(sum(a.payments), 0)
      INTO parts, orders, events, payments
      FROM archived_part a WHERE a.voucher_id = p_voucher;
    DELETE FROM order_placed p WHERE p.voucher_id = p_voucher;
    UPDATE archived_voucher a SET ended_at = now() WHERE a.voucher_id = p_voucher;
    INSERT INTO admin_event (by_whom, what, voucher_id, detail)
    VALUES (session_user, 'archived', p_voucher,
            jsonb_build_object('parts', parts, 'orders', orders, 'events', events, 'payments', payments));
    RETURN NEXT;
END
$$;

DO $$
DECLARE
    v_new      text[] := ARRAY['note_phase(integer, bigint, text)', 'voucher_accounts(integer[], bigint[])',
                               'order_events(xid8, bigint, integer, text)',
                               'latest_events(integer, integer, text)', 'feed_end()'];
    v_function text;
BEGIN
    FOREACH v_function IN ARRAY v_new || ARRAY[
        'place_orders(integer, bigint, bigint, uuid[], text[], text, smallint[], text[], integer)',
        'place_batches(integer[], bigint[], bigint[], integer[], uuid[], text[], text[], smallint[], text[], integer[])',
        'refuse_orders(integer, bigint, uuid[], text[], text[], smallint[], integer[])',
        'write_off(integer, bigint, bigint)', 'archive_end(bigint)'] LOOP
        EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER SET search_path = %I, pg_temp', v_function, current_schema());
    END LOOP;
    REVOKE EXECUTE ON FUNCTION note_phase(integer, bigint, text), voucher_accounts(integer[], bigint[]),
                               order_events(xid8, bigint, integer, text),
                               latest_events(integer, integer, text), feed_end() FROM PUBLIC;
    GRANT EXECUTE ON FUNCTION note_phase(integer, bigint, text) TO seckill_service;
    GRANT EXECUTE ON FUNCTION voucher_accounts(integer[], bigint[]) TO seckill_service;
    GRANT EXECUTE ON FUNCTION order_events(xid8, bigint, integer, text) TO seckill_service;
    GRANT EXECUTE ON FUNCTION latest_events(integer, integer, text) TO seckill_service;
    GRANT EXECUTE ON FUNCTION feed_end() TO seckill_service;
END
$$;
