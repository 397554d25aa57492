-- The service's role: reads and writes rows, owns nothing, defines nothing. Give it to the login that
-- the service uses (GRANT seckill_service TO ...). Roles belong to the whole server, so it may exist.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'seckill_service') THEN
        CREATE ROLE seckill_service NOLOGIN;
    END IF;
END
$$;

GRANT SELECT, INSERT, UPDATE ON seckill_voucher, voucher_order TO seckill_service;
REVOKE EXECUTE ON FUNCTION place_orders(bigint, bigint, uuid[], text[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION place_orders(bigint, bigint, uuid[], text[]) TO seckill_service;
