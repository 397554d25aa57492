-- Money: the payments that are to be given back, and the sums of a settlement report.

-- ---- payments that are to be given back ----

-- Only payments that came after their order's end are in it: purchases and usual payments do not touch it.
CREATE INDEX payment_to_refund ON payment (order_id) WHERE state = 'to_refund';

-- As in 021_listed.sql, with the voucher.
CREATE FUNCTION payment_json(p payment) RETURNS json
LANGUAGE sql STABLE AS $$
    SELECT json_strip_nulls(json_build_object(
        'reference', p.reference, 'order_id', p.order_id, 'voucher_id', p.voucher_id::text,
        'amount_cents', p.amount_cents, 'currency', p.currency, 'state', p.state, 'by', p.by_whom, 'at', rfc3339(p.at)))
$$;

CREATE OR REPLACE FUNCTION list_payments(p_voucher bigint, p_before uuid, p_most integer)
RETURNS TABLE (id uuid, documents text)
LANGUAGE sql STABLE AS $$
    SELECT p.order_id, string_agg(payment_json(p)::text, ',' ORDER BY p.at, p.reference)
      FROM payment p
     WHERE p.voucher_id = p_voucher AND p.order_id < coalesce(p_before, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
     GROUP BY p.order_id
     ORDER BY p.order_id DESC
     LIMIT p_most
$$;

-- The same for those that are to be given back: of one voucher, or of all (NULL). It reads those of other vouchers, too,
-- since there are few at a time.
CREATE FUNCTION list_to_refund(p_voucher bigint, p_before uuid, p_most integer) RETURNS TABLE (id uuid, documents text)
LANGUAGE sql STABLE AS $$
    SELECT p.order_id, string_agg(payment_json(p)::text, ',' ORDER BY p.at, p.reference)
      FROM payment p
     WHERE p.state = 'to_refund' AND (p_voucher IS NULL OR p.voucher_id = p_voucher)
       AND p.order_id < coalesce(p_before, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
     GROUP BY p.order_id
     ORDER BY p.order_id DESC
     LIMIT p_most
$$;

-- How many there are, p_most at most.
CREATE FUNCTION count_to_refund(p_most integer) RETURNS TABLE (payments bigint)
LANGUAGE sql STABLE AS $$
    SELECT count(*) FROM (SELECT FROM payment p WHERE p.state = 'to_refund' LIMIT p_most) few
$$;

-- A voucher's payments, for the settlement report: how many are to be given back, how many were moved out to files
-- and are not in the sums, and 'STATE CURRENCY payments cents,...'.
CREATE FUNCTION settlement_payments(p_voucher bigint)
RETURNS TABLE (to_refund bigint, archived_payments bigint, payments text)
LANGUAGE sql STABLE AS $$
    SELECT sum(s.payments) FILTER (WHERE s.state = 'to_refund'),
           (SELECT sum(a.payments) FROM archived_part a WHERE a.voucher_id = p_voucher),
           string_agg(concat_ws(' ', s.state, s.currency, s.payments, s.cents), ',' ORDER BY s.state DESC, s.currency)
      FROM (SELECT p.state, p.currency, count(*) AS payments,
                   least(sum(p.amount_cents), 9223372036854775807) AS cents
              FROM payment p
             WHERE p.voucher_id = p_voucher
             GROUP BY p.state, p.currency) s
$$;

-- ---- rights ----

DO $$
DECLARE
    v_new      text[] := ARRAY['list_to_refund(bigint, uuid, integer)', 'count_to_refund(integer)',
                               'settlement_payments(bigint)'];
    v_replaced text[] := ARRAY['list_payments(bigint, uuid, integer)'];
    v_function text;
BEGIN
    FOREACH v_function IN ARRAY v_new || v_replaced LOOP
        EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER SET search_path = %I, pg_temp', v_function, current_schema());
    END LOOP;
    FOREACH v_function IN ARRAY v_new LOOP
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', v_function);
    END LOOP;
END
$$;
GRANT EXECUTE ON FUNCTION list_to_refund(bigint, uuid, integer) TO seckill_service;
GRANT EXECUTE ON FUNCTION count_to_refund(integer) TO seckill_service;
GRANT EXECUTE ON FUNCTION settlement_payments(bigint) TO seckill_service;
