-- Money: the payments that are to be given back, the sums of a settlement report, and what each row of the feed is about.

-- ---- payments that are to be given back ----

-- Only payments that came after their order's end are in it: purchases and usual payments do not touch it.
CREATE INDEX payment_to_refund ON payment (order_id) WHERE state = 'to_refund';

-- As in 021_listed.sql, with the voucher.
CREATE OR REPLACE FUNCTION list_payments(p_voucher bigint, p_before uuid, p_most integer)
RETURNS TABLE (id uuid, documents text)
LANGUAGE sql STABLE AS $$
    SELECT p.order_id, string_agg(payment_json(p)::text, ',' ORDER BY p.at, p.reference)
      FROM payment p
     WHERE p.voucher_id = p_voucher AND p.order_id < coalesce(p_before, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
     GROUP BY p.order_id
     ORDER BY p.order_id DESC
     LIMIT p_most
$$;

-- The same for those that are to be given back: of one voucher, or of all (NULL). It reads those of other vouchers, too,
-- since there are few at a time.
CREATE FUNCTION list_to_refund(p_voucher bigint, p_before uuid, p_most integer) RETURNS TABLE (id uuid, documents text)
LANGUAGE sql STABLE AS $$
    SELECT p.order_id, string_agg(payment_json(p)::text, ',' ORDER BY p.at, p.reference)
      FROM payment p
     WHERE p.state = 'to_refund' AND (p_voucher IS NULL OR p.voucher_id = p_voucher)
       AND p.order_id < coalesce(p_before, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
     GROUP BY p.order_id
     ORDER BY p.order_id DESC
     LIMIT p_most
$$;

-- How many there are, p_most at most.
CREATE FUNCTION count_to_refund(p_most integer) RETURNS TABLE (payments bigint)
LANGUAGE sql STABLE AS $$
    SELECT count(*) FROM (SELECT FROM payment p WHERE p.state = 'to_refund' LIMIT p_most) few
$$;

-- A voucher's payments, for the settlement report: how many are to be given back, how many were moved out to files
-- and are not in the sums, and 'STATE CURRENCY payments cents,...'.
CREATE FUNCTION settlement_payments(p_voucher bigint)
RETURNS TABLE (to_refund bigint, archived_payments bigint, payments text)
LANGUAGE sql STABLE AS $$
    SELECT sum(s.payments) FILTER (WHERE s.state = 'to_refund'),
           (SELECT sum(a.payments) FROM archived_part a WHERE a.voucher_id = p_voucher),
           string_agg(concat_ws(' ', s.state, s.currency, s.payments, s.cents), ',' ORDER BY s.state DESC, s.currency)
      FROM (SELECT p.state, p.currency, count(*) AS payments,
                   least(sum(p.amount_cents), 9223372036854775807) AS cents
              FROM payment p
             WHERE p.voucher_id = p_voucher
             GROUP BY p.state, p.currency) s
$$;

-- ---- the feed ----

-- What a row is about: 'moved', 'payment_to_refund' or 'payment_refunded', and of these two, which payment. Rows that
-- were written before have neither (old_event_type()). return_batches() writes moves only, hence the default.
ALTER TABLE order_event ADD COLUMN type text, ADD COLUMN reference text COLLATE "C";
ALTER TABLE order_event ALTER COLUMN type SET DEFAULT 'moved';

-- The type of a row without one. An order gets each status once, and none is moved to `refused`: so the row is about a
-- payment if the order had its status before.
CREATE FUNCTION old_event_type(e order_event) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN e.status <> 'refused'
                     AND NOT EXISTS (SELECT FROM order_event w
                                      WHERE w.order_id = e.order_id AND w.status = e.status AND w.seq < e.seq) THEN 'moved'
                WHEN e.why = 'PAYMENT_TO_REFUND' THEN 'payment_to_refund'
                ELSE 'payment_refunded' END
$$;

-- As in 011_lists.sql, with the type, the order's price and the payment. What paid an order is its first payment; a row
-- that names none has the time of the payment that it notes, or is one of an earlier version about a refund.
CREATE OR REPLACE FUNCTION order_events(p_after_tx xid8, p_after_seq bigint, p_most integer)
RETURNS TABLE (tx xid8, seq bigint, document json)
LANGUAGE sql STABLE AS $$
    SELECT e.tx, e.seq, json_strip_nulls(json_build_object(
               'type', e.type, 'order_id', e.order_id, 'voucher_id', e.voucher_id::text, 'user_id', o.user_id,
               'quantity', o.quantity, 'total_cents', f.price_cents * o.quantity, 'currency', f.currency,
               'status', e.status, 'at', rfc3339(e.at), 'by', e.by_whom, 'why', e.why,
               'payment', CASE WHEN p.reference IS NOT NULL THEN json_build_object(
                   'reference', p.reference, 'amount_cents', p.amount_cents, 'currency', p.currency) END))
      FROM (SELECT w.tx, w.seq, w.slot, w.voucher_id, w.order_id, w.at, w.status, w.by_whom, w.why, w.reference,
                   coalesce(w.type, old_event_type(w)) AS type
              FROM order_event w
             WHERE (w.tx, w.seq) > (p_after_tx, p_after_seq) AND w.tx < pg_snapshot_xmin(pg_current_snapshot())
             ORDER BY w.tx, w.seq
             LIMIT p_most) e
      LEFT JOIN LATERAL (SELECT own.user_id, own.quantity, own.offer FROM voucher_order own
                          WHERE own.slot = e.slot AND own.voucher_id = e.voucher_id AND own.id = e.order_id
                         OFFSET 0) o ON true
      LEFT JOIN LATERAL order_offer(e.voucher_id, o.offer) f ON true
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

-- As in 021_listed.sql, with the type.
CREATE OR REPLACE FUNCTION order_details_json(o voucher_order) RETURNS json
LANGUAGE sql STABLE AS $$
    SELECT json_strip_nulls(json_object_agg(m.name, m.value ORDER BY m.n))
      FROM (SELECT j.key, j.value, j.n FROM json_each(order_json(o)) WITH ORDINALITY AS j (key, value, n)
            UNION ALL
            -- Moves of one order follow each other, and so do their numbers.
            SELECT 'events', json_agg(json_build_object(
                                 'type', coalesce(e.type, old_event_type(e)), 'at', rfc3339(e.at), 'status', e.status,
                                 'by', e.by_whom, 'why', e.why)
                             ORDER BY e.seq), 1000
              FROM order_event e WHERE e.order_id = o.id AND e.slot = o.slot AND e.voucher_id = o.voucher_id
            UNION ALL
            SELECT 'payments', json_agg(json_build_object(
                                   'reference', p.reference, 'amount_cents', p.amount_cents, 'currency', p.currency,
                                   'state', p.state, 'at', rfc3339(p.at))
                               ORDER BY p.at, p.reference), 1001
              FROM payment p WHERE p.order_id = o.id AND p.slot = o.slot AND p.voucher_id = o.voucher_id
           ) AS m (name, value, n)
     WHERE m.value IS NOT NULL
$$;

-- As in 008_life.sql; new is only what the event says of the payment.
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
        INSERT INTO order_event (slot, voucher_id, order_id, status, by_whom, why, type, reference)
        VALUES (p_slot, v_voucher, p_id, v_order.status, p_by, CASE WHEN NOT v_payable THEN 'PAYMENT_TO_REFUND' END,
                CASE WHEN v_payable THEN 'moved' ELSE 'payment_to_refund' END, p_reference);
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

-- As in 008_life.sql; new is that each payment that was given back has an event of its own, which names it.
CREATE OR REPLACE FUNCTION note_refunds(p_slot integer, p_id uuid, p_by text, p_why text, p_reference text DEFAULT NULL)
RETURNS TABLE (outcome text, voucher_id bigint, status order_status, document json)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_voucher bigint := voucher_of_order(p_slot, p_id);
    v_order   voucher_order;
    v_states  text[]; -- of the payments that are meant
    v_done    boolean;
BEGIN
    SELECT o.* INTO v_order FROM voucher_order o
     WHERE o.slot = p_slot AND o.voucher_id = v_voucher AND o.id = p_id FOR UPDATE;
    IF NOT FOUND THEN
        RETURN QUERY VALUES ('unknown', NULL::bigint, NULL::order_status, NULL::json);
        RETURN;
    END IF;
    v_states := ARRAY(SELECT p.state FROM payment p
                       WHERE p.order_id = p_id AND p.slot = p_slot AND p.voucher_id = v_voucher
                         AND p.reference = coalesce(p_reference, p.reference));
    IF p_reference IS NOT NULL AND v_states = '{}' THEN
        RETURN QUERY VALUES ('unknown_payment', v_voucher, v_order.status, NULL::json);
        RETURN;
    END IF;
    IF EXISTS (SELECT FROM order_move m WHERE m.from_status = v_order.status AND m.to_status = 'refunded') THEN
        RETURN QUERY VALUES ('returns', v_voucher, v_order.status, NULL::json);
        RETURN;
    END IF;
    v_done := 'refunded' = ANY (v_states) OR (p_reference IS NULL AND v_order.status = 'refunded');
    IF NOT v_done AND 'to_refund' = ANY (v_states) THEN
        WITH given_back AS (
            UPDATE payment p SET state = 'refunded'
             WHERE p.order_id = p_id AND p.slot = p_slot AND p.voucher_id = v_voucher AND p.state = 'to_refund'
               AND p.reference = coalesce(p_reference, p.reference)
            RETURNING p.reference, p.at)
        INSERT INTO order_event (slot, voucher_id, order_id, status, by_whom, why, type, reference)
        SELECT p_slot, v_voucher, p_id, v_order.status, p_by, coalesce(p_why, 'PAYMENT_REFUNDED'), 'payment_refunded',
               g.reference
          FROM given_back g
         ORDER BY g.at, g.reference;
        v_done := true;
    END IF;
    RETURN QUERY
    SELECT CASE WHEN v_done THEN 'refunded' ELSE 'kept' END, v_voucher, v_order.status, order_details_json(v_order);
END
$$;

-- ---- rights ----

DO $$
DECLARE
    v_new      text[] := ARRAY['list_to_refund(bigint, uuid, integer)', 'count_to_refund(integer)',
                               'settlement_payments(bigint)'];
    v_replaced text[] := ARRAY['list_payments(bigint, uuid, integer)', 'order_events(xid8, bigint, integer)',
                               'pay_order(integer, uuid, text, bigint, text, text)',
                               'note_refunds(integer, uuid, text, text, text)'];
    v_function text;
BEGIN
    FOREACH v_function IN ARRAY v_new || v_replaced LOOP
        EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER SET search_path = %I, pg_temp', v_function, current_schema());
    END LOOP;
    FOREACH v_function IN ARRAY v_new || ARRAY['old_event_type'] LOOP
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', v_function);
    END LOOP;
END
$$;
GRANT EXECUTE ON FUNCTION list_to_refund(bigint, uuid, integer) TO seckill_service;
GRANT EXECUTE ON FUNCTION count_to_refund(integer) TO seckill_service;
GRANT EXECUTE ON FUNCTION settlement_payments(bigint) TO seckill_service;
