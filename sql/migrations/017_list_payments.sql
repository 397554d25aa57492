-- The payments of a voucher, in pages.

CREATE INDEX payment_voucher ON payment (voucher_id, order_id);

-- The payments of the newest orders before p_before (NULL: from the newest): for each of at most p_most orders its id,
-- and its payments as JSON objects with commas between them, oldest first. An order is never cut in two.
CREATE FUNCTION list_payments(p_voucher bigint, p_before uuid, p_most integer) RETURNS TABLE (id uuid, documents text)
LANGUAGE sql STABLE AS $$
    SELECT p.order_id,
           string_agg(json_build_object(
               'reference', p.reference, 'order_id', p.order_id, 'amount_cents', p.amount_cents, 'currency', p.currency,
               'state', p.state, 'by', p.by_whom, 'at', rfc3339(p.at))::text, ',' ORDER BY p.at, p.reference)
      FROM payment p
     WHERE p.voucher_id = p_voucher AND p.order_id < coalesce(p_before, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
     GROUP BY p.order_id
     ORDER BY p.order_id DESC
     LIMIT p_most
$$;

REVOKE EXECUTE ON FUNCTION list_payments(bigint, uuid, integer) FROM PUBLIC;
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION list_payments(bigint, uuid, integer) SECURITY DEFINER SET search_path = %I, pg_temp',
                   current_schema());
END
$$;
GRANT EXECUTE ON FUNCTION list_payments(bigint, uuid, integer) TO seckill_service;
