-- What the interface shows: PostgreSQL makes the JSON.

CREATE FUNCTION rfc3339(p_at timestamptz) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT to_char(p_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
$$;

CREATE FUNCTION unix_ms(p_at timestamptz) RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT floor(extract(epoch FROM p_at) * 1000)::bigint
$$;

-- The first UUIDv7 of a moment.
CREATE FUNCTION uuid_at(p_at timestamptz) RETURNS uuid
LANGUAGE sql STABLE STRICT AS $$
    SELECT rpad(lpad(to_hex(least(greatest(unix_ms(p_at), 0), 281474976710655)), 12, '0'), 32, '0')::uuid
$$;

-- When an unpaid order of these terms expires; NULL: never.
CREATE FUNCTION expires_at(p_created_at timestamptz, p_pay_within_s integer) RETURNS timestamptz
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN p_pay_within_s > 0 THEN p_created_at + make_interval(secs => p_pay_within_s) END
$$;

-- The terms that an order was placed under. No order is refused because its offer is not known: a number that only a
-- forged journal entry can name counts as 0.
CREATE FUNCTION order_offer(p_voucher bigint, p_offer integer) RETURNS SETOF seckill_offer
LANGUAGE sql STABLE ROWS 1 AS $$
    SELECT f.* FROM seckill_offer f WHERE f.voucher_id = p_voucher ORDER BY f.offer <> p_offer, f.offer LIMIT 1
$$;

-- PL/pgSQL, which keeps its plan.
CREATE FUNCTION order_json(o voucher_order) RETURNS json
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_within integer;
    v_offer  seckill_offer;
BEGIN
    SELECT v.pay_within_s INTO v_within FROM seckill_voucher v WHERE v.id = o.voucher_id;
    SELECT f.* INTO v_offer FROM order_offer(o.voucher_id, o.offer) f;
    RETURN json_strip_nulls(json_build_object(
        'id', o.id, 'voucher_id', o.voucher_id::text, 'user_id', o.user_id, 'quantity', o.quantity,
        'price_cents', v_offer.price_cents, 'total_cents', v_offer.price_cents * o.quantity,
        'currency', v_offer.currency, 'status', o.status, 'reason', o.reason, 'created_at', rfc3339(o.created_at),
        'expires_at', rfc3339(expires_at(o.created_at, v_within))));
END
$$;

-- An order with what happened to it: `events`, oldest first, and `payments`, where there are some.
CREATE FUNCTION order_details_json(o voucher_order) RETURNS json
LANGUAGE sql STABLE AS $$
    SELECT json_object_agg(m.name, m.value ORDER BY m.n)
      FROM (SELECT j.key, j.value, j.n FROM json_each(order_json(o)) WITH ORDINALITY AS j (key, value, n)
            UNION ALL
            -- Moves of one order follow each other, and so do their numbers.
            SELECT 'events', json_agg(json_strip_nulls(json_build_object(
                                 'at', rfc3339(e.at), 'status', e.status, 'by', e.by_whom, 'why', e.why))
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

-- `remaining` is what PostgreSQL has not given out.
CREATE FUNCTION voucher_json(v seckill_voucher) RETURNS json
LANGUAGE sql STABLE AS $$
    SELECT json_strip_nulls(json_build_object(
        'id', v.id::text, 'title', v.title, 'price_cents', v.price_cents, 'currency', v.currency,
        'stock', s.units, 'remaining', s.stock, 'limit', v.user_limit, 'pay_within_s', v.pay_within_s,
        'ticket', v.ticket, 'work_bits', v.work_bits, 'offer', v.offer, 'begin_at', rfc3339(v.begin_at),
        'end_at', rfc3339(v.end_at), 'state', v.state, 'version', v.change))
      FROM voucher_stock s
     WHERE s.voucher_id = v.id
$$;

-- Bounded: the first 4096 bytes of the raw text, and how long that is.
CREATE FUNCTION dead_letter_json(d dead_letter) RETURNS json
LANGUAGE sql STABLE AS $$
    SELECT json_strip_nulls(json_build_object(
        'id', d.id::text, 'voucher_id', d.voucher_id::text, 'journal_id', d.journal_id,
        'raw', encode(substr(d.raw, 1, 4096), 'hex'), 'raw_bytes', octet_length(d.raw),
        'orders', (SELECT json_agg(json_build_object('id', split_part(o, ' ', 1), 'user_id', split_part(o, ' ', 2)))
                     FROM unnest(string_to_array(d.orders, ',')) AS o),
        'reason', d.reason, 'created_at', rfc3339(d.created_at)))
$$;
