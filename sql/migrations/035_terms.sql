-- Three more terms. How long a payment in progress may extend an order (036_extend.sql). How many orders a user may have of
-- the voucher, those that ended included: whoever gives orders back holds units that others want. That was a setting, the
-- same for all vouchers, and 20 where nobody set it: older vouchers get this number. And when more units come, for those
-- who are told that it is sold out.
--
-- None is part of an offer: no order is placed otherwise because of them.
ALTER TABLE seckill_voucher
    ADD COLUMN extend_s integer NOT NULL DEFAULT 120 CHECK (extend_s BETWEEN 0 AND 86400), -- 0: it may not
    ADD COLUMN orders_per_user smallint NOT NULL DEFAULT 20 CHECK (orders_per_user BETWEEN 1 AND 1000),
    ADD COLUMN more_at timestamptz; -- NULL: it is not known
ALTER TABLE seckill_voucher ALTER COLUMN orders_per_user SET DEFAULT 3;

CREATE OR REPLACE FUNCTION voucher_json(v seckill_voucher) RETURNS json
LANGUAGE sql STABLE AS $$
    SELECT json_strip_nulls(json_build_object(
        'id', v.id::text, 'title', v.title, 'description', v.description, 'picture', v.picture,
        'price_cents', v.price_cents, 'currency', v.currency, 'stock', s.units, 'remaining', s.stock,
        'limit', v.user_limit, 'orders_per_user', v.orders_per_user, 'pay_within_s', v.pay_within_s,
        'extend_s', v.extend_s, 'ticket', v.ticket, 'work_bits', v.work_bits, 'offer', v.offer,
        'begin_at', rfc3339(v.begin_at), 'end_at', rfc3339(v.end_at), 'more_at', rfc3339(v.more_at), 'state', v.state,
        'version', v.change))
      FROM voucher_stock s
     WHERE s.voucher_id = v.id
$$;

-- As in 003_catalogue.sql, with orders_per_user.
DROP FUNCTION catalogue_changes(bigint, integer, bigint);
CREATE FUNCTION catalogue_changes(p_after bigint, p_most integer, p_first bigint DEFAULT 0)
RETURNS TABLE (newest_change bigint, newest_voucher bigint, change bigint, voucher_id bigint, state text,
               begin_ms bigint, end_ms bigint, tag text, slot smallint, user_limit smallint, pay_within_s integer,
               ticket integer, work_bits smallint, offer integer, price_cents bigint, currency text,
               orders_per_user smallint)
LANGUAGE sql STABLE AS $$
    SELECT c.change, coalesce((SELECT max(id) FROM seckill_voucher), 0), v.change, v.id, v.state,
           unix_ms(v.begin_at), unix_ms(v.end_at), s.tag, s.slot, v.user_limit, v.pay_within_s, v.ticket::integer,
           v.work_bits, v.offer, v.price_cents, v.currency, v.orders_per_user
      FROM seckill_catalogue c
      LEFT JOIN ((SELECT * FROM seckill_voucher changed
                   WHERE changed.change > p_after
                     AND (changed.state <> 'retired' OR (p_after > 0 AND changed.change > p_first))
                   ORDER BY changed.change
                   LIMIT p_most) v
                 JOIN voucher_stock s ON s.voucher_id = v.id) ON true
     ORDER BY v.change
$$;

-- As in 022_pictures.sql, with the new terms. As long as they have their defaults, a call is the same one that an older
-- version has made under its key.
DROP FUNCTION create_voucher(text, text, bigint, integer, bigint, bigint, smallint, integer, text, text, boolean, smallint,
                             text, text);
CREATE FUNCTION create_voucher(p_key text, p_title text, p_price_cents bigint, p_stock integer, p_begin_ms bigint,
                               p_end_ms bigint, p_user_limit smallint DEFAULT 1, p_pay_within_s integer DEFAULT 900,
                               p_currency text DEFAULT 'CNY', p_by text DEFAULT 'admin', p_ticket boolean DEFAULT false,
                               p_work_bits smallint DEFAULT 0, p_description text DEFAULT NULL,
                               p_picture text DEFAULT NULL, p_extend_s integer DEFAULT 120,
                               p_orders_per_user smallint DEFAULT 3, p_more_ms bigint DEFAULT NULL)
RETURNS TABLE (outcome text, id bigint, epoch bigint, document json, loading json, change bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_terms   bytea := sha256(convert_to(
        concat_ws(' ', p_price_cents, p_currency, p_stock, p_begin_ms, p_end_ms, p_user_limit, p_pay_within_s, p_ticket,
                  p_work_bits, p_title, E'\ndescription ' || nullif(p_description, ''),
                  E'\npicture ' || nullif(p_picture, ''), E'\nextend_s ' || nullif(p_extend_s, 120),
                  E'\norders_per_user ' || nullif(p_orders_per_user, 3), E'\nmore_at ' || nullif(p_more_ms, 0)), 'UTF8'));
    v_shard   seckill_shard;
    v_id      bigint;
    v_voucher seckill_voucher;
BEGIN
    -- Before the id is taken, so that ids commit in their order. It waits for a call with the same key, too; the
    -- statement after it has a snapshot of its own, so that it sees what that call did.
    PERFORM FROM seckill_catalogue FOR UPDATE;
    SELECT v.* INTO v_voucher FROM seckill_voucher v WHERE v.create_key = p_key;
    IF NOT FOUND THEN
        SELECT s.* INTO v_shard FROM seckill_shard s;
        LOOP
            v_id := nextval(pg_get_serial_sequence('seckill_voucher', 'id'));
            EXIT WHEN shard_of_slot(slot_of(v_id::text), v_shard.shards) = v_shard.number;
        END LOOP;
        INSERT INTO seckill_voucher AS v (id, title, price_cents, currency, user_limit, pay_within_s, ticket, work_bits,
                                          begin_at, end_at, description, picture, extend_s, orders_per_user, more_at, create_key,
                                          create_terms)
        OVERRIDING SYSTEM VALUE
        VALUES (v_id, p_title, p_price_cents, p_currency, p_user_limit, p_pay_within_s, p_ticket, p_work_bits,
                to_timestamp(p_begin_ms / 1000.0), to_timestamp(p_end_ms / 1000.0),
                nullif(p_description, ''), nullif(p_picture, ''), p_extend_s, p_orders_per_user,
                to_timestamp(nullif(p_more_ms, 0) / 1000.0), p_key, v_terms)
        RETURNING v.* INTO v_voucher;
        INSERT INTO voucher_stock (voucher_id, tag, slot, units, stock)
        VALUES (v_voucher.id, v_voucher.id::text, slot_of(v_voucher.id::text), p_stock, p_stock);
        INSERT INTO admin_event (by_whom, what, voucher_id, change, detail)
        VALUES (p_by, 'created', v_voucher.id, v_voucher.change,
                jsonb_strip_nulls(jsonb_build_object(
                    'title', p_title, 'description', v_voucher.description, 'picture', v_voucher.picture,
                    'price_cents', p_price_cents, 'currency', p_currency, 'stock', p_stock, 'limit', p_user_limit,
                    'orders_per_user', p_orders_per_user, 'pay_within_s', p_pay_within_s, 'extend_s', p_extend_s,
                    'ticket', p_ticket, 'work_bits', p_work_bits,
                    'begin_at', rfc3339(v_voucher.begin_at), 'end_at', rfc3339(v_voucher.end_at),
                    'more_at', rfc3339(v_voucher.more_at))));
    END IF;
    outcome := CASE WHEN v_voucher.create_terms = v_terms THEN 'created' ELSE 'reused' END;
    id := v_voucher.id;
    epoch := (SELECT s.epoch FROM voucher_stock s WHERE s.voucher_id = v_voucher.id);
    document := voucher_json(v_voucher);
    v_voucher.state := 'loading';
    loading := voucher_json(v_voucher);
    change := v_voucher.change;
    RETURN NEXT;
END
$$;

-- As in 022_pictures.sql. extend_s and more_at (0 removes it) may change at any time. orders_per_user only grows once orders may
-- exist: Redis counts the ended orders of a user only from the bound on.
DROP FUNCTION change_voucher(bigint, bigint, text, text, text, bigint, text, bigint, bigint, smallint, integer, boolean,
                             smallint, text, text);
CREATE FUNCTION change_voucher(p_id bigint, p_if_match bigint, p_key text, p_by text, p_title text,
                               p_price_cents bigint, p_currency text, p_begin_ms bigint, p_end_ms bigint,
                               p_user_limit smallint, p_pay_within_s integer, p_ticket boolean DEFAULT NULL,
                               p_work_bits smallint DEFAULT NULL, p_description text DEFAULT NULL,
                               p_picture text DEFAULT NULL, p_extend_s integer DEFAULT NULL,
                               p_orders_per_user smallint DEFAULT NULL, p_more_ms bigint DEFAULT NULL)
RETURNS operation_end
LANGUAGE plpgsql AS $$
DECLARE
    v_parts   text[] := ARRAY['change', p_id::text, p_title, p_price_cents::text, p_currency, p_begin_ms::text,
                              p_end_ms::text, p_user_limit::text, p_pay_within_s::text, p_ticket::text,
                              p_work_bits::text];
    -- Without the new terms it is the request that an older version has recorded.
    v_request bytea := operation_request(VARIADIC CASE
        WHEN p_extend_s IS NOT NULL OR p_orders_per_user IS NOT NULL OR p_more_ms IS NOT NULL
            THEN v_parts || p_description || p_picture || p_extend_s::text || p_orders_per_user::text || p_more_ms::text
        WHEN p_description IS NULL AND p_picture IS NULL THEN v_parts
        ELSE v_parts || p_description || p_picture END);
    v_outcome text := begin_operation(p_id, p_if_match, p_key, v_request);
    v_old     seckill_voucher;
    v_new     seckill_voucher;
    v_begun   boolean;
BEGIN
    IF v_outcome IS NOT NULL THEN
        RETURN end_operation(v_outcome, p_id, p_key, v_request);
    END IF;
    SELECT v.* INTO v_old FROM seckill_voucher v WHERE v.id = p_id;
    v_begun := v_old.begin_at <= clock_timestamp()
        OR EXISTS (SELECT FROM voucher_stock s
                    CROSS JOIN LATERAL (SELECT FROM voucher_order o
                                         WHERE o.slot = s.slot AND o.voucher_id = s.voucher_id
                                         LIMIT 1 OFFSET 0) first
                    WHERE s.voucher_id = p_id)
        OR EXISTS (SELECT FROM dead_letter d WHERE d.voucher_id = p_id AND d.ended_at IS NULL);
    v_new := v_old;
    v_new.title := coalesce(p_title, v_old.title);
    v_new.price_cents := coalesce(p_price_cents, v_old.price_cents);
    v_new.currency := coalesce(p_currency, v_old.currency);
    v_new.begin_at := coalesce(to_timestamp(p_begin_ms / 1000.0), v_old.begin_at);
    v_new.end_at := coalesce(to_timestamp(p_end_ms / 1000.0), v_old.end_at);
    v_new.user_limit := coalesce(p_user_limit, v_old.user_limit);
    v_new.pay_within_s := coalesce(p_pay_within_s, v_old.pay_within_s);
    v_new.ticket := coalesce(p_ticket, v_old.ticket);
    v_new.work_bits := coalesce(p_work_bits, v_old.work_bits);
    v_new.extend_s := coalesce(p_extend_s, v_old.extend_s);
    v_new.orders_per_user := coalesce(p_orders_per_user, v_old.orders_per_user);
    v_new.more_at := CASE WHEN p_more_ms IS NULL THEN v_old.more_at ELSE to_timestamp(nullif(p_more_ms, 0) / 1000.0) END;
    v_new.description := nullif(coalesce(p_description, v_old.description), '');
    v_new.picture := nullif(coalesce(p_picture, v_old.picture), '');
    v_outcome := CASE
        WHEN v_old.state NOT IN ('open', 'paused') THEN 'state'
        WHEN v_begun
             AND ((v_new.price_cents, v_new.currency, v_new.begin_at, v_new.user_limit, v_new.pay_within_s)
                  <> (v_old.price_cents, v_old.currency, v_old.begin_at, v_old.user_limit, v_old.pay_within_s)
                  OR v_new.end_at < v_old.end_at OR v_new.orders_per_user < v_old.orders_per_user) THEN 'started'
        WHEN v_new.begin_at >= v_new.end_at THEN 'invalid'
        ELSE 'done' END;
    IF v_outcome = 'done' AND v_new IS DISTINCT FROM v_old THEN
        UPDATE seckill_voucher v
           SET title = v_new.title, price_cents = v_new.price_cents, currency = v_new.currency,
               begin_at = v_new.begin_at, end_at = v_new.end_at, user_limit = v_new.user_limit,
               pay_within_s = v_new.pay_within_s, ticket = v_new.ticket, work_bits = v_new.work_bits,
               description = v_new.description, picture = v_new.picture, extend_s = v_new.extend_s,
               orders_per_user = v_new.orders_per_user, more_at = v_new.more_at
         WHERE v.id = p_id RETURNING v.change INTO v_new.change;
        INSERT INTO admin_event (by_whom, what, voucher_id, change, detail)
        VALUES (p_by, 'changed', p_id, v_new.change,
                jsonb_strip_nulls(jsonb_build_object(
                    'title', p_title, 'price_cents', p_price_cents, 'currency', p_currency,
                    'begin_at', rfc3339(to_timestamp(p_begin_ms / 1000.0)),
                    'end_at', rfc3339(to_timestamp(p_end_ms / 1000.0)),
                    'limit', p_user_limit, 'pay_within_s', p_pay_within_s, 'ticket', p_ticket,
                    'work_bits', p_work_bits, 'description', p_description, 'picture', p_picture,
                    'extend_s', p_extend_s, 'orders_per_user', p_orders_per_user,
                    'more_at', CASE p_more_ms WHEN 0 THEN '' ELSE rfc3339(to_timestamp(p_more_ms / 1000.0)) END)));
    END IF;
    RETURN end_operation(v_outcome, p_id, p_key, v_request);
END
$$;

DO $$
DECLARE
    v_function text;
BEGIN
    FOREACH v_function IN ARRAY ARRAY[
        'catalogue_changes(bigint, integer, bigint)',
        'create_voucher(text, text, bigint, integer, bigint, bigint, smallint, integer, text, text, boolean, smallint,'
        ' text, text, integer, smallint, bigint)',
        'change_voucher(bigint, bigint, text, text, text, bigint, text, bigint, bigint, smallint, integer, boolean,'
        ' smallint, text, text, integer, smallint, bigint)'] LOOP
        EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER SET search_path = %I, pg_temp', v_function, current_schema());
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', v_function);
    END LOOP;
    GRANT EXECUTE ON FUNCTION catalogue_changes(bigint, integer, bigint) TO seckill_service;
    GRANT EXECUTE ON FUNCTION create_voucher(text, text, bigint, integer, bigint, bigint, smallint, integer, text, text,
                                             boolean, smallint, text, text, integer, smallint, bigint) TO seckill_service;
    GRANT EXECUTE ON FUNCTION change_voucher(bigint, bigint, text, text, text, bigint, text, bigint, bigint, smallint,
                                             integer, boolean, smallint, text, text, integer, smallint, bigint) TO seckill_service;
END
$$;
