-- What Redis gets in the place of an order that is refused once more: the user's live order, if that was there when it was
-- first refused. A later one may end before Redis hears of it. NULL: nothing. VOLATILE: see buyer_value().
CREATE FUNCTION live_before(p_slot integer, p_voucher bigint, p_refused uuid, p_live uuid) RETURNS text
LANGUAGE plpgsql STRICT AS $$
BEGIN
    RETURN (SELECT buyer_value(p_slot, p_voucher, live.id)
              FROM voucher_order refused
              JOIN voucher_order live ON live.slot = refused.slot AND live.voucher_id = refused.voucher_id
             WHERE refused.slot = p_slot AND refused.voucher_id = p_voucher AND refused.id = p_refused
               AND live.id = p_live AND live.created_at <= refused.created_at);
END
$$;

DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION live_before(integer, bigint, uuid, uuid) SECURITY DEFINER SET search_path = %I, pg_temp',
                   current_schema());
    REVOKE EXECUTE ON FUNCTION live_before(integer, bigint, uuid, uuid) FROM PUBLIC;
    GRANT EXECUTE ON FUNCTION live_before(integer, bigint, uuid, uuid) TO seckill_service;
END
$$;
