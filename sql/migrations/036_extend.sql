-- Whoever takes payments may give an order that is being paid more time, once; and operators may hold the expiry of orders
-- while payments do not work.

-- When the order is due. NULL: as its voucher's pay_within_s has it. Nothing is looked for by it: the walk of due_orders()
-- begins with the first order that is unpaid, and finds each by its id.
ALTER TABLE voucher_order ADD COLUMN due_at timestamptz;

-- Vouchers whose unpaid orders do not expire now, until an operator ends it. 0: all of this database.
CREATE TABLE expiry_hold (
    voucher_id bigint      PRIMARY KEY CHECK (voucher_id >= 0),
    since      timestamptz NOT NULL DEFAULT now(),
    by_whom    text        NOT NULL
);

CREATE FUNCTION expiry_is_held(p_voucher bigint) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM expiry_hold h WHERE h.voucher_id IN (0, p_voucher))
$$;

-- Begins or ends such a hold; no voucher: of all. Repeated, it changes nothing. No row: there is no such voucher.
CREATE FUNCTION hold_expiry(p_voucher bigint, p_hold boolean, p_by text)
RETURNS TABLE (document json)
LANGUAGE plpgsql AS $$
DECLARE
    v_since timestamptz;
BEGIN
    IF p_voucher IS NOT NULL AND NOT EXISTS (SELECT FROM seckill_voucher v WHERE v.id = p_voucher) THEN
        RETURN;
    END IF;
    IF p_hold THEN
        INSERT INTO expiry_hold (voucher_id, by_whom) VALUES (coalesce(p_voucher, 0), p_by) ON CONFLICT DO NOTHING;
    ELSE
        DELETE FROM expiry_hold h WHERE h.voucher_id = coalesce(p_voucher, 0);
    END IF;
    IF FOUND THEN
        INSERT INTO admin_event (by_whom, what, voucher_id)
        VALUES (p_by, CASE WHEN p_hold THEN 'expiry held' ELSE 'expiry released' END, coalesce(p_voucher, 0));
    ELSE
        PERFORM pg_logical_emit_message(true, 'seckill', ''); -- waits for the standby, as the first call did
    END IF;
    SELECT h.since INTO v_since FROM expiry_hold h WHERE h.voucher_id = coalesce(p_voucher, 0);
    RETURN QUERY SELECT json_strip_nulls(json_build_object('voucher_id', p_voucher::text, 'held', v_since IS NOT NULL,
                                                           'since', rfc3339(v_since)));
END
$$;

-- When an unpaid order is due; NULL: never.
CREATE FUNCTION due_at(p_created_at timestamptz, p_pay_within_s integer, p_due_at timestamptz) RETURNS timestamptz
LANGUAGE sql STABLE AS $$
    SELECT coalesce(p_due_at, expires_at(p_created_at, p_pay_within_s))
$$;

-- As in 002_documents.sql, but for due_at.
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
        'expires_at', rfc3339(due_at(o.created_at, v_within, o.due_at))));
END
$$;

-- As in 027_due_orders.sql, but for due_at, and nothing is due while expiry is held.
CREATE OR REPLACE FUNCTION due_orders(p_slot integer, p_voucher bigint, p_from uuid, p_most integer)
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
    IF expiry_is_held(p_voucher) THEN
        v_next := now() + interval '2 s'; -- the hold may have ended
    ELSIF v_within > interval '0' THEN
        v_young := uuid_at(now() - v_within);
        FOR v_order IN SELECT o.id, o.status, o.created_at, o.due_at FROM voucher_order o
                        WHERE o.slot = p_slot AND o.voucher_id = p_voucher AND o.id >= coalesce(p_from, v_after)
                          AND o.id IS DISTINCT FROM p_from
                        ORDER BY o.slot, o.voucher_id, o.id LIMIT 2000 LOOP
            v_rows := v_rows + 1;
            v_last := v_order.id;
            v_newer := v_newer + (v_order.id >= v_young)::integer;
            IF v_order.status = 'unpaid' THEN
                v_first := coalesce(v_first, v_order.id);
                v_at := coalesce(v_order.due_at, v_order.created_at + v_within);
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
            -- What was settled late has come in before the lock, or will see due_after.
            PERFORM FROM voucher_stock s WHERE s.voucher_id = p_voucher AND s.slot = p_slot FOR UPDATE SKIP LOCKED;
            IF FOUND THEN
                PERFORM FROM voucher_order o
                  WHERE o.slot = p_slot AND o.voucher_id = p_voucher AND o.id >= v_after
                    AND o.id < coalesce(v_first, v_last) AND o.status = 'unpaid'
                  ORDER BY o.slot, o.voucher_id, o.id LIMIT 1;
                IF NOT FOUND THEN
                    UPDATE voucher_stock s SET due_after = coalesce(v_first, v_last)
                     WHERE s.voucher_id = p_voucher AND s.slot = p_slot AND s.due_after = v_after;
                END IF;
            END IF;
        END IF;
    END IF;
    next_ms := unix_ms(v_next);
    RETURN NEXT;
END
$$;

-- As in 028_refund_entries.sql, but for due_at and holds. An order that is extended at the same moment waits for its row,
-- and is compared anew.
CREATE OR REPLACE FUNCTION return_batches(p_slots integer[], p_vouchers bigint[], p_epochs bigint[], p_counts integer[],
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
           AND (v_status <> 'expired'
                OR (due_at(o.created_at, v.pay_within_s, o.due_at) <= now() AND NOT expiry_is_held(v.id)))
        RETURNING o.slot, o.voucher_id, o.id, o.quantity, a.batch
    ), noted AS (
        INSERT INTO order_event (slot, voucher_id, order_id, status, by_whom, why, journal)
        SELECT m.slot, m.voucher_id, m.id, v_status, p_by, p_why,
               CASE WHEN v_reason = 'KEPT' THEN p_journals[m.batch] || '@' || p_epochs[m.batch] END
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
                    (SELECT 0 FROM order_event e
                      WHERE e.order_id = own.id
                        AND e.journal IN (p_journals[a.batch] || '@' || p_epochs[a.batch], p_journals[a.batch]))
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

-- Extends an unpaid order by p_extend_s seconds, or by what its voucher allows, if that is less or p_extend_s is NULL:
-- once, with the reference of the payment that is in progress. One that is overdue, since expiry is held or late, gets
-- these seconds from now on.
--
--   extended          it is, by this call or an earlier one with this reference
--   already_extended  with another reference: nothing is done
--   reference_used    that reference is a payment of another order: nothing is done
--   off               its voucher allows none, or it is never due: nothing is done
--   kept              it is not unpaid: nothing is done
--   unknown           PostgreSQL does not know the order
--
-- It locks the order's row, as a payment does. Expiry that was faster has ended the order; else it finds the new time.
CREATE FUNCTION extend_order(p_slot integer, p_id uuid, p_reference text, p_extend_s integer, p_by text)
RETURNS TABLE (outcome text, status order_status, document json)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_voucher  bigint := voucher_of_order(p_slot, p_id);
    v_order    voucher_order;
    v_terms    seckill_voucher;
    v_extended text; -- under which reference
    v_outcome  text;
BEGIN
    SELECT o.* INTO v_order FROM voucher_order o
     WHERE o.slot = p_slot AND o.voucher_id = v_voucher AND o.id = p_id FOR UPDATE;
    IF NOT FOUND THEN
        RETURN QUERY VALUES ('unknown', NULL::order_status, NULL::json);
        RETURN;
    END IF;
    SELECT v.* INTO v_terms FROM seckill_voucher v WHERE v.id = v_voucher;
    SELECT e.reference INTO v_extended FROM order_event e
     WHERE e.order_id = p_id AND e.slot = p_slot AND e.voucher_id = v_voucher AND e.type = 'extended';
    v_outcome := CASE
        WHEN v_extended = p_reference THEN 'extended'
        WHEN v_order.status <> 'unpaid' THEN 'kept'
        WHEN v_extended IS NOT NULL THEN 'already_extended'
        WHEN v_terms.extend_s = 0 OR due_at(v_order.created_at, v_terms.pay_within_s, v_order.due_at) IS NULL THEN 'off'
        WHEN EXISTS (SELECT FROM payment p
                      WHERE p.reference = p_reference
                        AND (p.slot, p.voucher_id, p.order_id) <> (p_slot, v_voucher, p_id)) THEN 'reference_used'
        END;
    IF v_outcome IS NULL THEN
        UPDATE voucher_order o
           SET due_at = greatest(due_at(o.created_at, v_terms.pay_within_s, o.due_at), now())
                        + make_interval(secs => least(p_extend_s, v_terms.extend_s)), updated_at = now()
         WHERE o.slot = p_slot AND o.voucher_id = v_voucher AND o.id = p_id
        RETURNING o.* INTO v_order;
        INSERT INTO order_event (slot, voucher_id, order_id, status, by_whom, type, reference)
        VALUES (p_slot, v_voucher, p_id, 'unpaid', p_by, 'extended', p_reference);
        v_outcome := 'extended';
    END IF;
    RETURN QUERY SELECT v_outcome, v_order.status, CASE WHEN v_outcome = 'extended' THEN order_details_json(v_order) END;
END
$$;

-- As in 023_find.sql, but for due_at. EXPIRY_HELD: an operator holds the expiry of this voucher, or of all, since then.
CREATE OR REPLACE FUNCTION troubles(p_most integer) RETURNS TABLE (id bigint, document text)
LANGUAGE sql STABLE AS $$
    SELECT t.id, json_strip_nulls(json_build_object('voucher_id', nullif(t.id, 0)::text, 'title', v.title, 'what', t.what,
                                                    'count', t.count, 'late_s', t.late_s,
                                                    'since', rfc3339(t.since), 'by', t.by_whom))::text
      FROM ((SELECT l.voucher_id AS id, 'DEAD_LETTERS' AS what, count(*) AS count, NULL::bigint AS late_s,
                    NULL::timestamptz AS since, NULL AS by_whom
               FROM dead_letter l
              WHERE l.ended_at IS NULL
              GROUP BY l.voucher_id
              ORDER BY l.voucher_id DESC
              LIMIT p_most)
            UNION ALL
            (SELECT s.voucher_id, 'EXPIRY_LATE', NULL, extract(epoch FROM now() - o.due_at)::bigint, NULL, NULL
               FROM seckill_voucher live
               JOIN voucher_stock s ON s.voucher_id = live.id
              CROSS JOIN LATERAL (SELECT min(due_at(w.created_at, live.pay_within_s, w.due_at)) AS due_at
                                    FROM (SELECT status, created_at, walked.due_at FROM voucher_order walked
                                           WHERE walked.slot = s.slot AND walked.voucher_id = s.voucher_id
                                             AND walked.id >= s.due_after
                                           ORDER BY walked.id
                                           LIMIT 1000) w
                                   WHERE w.status = 'unpaid') o
              WHERE live.state IN ('open', 'paused', 'closed') AND live.pay_within_s > 0 AND s.live > 0
                AND o.due_at < now() - interval '30 s' AND NOT expiry_is_held(s.voucher_id)
              ORDER BY s.voucher_id DESC
              LIMIT p_most)
            UNION ALL
            (SELECT h.voucher_id, 'EXPIRY_HELD', NULL, NULL, h.since, h.by_whom
               FROM expiry_hold h
              ORDER BY h.voucher_id
              LIMIT p_most)) t
      LEFT JOIN seckill_voucher v ON v.id = t.id
     ORDER BY t.id DESC, t.what
$$;

-- As in 033_feed.sql, with order.extended. It tells when the order is due now: it is extended once.
CREATE OR REPLACE FUNCTION order_events(p_after_tx xid8, p_after_seq bigint, p_most integer, p_only text DEFAULT NULL)
RETURNS TABLE (tx xid8, seq bigint, document json)
LANGUAGE sql STABLE AS $$
    SELECT e.tx, e.seq, json_strip_nulls(json_build_object(
               'event', CASE WHEN e.type = 'moved' THEN 'order.' || e.status
                             WHEN e.type IN ('placed', 'extended') THEN 'order.' || e.type
                             ELSE replace(e.type, 'payment_', 'payment.') END,
               'type', CASE WHEN e.type LIKE 'sale.%' THEN 'sale' ELSE e.type END, 'order_id', e.order_id,
               'voucher_id', e.voucher_id::text, 'user_id', o.user_id,
               'quantity', o.quantity, 'total_cents', f.price_cents * o.quantity, 'currency', f.currency,
               'status', CASE WHEN e.type IN ('moved', 'placed') OR o.status IS NULL THEN e.status ELSE o.status END,
               'at', rfc3339(e.at), 'by', e.by_whom, 'why', e.why,
               'expires_at', CASE WHEN e.type = 'extended' THEN rfc3339(o.due_at) END,
               'reference', CASE WHEN e.type = 'extended' THEN e.reference END,
               'payment', CASE WHEN e.type <> 'extended' AND p.reference IS NOT NULL THEN json_build_object(
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
      LEFT JOIN LATERAL (SELECT own.user_id, own.quantity, own.offer, own.status, own.due_at FROM voucher_order own
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

DO $$
DECLARE
    v_function text;
BEGIN
    FOREACH v_function IN ARRAY ARRAY[
        'hold_expiry(bigint, boolean, text)', 'extend_order(integer, uuid, text, integer, text)',
        'due_orders(integer, bigint, uuid, integer)', 'troubles(integer)', 'order_events(xid8, bigint, integer, text)',
        'return_batches(integer[], bigint[], bigint[], integer[], uuid[], text, text, text, text[])'] LOOP
        EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER SET search_path = %I, pg_temp', v_function, current_schema());
    END LOOP;
    REVOKE EXECUTE ON FUNCTION hold_expiry(bigint, boolean, text), expiry_is_held(bigint),
                               extend_order(integer, uuid, text, integer, text) FROM PUBLIC;
    GRANT EXECUTE ON FUNCTION hold_expiry(bigint, boolean, text) TO seckill_service;
    GRANT EXECUTE ON FUNCTION extend_order(integer, uuid, text, integer, text) TO seckill_service;
END
$$;
