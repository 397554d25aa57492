-- What Redis keeps of the buyer of an order, as place_orders.lua writes it: a correction that puts another live order in the
-- place of a refused one must not lose its quantity and key, or a repeat of that order would not be known as one. VOLATILE:
-- it sees what the call of place_orders() beside it has done and waited for.
CREATE FUNCTION buyer_value(p_slot integer, p_voucher bigint, p_id uuid) RETURNS text
LANGUAGE plpgsql STRICT AS $$
BEGIN
    RETURN (SELECT concat_ws(' ', w.id, CASE WHEN w.quantity > 1 OR w.request_key IS NOT NULL THEN w.quantity END,
                             w.request_key)
              FROM voucher_order w
             WHERE w.slot = p_slot AND w.voucher_id = p_voucher AND w.id = p_id);
END
$$;

-- As in 011_grants.sql.
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION buyer_value(integer, bigint, uuid) SECURITY DEFINER SET search_path = %I, pg_temp',
                   current_schema());
END
$$;
REVOKE EXECUTE ON FUNCTION buyer_value(integer, bigint, uuid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION buyer_value(integer, bigint, uuid) TO seckill_service;
