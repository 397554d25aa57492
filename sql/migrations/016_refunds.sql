-- A refund may name the payment that the shop has given back. Before, a repeated refund also settled what was noted in
-- between: money that nobody had sent was booked as given back.

DROP FUNCTION note_refunds(integer, uuid, text, text);

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

-- As 011_grants.sql does it for those before.
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION note_refunds(integer, uuid, text, text, text)'
                   ' SECURITY DEFINER SET search_path = %I, pg_temp', current_schema());
END
$$;
REVOKE EXECUTE ON FUNCTION note_refunds(integer, uuid, text, text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION note_refunds(integer, uuid, text, text, text) TO seckill_service;
