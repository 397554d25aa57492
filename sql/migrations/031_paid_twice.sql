-- A second payment of a paid order is money that is owed, too. It is refused as before, and recorded as one that came
-- after the order's end is: so the settlement report and the list of payments to refund show it.

-- As in 024_money.sql, but it records that payment. Repeated, it is refused again while the order is paid.
CREATE OR REPLACE FUNCTION pay_order(p_slot integer, p_id uuid, p_reference text, p_amount_cents bigint, p_currency text, p_by text)
RETURNS TABLE (outcome text, document json)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_voucher bigint := voucher_of_order(p_slot, p_id);
    v_order   voucher_order;
    v_noted   payment;
    v_payable boolean;
    v_twice   boolean;
BEGIN
    SELECT o.* INTO v_order FROM voucher_order o
     WHERE o.slot = p_slot AND o.voucher_id = v_voucher AND o.id = p_id FOR UPDATE;
    IF NOT FOUND THEN
        RETURN QUERY VALUES ('unknown', NULL::json);
        RETURN;
    END IF;
    v_twice := v_order.status = 'paid';

    SELECT p.* INTO v_noted FROM payment p WHERE p.reference = p_reference;
    IF NOT FOUND THEN
        v_payable := EXISTS (SELECT FROM order_move m WHERE m.from_status = v_order.status AND m.to_status = 'paid');
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
        RETURN QUERY VALUES (CASE WHEN v_payable THEN 'paid' WHEN v_twice THEN 'already_paid' ELSE 'to_refund' END,
                             order_details_json(v_order));
    ELSIF (v_noted.slot, v_noted.voucher_id, v_noted.order_id) <> (p_slot, v_voucher, p_id) THEN
        RETURN QUERY VALUES ('reference_used', NULL::json);
    ELSIF (v_noted.amount_cents, v_noted.currency) <> (p_amount_cents, p_currency) THEN
        RETURN QUERY VALUES ('wrong_amount', NULL::json);
    ELSE
        RETURN QUERY VALUES (CASE WHEN v_twice AND v_noted.state <> 'accepted' THEN 'already_paid' ELSE 'already' END,
                             order_details_json(v_order));
    END IF;
END
$$;

-- As in 024_money.sql, but a refund that names a second payment of a paid order settles that one alone: the order stays
-- paid. A refund of such an order without a name settles what paid it.
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
    IF (p_reference IS NULL OR v_states = '{accepted}')
       AND EXISTS (SELECT FROM order_move m WHERE m.from_status = v_order.status AND m.to_status = 'refunded') THEN
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

-- As in 024_money.sql, but what is noted of a payment comes with the status that the order has now. The feed has the order
-- of the transactions' numbers, and one that ends the order may have got its number before the one that notes a second
-- payment, and have waited for it. So the order would be refunded, and then paid.
CREATE OR REPLACE FUNCTION order_events(p_after_tx xid8, p_after_seq bigint, p_most integer)
RETURNS TABLE (tx xid8, seq bigint, document json)
LANGUAGE sql STABLE AS $$
    SELECT e.tx, e.seq, json_strip_nulls(json_build_object(
               'type', e.type, 'order_id', e.order_id, 'voucher_id', e.voucher_id::text, 'user_id', o.user_id,
               'quantity', o.quantity, 'total_cents', f.price_cents * o.quantity, 'currency', f.currency,
               'status', CASE WHEN e.type = 'moved' OR o.status IS NULL THEN e.status ELSE o.status END,
               'at', rfc3339(e.at), 'by', e.by_whom, 'why', e.why,
               'payment', CASE WHEN p.reference IS NOT NULL THEN json_build_object(
                   'reference', p.reference, 'amount_cents', p.amount_cents, 'currency', p.currency) END))
      FROM (SELECT w.tx, w.seq, w.slot, w.voucher_id, w.order_id, w.at, w.status, w.by_whom, w.why, w.reference,
                   coalesce(w.type, old_event_type(w)) AS type
              FROM order_event w
             WHERE (w.tx, w.seq) > (p_after_tx, p_after_seq) AND w.tx < pg_snapshot_xmin(pg_current_snapshot())
             ORDER BY w.tx, w.seq
             LIMIT p_most) e
      LEFT JOIN LATERAL (SELECT own.user_id, own.quantity, own.offer, own.status FROM voucher_order own
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

-- As in 014_archive.sql, but money may be owed for a paid order, too.
CREATE OR REPLACE FUNCTION archive_next(p_after bigint, p_days integer) RETURNS TABLE (voucher_id bigint, outcome text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_id         bigint := p_after;
    v_duplicates bigint;
BEGIN
    PERFORM pg_advisory_lock(hashtext('seckill_archive')); -- of the session: one run after the other
    LOOP
        SELECT v.id INTO v_id FROM seckill_voucher v
         WHERE v.id > v_id AND v.state = 'retired' AND v.end_at <= now() - make_interval(days => p_days)
           AND (NOT EXISTS (SELECT FROM archived_voucher a WHERE a.voucher_id = v.id AND a.ended_at IS NOT NULL)
                OR EXISTS (SELECT FROM voucher_stock s
                            CROSS JOIN LATERAL (SELECT FROM voucher_order o
                                                 WHERE o.slot = s.slot AND o.voucher_id = s.voucher_id
                                                 LIMIT 1 OFFSET 0) own
                            WHERE s.voucher_id = v.id))
         ORDER BY v.id LIMIT 1;
        IF NOT FOUND THEN
            RETURN;
        END IF;
        IF EXISTS (SELECT FROM payment p WHERE p.state = 'to_refund' AND p.voucher_id = v_id) THEN
            RETURN QUERY VALUES (v_id, 'owed');
            RETURN;
        END IF;
        EXIT WHEN EXISTS (SELECT FROM archived_voucher a WHERE a.voucher_id = v_id); -- begun by an earlier run
        v_duplicates := duplicate_orders(v_id);
        PERFORM FROM seckill_catalogue FOR UPDATE; -- as what recalls a voucher
        INSERT INTO archived_voucher (voucher_id, duplicates)
        SELECT v.id, v_duplicates FROM seckill_voucher v WHERE v.id = v_id AND v.state = 'retired';
        IF FOUND THEN
            INSERT INTO admin_event (by_whom, what, voucher_id) VALUES (session_user, 'archiving', v_id);
            EXIT;
        END IF;
    END LOOP;
    RETURN QUERY VALUES (v_id, 'begun');
END
$$;

DO $$
DECLARE
    v_function text;
BEGIN
    FOREACH v_function IN ARRAY ARRAY['pay_order(integer, uuid, text, bigint, text, text)',
                                      'note_refunds(integer, uuid, text, text, text)',
                                      'order_events(xid8, bigint, integer)',
                                      'archive_next(bigint, integer)'] LOOP
        EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER SET search_path = %I, pg_temp', v_function, current_schema());
    END LOOP;
END
$$;
