-- The public list has paused vouchers, too; and JSON has no spaces.

-- The newest vouchers of one state, before p_before (NULL: from the newest). NULL: of all states; 'listed': open or
-- paused. Each part is cut to a page in the order of its index before they meet.
CREATE OR REPLACE FUNCTION list_vouchers(p_state text, p_before bigint, p_most integer)
RETURNS TABLE (id bigint, document json)
LANGUAGE sql STABLE AS $$
    SELECT v.id, voucher_json(v.*)
      FROM ((SELECT * FROM seckill_voucher whole
              WHERE p_state IS NULL AND whole.id < coalesce(p_before, 9223372036854775807)
              ORDER BY whole.id DESC
              LIMIT p_most)
            UNION ALL
            (SELECT * FROM seckill_voucher part
              WHERE part.state = CASE p_state WHEN 'listed' THEN 'open' ELSE p_state END
                AND part.id < coalesce(p_before, 9223372036854775807)
              ORDER BY part.id DESC
              LIMIT p_most)
            UNION ALL
            (SELECT * FROM seckill_voucher paused
              WHERE p_state = 'listed' AND paused.state = 'paused'
                AND paused.id < coalesce(p_before, 9223372036854775807)
              ORDER BY paused.id DESC
              LIMIT p_most)
            ORDER BY id DESC
            LIMIT p_most) v
     ORDER BY v.id DESC
$$;

-- An order with what happened to it: `events`, oldest first, and `payments`, where there are some. json_strip_nulls()
-- writes its JSON without spaces, which the functions that build JSON do not.
CREATE OR REPLACE FUNCTION order_details_json(o voucher_order) RETURNS json
LANGUAGE sql STABLE AS $$
    SELECT json_strip_nulls(json_object_agg(m.name, m.value ORDER BY m.n))
      FROM (SELECT j.key, j.value, j.n FROM json_each(order_json(o)) WITH ORDINALITY AS j (key, value, n)
            UNION ALL
            -- Moves of one order follow each other, and so do their numbers.
            SELECT 'events', json_agg(json_build_object(
                                 'at', rfc3339(e.at), 'status', e.status, 'by', e.by_whom, 'why', e.why)
                             ORDER BY e.seq), 1000
              FROM order_event e WHERE e.order_id = o.id AND e.slot = o.slot AND e.voucher_id = o.voucher_id
            UNION ALL
            SELECT 'payments', json_agg(json_build_object(
                                   'reference', p.reference, 'amount_cents', p.amount_cents, 'currency', p.currency,
                                   'state', p.state, 'at', rfc3339(p.at))
                               ORDER BY p.at, p.reference), 1001
              FROM payment p WHERE p.order_id = o.id AND p.slot = o.slot AND p.voucher_id = o.voucher_id
           ) AS m (name, value, n)
     WHERE m.value IS NOT NULL
$$;

-- As in 008_life.sql.
CREATE OR REPLACE FUNCTION find_any_order(p_slot integer, p_id uuid) RETURNS SETOF json
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY SELECT order_details_json(o) FROM voucher_order o
                  WHERE o.slot = p_slot AND o.voucher_id = voucher_of_order(p_slot, p_id) AND o.id = p_id;
    IF NOT FOUND THEN
        RETURN QUERY SELECT json_strip_nulls(json_build_object(
                                'id', h.id, 'voucher_id', h.voucher_id::text, 'user_id', h.user_id,
                                'quantity', h.quantity, 'status', 'pending'))
                       FROM held_order h WHERE h.slot = p_slot AND h.id = p_id LIMIT 1;
    END IF;
END
$$;

-- As in 017_list_payments.sql.
CREATE OR REPLACE FUNCTION list_payments(p_voucher bigint, p_before uuid, p_most integer)
RETURNS TABLE (id uuid, documents text)
LANGUAGE sql STABLE AS $$
    SELECT p.order_id,
           string_agg(json_strip_nulls(json_build_object(
               'reference', p.reference, 'order_id', p.order_id, 'amount_cents', p.amount_cents, 'currency', p.currency,
               'state', p.state, 'by', p.by_whom, 'at', rfc3339(p.at)))::text, ',' ORDER BY p.at, p.reference)
      FROM payment p
     WHERE p.voucher_id = p_voucher AND p.order_id < coalesce(p_before, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
     GROUP BY p.order_id
     ORDER BY p.order_id DESC
     LIMIT p_most
$$;

DO $$
DECLARE
    v_function text;
BEGIN
    FOREACH v_function IN ARRAY ARRAY['list_vouchers(text, bigint, integer)', 'find_any_order(integer, uuid)',
                                      'list_payments(bigint, uuid, integer)'] LOOP
        EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER SET search_path = %I, pg_temp', v_function, current_schema());
    END LOOP;
END
$$;
