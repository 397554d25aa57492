-- What becomes of an order after it was placed: it is paid, and money that came too late is given back. Cancelling,
-- expiry and refunding return units: return_orders().
--
-- Which moves there are is looked up in order_move. A move locks the order's row alone, never the voucher's: payments
-- must not slow buyers. Two moves of one order are ordered by that lock, and each sees what the other did.

-- ---- finding ----

-- The voucher of an order; NULL: there is no such order. Normally one sale was in the slot.
CREATE FUNCTION voucher_of_order(p_slot integer, p_id uuid) RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT own.voucher_id
      FROM voucher_stock s
     CROSS JOIN LATERAL (SELECT o.voucher_id FROM voucher_order o
                          WHERE o.slot = s.slot AND o.voucher_id = s.voucher_id AND o.id = p_id OFFSET 0) own
     WHERE s.slot = p_slot
     ORDER BY own.voucher_id
     LIMIT 1
$$;

-- Any user's order, for those who may see all. One that waits in a dead letter has no row yet, and is pending: here alone
-- this is told by PostgreSQL, because Redis finds a pending order by its user. No row: PostgreSQL does not know it.
CREATE FUNCTION find_any_order(p_slot integer, p_id uuid) RETURNS SETOF json
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY SELECT order_details_json(o) FROM voucher_order o
                  WHERE o.slot = p_slot AND o.voucher_id = voucher_of_order(p_slot, p_id) AND o.id = p_id;
    IF NOT FOUND THEN
        RETURN QUERY SELECT json_build_object('id', h.id, 'voucher_id', h.voucher_id::text, 'user_id', h.user_id,
                                              'quantity', h.quantity, 'status', 'pending')
                       FROM held_order h WHERE h.slot = p_slot AND h.id = p_id LIMIT 1;
    END IF;
END
$$;

-- What is to be known before an order can be moved: whose voucher's it is, its status, whether that allows the move, and
-- the order as it is shown. `document` NULL: it is another user's. No row: PostgreSQL does not know it.
CREATE FUNCTION find_for_move(p_slot integer, p_id uuid, p_user text, p_to order_status)
RETURNS TABLE (voucher_id bigint, status order_status, allowed boolean, document json)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT o.voucher_id, o.status,
           EXISTS (SELECT FROM order_move m WHERE m.from_status = o.status AND m.to_status = p_to),
           CASE WHEN o.user_id = p_user THEN order_details_json(o) END
      FROM voucher_order o
     WHERE o.slot = p_slot AND o.voucher_id = voucher_of_order(p_slot, p_id) AND o.id = p_id;
END
$$;

-- ---- paying ----

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
CREATE FUNCTION pay_order(p_slot integer, p_id uuid, p_reference text, p_amount_cents bigint, p_currency text, p_by text)
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

-- ---- giving money back ----

-- The shop has given back what came for an order after its end: the payment of that reference, or, without one, all that
-- were noted before the order's first refund. Later ones are settled by a refund that names them.
--
--   refunded         this payment is given back, or the order's first refund is made: by this call or an earlier one
--   returns          the order is one that can be refunded: return_orders() does that
--   unknown_payment  the order has no payment of that reference: nothing is done
--   kept             there is nothing to give back, or the order is live: nothing is done
--   unknown          PostgreSQL does not know the order
CREATE FUNCTION note_refunds(p_slot integer, p_id uuid, p_by text, p_why text, p_reference text DEFAULT NULL)
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
        UPDATE payment p SET state = 'refunded'
         WHERE p.order_id = p_id AND p.slot = p_slot AND p.voucher_id = v_voucher AND p.state = 'to_refund'
           AND p.reference = coalesce(p_reference, p.reference);
        INSERT INTO order_event (slot, voucher_id, order_id, status, by_whom, why)
        VALUES (p_slot, v_voucher, p_id, v_order.status, p_by, coalesce(p_why, 'PAYMENT_REFUNDED'));
        v_done := true;
    END IF;
    RETURN QUERY
    SELECT CASE WHEN v_done THEN 'refunded' ELSE 'kept' END, v_voucher, v_order.status, order_details_json(v_order);
END
$$;
