-- What an operator looks for: a payment by its reference, vouchers by their title, and those in trouble.

CREATE FUNCTION payment_json(p payment) RETURNS json
LANGUAGE sql STABLE AS $$
    SELECT json_strip_nulls(json_build_object(
        'reference', p.reference, 'order_id', p.order_id, 'voucher_id', p.voucher_id::text,
        'amount_cents', p.amount_cents, 'currency', p.currency, 'state', p.state, 'by', p.by_whom, 'at', rfc3339(p.at)))
$$;

-- The payment of this reference, as list_payments() shows it; no row if this database does not have it.
CREATE FUNCTION find_payment(p_reference text) RETURNS TABLE (id uuid, documents text)
LANGUAGE sql STABLE AS $$
    SELECT p.order_id, payment_json(p)::text
      FROM payment p
     WHERE p.reference = p_reference
$$;

-- Those of the newest 100,000 vouchers whose title contains p_title, in large or small letters; else as list_vouchers().
CREATE FUNCTION find_vouchers(p_state text, p_before bigint, p_most integer, p_title text)
RETURNS TABLE (id bigint, document json)
LANGUAGE sql STABLE AS $$
    SELECT v.id, voucher_json(v.*)
      FROM (SELECT * FROM seckill_voucher ORDER BY id DESC LIMIT 100000) v
     WHERE v.id < coalesce(p_before, 9223372036854775807) AND (p_state IS NULL OR v.state = p_state)
       AND position(lower(p_title) IN lower(v.title)) > 0
     ORDER BY v.id DESC
     LIMIT p_most
$$;

-- Vouchers for which an operator has something to do, p_most of each kind at most:
--   DEAD_LETTERS  `count` of them wait for a decision
--   EXPIRY_LATE   an order should have expired `late_s` seconds ago, more than half a minute. Orders before due_after
--                 are not unpaid (due_orders()), so this reads as few rows as expiry does.
CREATE FUNCTION troubles(p_most integer) RETURNS TABLE (id bigint, document text)
LANGUAGE sql STABLE AS $$
    SELECT t.id, json_strip_nulls(json_build_object('voucher_id', t.id::text, 'title', v.title, 'what', t.what,
                                                    'count', t.count, 'late_s', t.late_s))::text
      FROM ((SELECT l.voucher_id AS id, 'DEAD_LETTERS' AS what, count(*) AS count, NULL::bigint AS late_s
               FROM dead_letter l
              WHERE l.ended_at IS NULL
              GROUP BY l.voucher_id
              ORDER BY l.voucher_id DESC
              LIMIT p_most)
            UNION ALL
            (SELECT s.voucher_id, 'EXPIRY_LATE', NULL, extract(epoch FROM now() - o.due_at)::bigint
               FROM seckill_voucher live
               JOIN voucher_stock s ON s.voucher_id = live.id
              CROSS JOIN LATERAL (SELECT w.created_at + live.pay_within_s * interval '1 s' AS due_at
                                    FROM (SELECT status, created_at FROM voucher_order walked
                                           WHERE walked.slot = s.slot AND walked.voucher_id = s.voucher_id
                                             AND walked.id >= s.due_after
                                           ORDER BY walked.id
                                           LIMIT 1000) w
                                   WHERE w.status = 'unpaid'
                                   LIMIT 1) o
              WHERE live.state IN ('open', 'paused', 'closed') AND live.pay_within_s > 0 AND s.live > 0
                AND o.due_at < now() - interval '30 s'
              ORDER BY s.voucher_id DESC
              LIMIT p_most)) t
      JOIN seckill_voucher v ON v.id = t.id
     ORDER BY t.id DESC, t.what
$$;

DO $$
DECLARE
    v_function text;
BEGIN
    FOREACH v_function IN ARRAY ARRAY['find_payment(text)', 'find_vouchers(text, bigint, integer, text)',
                                      'troubles(integer)'] LOOP
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', v_function);
        EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER SET search_path = %I, pg_temp', v_function, current_schema());
    END LOOP;
END
$$;
REVOKE EXECUTE ON FUNCTION payment_json(payment) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION find_payment(text) TO seckill_service;
GRANT EXECUTE ON FUNCTION find_vouchers(text, bigint, integer, text) TO seckill_service;
GRANT EXECUTE ON FUNCTION troubles(integer) TO seckill_service;
