-- An order may end before its journal entry is settled. The instance that settles the entry removes the buyer from
-- Redis. It also gives Redis the number of the user's ended orders, as after return_batches().

-- Which of the user's ended orders this one was. NULL: it was refused, or is live. VOLATILE: see buyer_value().
CREATE FUNCTION ended_nth(p_slot integer, p_voucher bigint, p_id uuid) RETURNS smallint
LANGUAGE plpgsql STRICT AS $$
BEGIN
    RETURN (SELECT w.ended_nth FROM voucher_order w
             WHERE w.slot = p_slot AND w.voucher_id = p_voucher AND w.id = p_id);
END
$$;

DO $$
BEGIN
    REVOKE EXECUTE ON FUNCTION ended_nth(integer, bigint, uuid) FROM PUBLIC;
    EXECUTE format('ALTER FUNCTION ended_nth(integer, bigint, uuid) SECURITY DEFINER SET search_path = %I, pg_temp',
                   current_schema());
    GRANT EXECUTE ON FUNCTION ended_nth(integer, bigint, uuid) TO seckill_service;
END
$$;
