-- Places a batch of orders for one voucher: one round trip, one outcome for each order.
--
--   placed          inserted now, one unit taken
--   already_placed  this very id was settled before (live or cancelled): nothing is taken again
--   duplicate       the user has another live order, live_id; this id is kept as refused
--   sold_out        no unit is left; this id is kept as refused
--   stale           the epoch is not the voucher's: the caller has been fenced off, nothing is done
--   clash           the id belongs to somebody else's order: never seen, never guessed away
--
-- Idempotent by order id: settling a batch again gives the same end. p_epoch 0 means "whatever the
-- epoch is now". The voucher's row lock, taken first and once, orders all batches of a voucher.
CREATE FUNCTION place_orders(p_voucher bigint, p_epoch bigint, p_ids uuid[], p_users text[])
RETURNS TABLE (n integer, outcome text, live_id uuid)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_stock integer;
    v_epoch bigint;
    v_new   uuid[];
    v_taken integer;
BEGIN
    SELECT v.stock, v.epoch INTO v_stock, v_epoch
      FROM seckill_voucher v WHERE v.id = p_voucher FOR UPDATE;
    IF NOT FOUND OR (p_epoch <> 0 AND p_epoch <> v_epoch) THEN
        RETURN QUERY SELECT i, 'stale'::text, NULL::uuid FROM generate_subscripts(p_ids, 1) AS i;
        RETURN;
    END IF;

    WITH inserted AS (
        INSERT INTO voucher_order (id, user_id, voucher_id)
        SELECT o.id, o.user_id, p_voucher FROM unnest(p_ids, p_users) AS o (id, user_id)
        ON CONFLICT DO NOTHING
        RETURNING id)
    SELECT coalesce(array_agg(id), '{}') INTO v_new FROM inserted;

    v_taken := least(cardinality(v_new), v_stock);
    IF v_taken > 0 THEN
        UPDATE seckill_voucher SET stock = stock - v_taken WHERE id = p_voucher;
    END IF;
    IF v_taken = cardinality(p_ids) THEN
        RETURN QUERY SELECT i, 'placed'::text, NULL::uuid FROM generate_subscripts(p_ids, 1) AS i;
        RETURN;
    END IF;

    -- The uncommon road. First the orders that came after the last unit ...
    UPDATE voucher_order SET status = 'refused', reason = 'SOLD_OUT'
     WHERE id IN (SELECT o.id FROM unnest(p_ids) WITH ORDINALITY AS o (id, n)
                   WHERE o.id = ANY (v_new) GROUP BY o.id ORDER BY min(o.n) OFFSET v_taken);
    -- ... then those that met a live order of their user, or one that was just refused: kept, so that their
    -- URL can say why.
    INSERT INTO voucher_order (id, user_id, voucher_id, status, reason)
    SELECT o.id, o.user_id, p_voucher, 'refused',
           CASE WHEN EXISTS (SELECT FROM voucher_order live
                              WHERE live.user_id = o.user_id AND live.voucher_id = p_voucher
                                AND live.status IN ('unpaid', 'paid'))
                THEN 'ALREADY_ORDERED' ELSE 'SOLD_OUT' END
      FROM unnest(p_ids, p_users) AS o (id, user_id)
    ON CONFLICT DO NOTHING;

    RETURN QUERY
    SELECT o.n::integer,
           CASE WHEN own.user_id <> o.user_id OR own.voucher_id <> p_voucher THEN 'clash'
                WHEN own.reason = 'SOLD_OUT' THEN 'sold_out'
                WHEN own.status = 'refused' THEN 'duplicate'
                WHEN own.id = ANY (v_new) THEN 'placed'
                ELSE 'already_placed'
           END,
           live.id
      FROM unnest(p_ids, p_users) WITH ORDINALITY AS o (id, user_id, n)
      JOIN voucher_order own ON own.id = o.id
      LEFT JOIN voucher_order live
             ON live.user_id = o.user_id AND live.voucher_id = p_voucher
            AND live.status IN ('unpaid', 'paid') AND live.id <> o.id
     ORDER BY o.n;
END
$$;

CREATE FUNCTION rfc3339(p_at timestamptz) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT to_char(p_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
$$;

-- An order as the interface shows it.
CREATE FUNCTION order_json(o voucher_order) RETURNS json
LANGUAGE sql STABLE AS $$
    SELECT json_strip_nulls(json_build_object(
        'id', o.id, 'voucher_id', o.voucher_id::text, 'user_id', o.user_id, 'status', o.status,
        'reason', o.reason, 'created_at', rfc3339(o.created_at)))
$$;

-- A voucher as the interface shows it; `remaining` is what PostgreSQL has not given out.
CREATE FUNCTION voucher_json(v seckill_voucher) RETURNS json
LANGUAGE sql STABLE AS $$
    SELECT json_strip_nulls(json_build_object(
        'id', v.id::text, 'title', v.title, 'price_cents', v.price_cents, 'stock', v.initial_stock,
        'remaining', v.stock, 'begin_at', rfc3339(v.begin_at), 'end_at', rfc3339(v.end_at),
        'state', v.state))
$$;
