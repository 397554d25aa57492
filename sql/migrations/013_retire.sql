-- Whether a sale may be retired is asked before Redis is closed for it. A voucher that was recalled stays as long as one
-- whose sale has just ended.
ALTER TABLE seckill_voucher ADD COLUMN recalled_at timestamptz; -- NULL: never

-- Whether a voucher's sale ended so long ago by this server's clock, and nothing of it is open. It locks nothing, so
-- retire_voucher() decides once more.
CREATE FUNCTION may_retire(p_voucher bigint, p_after_ms bigint) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM seckill_voucher v
                    WHERE v.id = p_voucher AND v.state <> 'retired'
                      AND greatest(v.end_at, v.recalled_at) + p_after_ms * interval '1 ms' <= now())
           AND NOT voucher_is_open(p_voucher)
$$;

-- Makes a retired voucher one of the catalogue again, closed: 'recalled'; or 'archived': its orders are not all here;
-- or 'none': it is not retired.
CREATE OR REPLACE FUNCTION recall_voucher(p_voucher bigint) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM seckill_catalogue FOR UPDATE;
    IF EXISTS (SELECT FROM archived_voucher a WHERE a.voucher_id = p_voucher) THEN
        RETURN 'archived';
    END IF;
    UPDATE seckill_voucher v SET state = 'closed', recalled_at = now() WHERE v.id = p_voucher AND v.state = 'retired';
    RETURN CASE WHEN FOUND THEN 'recalled' ELSE 'none' END;
END
$$;

-- As in 011_grants.sql.
DO $$
DECLARE
    v_function text;
BEGIN
    FOREACH v_function IN ARRAY ARRAY['may_retire(bigint, bigint)', 'recall_voucher(bigint)'] LOOP
        EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER SET search_path = %I, pg_temp', v_function, current_schema());
    END LOOP;
END
$$;
REVOKE EXECUTE ON FUNCTION may_retire(bigint, bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION may_retire(bigint, bigint) TO seckill_service;
