-- What Redis must have of a voucher, for the settlement report: what segment_accounts() says, which the audit compares and
-- a rebuild opens with. So the report and the audit never judge differently.
CREATE FUNCTION voucher_account(p_voucher bigint) RETURNS TABLE (account_stock bigint, account_buyers bigint)
LANGUAGE sql STABLE AS $$
    SELECT sum(a.stock)::bigint, sum(a.buyers)::bigint
      FROM (SELECT array_agg(s.slot::integer) AS slots, array_agg(s.voucher_id) AS vouchers
              FROM seckill_segment s WHERE s.voucher_id = p_voucher) own
     CROSS JOIN LATERAL segment_accounts(own.slots, own.vouchers) a
$$;

-- As in 011_grants.sql.
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION voucher_account(bigint) SECURITY DEFINER SET search_path = %I, pg_temp',
                   current_schema());
END
$$;
REVOKE EXECUTE ON FUNCTION voucher_account(bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION voucher_account(bigint) TO seckill_service;
