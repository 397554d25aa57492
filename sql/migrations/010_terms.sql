-- What operators do to a voucher: change its terms, pause, resume and close it, add units and take some away.
--
-- Each call locks the catalogue's row first, as everything that changes a voucher does, so they follow each other; the
-- row with the voucher's stock after it and last, because buyers' orders wait for it. Redis is brought up to date
-- afterwards, by change number (voucher_changes()).
--
-- What each call can come to:
--   done      it is so: the voucher as it is now
--   known     the same call was done before under its key: the same answer, nothing is done again
--   reused    the Idempotency-Key belongs to another request
--   unknown   there is no such voucher
--   changed   the voucher has not the change number that the caller saw
--   state     the voucher's state does not allow it
--   started   the sale has started, by PostgreSQL's clock
--   invalid   the terms cannot be together, or there would be too many units
--   stale     the voucher has another epoch: the units are to be taken out of Redis once more
--   below     so many units are not left; `left` says how many are

CREATE TYPE operation_end AS (outcome text, document json, change bigint, state text, left_units bigint);

-- What is asked, in one text without doubt: which NULL stands where counts, too.
CREATE FUNCTION operation_request(VARIADIC p_parts text[]) RETURNS bytea
LANGUAGE sql IMMUTABLE AS $$
    SELECT sha256(convert_to(array_to_json(p_parts)::text, 'UTF8'))
$$;

-- Begins each call. NULL: it goes on. p_if_match 0: whatever the change number is.
CREATE FUNCTION begin_operation(p_id bigint, p_if_match bigint, p_key text, p_request bytea) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    v_request bytea;
    v_change  bigint;
BEGIN
    PERFORM FROM seckill_catalogue FOR UPDATE;
    SELECT r.request INTO v_request FROM admin_request r WHERE r.key = p_key;
    IF FOUND THEN
        RETURN CASE WHEN v_request = p_request THEN 'known' ELSE 'reused' END;
    END IF;
    SELECT v.change INTO v_change FROM seckill_voucher v WHERE v.id = p_id;
    RETURN CASE WHEN NOT FOUND THEN 'unknown' WHEN p_if_match NOT IN (0, v_change) THEN 'changed' END;
END
$$;

-- Ends each call: shows the voucher, and keeps the key of what is done.
CREATE FUNCTION end_operation(p_outcome text, p_id bigint, p_key text, p_request bytea, p_left bigint DEFAULT NULL)
RETURNS operation_end
LANGUAGE plpgsql AS $$
DECLARE
    v_voucher seckill_voucher;
BEGIN
    SELECT v.* INTO v_voucher FROM seckill_voucher v WHERE v.id = p_id;
    IF p_outcome = 'done' THEN
        INSERT INTO admin_request (key, request, change) VALUES (p_key, p_request, v_voucher.change)
            ON CONFLICT DO NOTHING;
    END IF;
    RETURN (p_outcome, CASE WHEN v_voucher.id IS NOT NULL THEN voucher_json(v_voucher) END, v_voucher.change,
            v_voucher.state, p_left)::operation_end;
END
$$;

-- NULL leaves a term as it is. Before the start, and before the first order, all may change; after it only the title, the
-- end to a later time, and what tickets take, since robots come when a sale is on. The first order may be in Redis alone
-- while this looks: it keeps the offer that it was placed under.
CREATE FUNCTION change_voucher(p_id bigint, p_if_match bigint, p_key text, p_by text, p_title text,
                               p_price_cents bigint, p_currency text, p_begin_ms bigint, p_end_ms bigint,
                               p_user_limit smallint, p_pay_within_s integer, p_ticket boolean DEFAULT NULL,
                               p_work_bits smallint DEFAULT NULL)
RETURNS operation_end
LANGUAGE plpgsql AS $$
DECLARE
    v_request bytea := operation_request('change', p_id::text, p_title, p_price_cents::text, p_currency,
                                         p_begin_ms::text, p_end_ms::text, p_user_limit::text, p_pay_within_s::text,
                                         p_ticket::text, p_work_bits::text);
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
    v_outcome := CASE
        WHEN v_old.state NOT IN ('open', 'paused') THEN 'state'
        WHEN v_begun
             AND ((v_new.price_cents, v_new.currency, v_new.begin_at, v_new.user_limit, v_new.pay_within_s)
                  <> (v_old.price_cents, v_old.currency, v_old.begin_at, v_old.user_limit, v_old.pay_within_s)
                  OR v_new.end_at < v_old.end_at) THEN 'started'
        WHEN v_new.begin_at >= v_new.end_at THEN 'invalid'
        ELSE 'done' END;
    IF v_outcome = 'done' AND v_new IS DISTINCT FROM v_old THEN
        UPDATE seckill_voucher v
           SET title = v_new.title, price_cents = v_new.price_cents, currency = v_new.currency,
               begin_at = v_new.begin_at, end_at = v_new.end_at, user_limit = v_new.user_limit,
               pay_within_s = v_new.pay_within_s, ticket = v_new.ticket, work_bits = v_new.work_bits
         WHERE v.id = p_id RETURNING v.change INTO v_new.change;
        INSERT INTO admin_event (by_whom, what, voucher_id, change, detail)
        VALUES (p_by, 'changed', p_id, v_new.change,
                jsonb_strip_nulls(jsonb_build_object(
                    'title', p_title, 'price_cents', p_price_cents, 'currency', p_currency,
                    'begin_at', rfc3339(to_timestamp(p_begin_ms / 1000.0)),
                    'end_at', rfc3339(to_timestamp(p_end_ms / 1000.0)),
                    'limit', p_user_limit, 'pay_within_s', p_pay_within_s, 'ticket', p_ticket,
                    'work_bits', p_work_bits)));
    END IF;
    RETURN end_operation(v_outcome, p_id, p_key, v_request);
END
$$;

-- p_state: open <-> paused, and from both to closed. What is so already is not changed once more.
CREATE FUNCTION set_voucher_state(p_id bigint, p_if_match bigint, p_key text, p_by text, p_state text)
RETURNS operation_end
LANGUAGE plpgsql AS $$
DECLARE
    v_request bytea := operation_request('state', p_id::text, p_state);
    v_outcome text := begin_operation(p_id, p_if_match, p_key, v_request);
    v_state   text;
    v_change  bigint;
BEGIN
    IF v_outcome IS NOT NULL THEN
        RETURN end_operation(v_outcome, p_id, p_key, v_request);
    END IF;
    SELECT v.state INTO v_state FROM seckill_voucher v WHERE v.id = p_id;
    v_outcome := CASE WHEN v_state = p_state OR v_state IN ('open', 'paused') THEN 'done' ELSE 'state' END;
    IF v_outcome = 'done' AND v_state <> p_state THEN
        UPDATE seckill_voucher v SET state = p_state WHERE v.id = p_id RETURNING v.change INTO v_change;
        INSERT INTO admin_event (by_whom, what, voucher_id, change, detail)
        VALUES (p_by, CASE p_state WHEN 'open' THEN 'resumed' ELSE p_state END, p_id, v_change, '{}');
    END IF;
    RETURN end_operation(v_outcome, p_id, p_key, v_request);
END
$$;

-- Adds units; Redis gets them afterwards, once for this change number.
CREATE FUNCTION add_units(p_id bigint, p_if_match bigint, p_key text, p_by text, p_units integer)
RETURNS operation_end
LANGUAGE plpgsql AS $$
DECLARE
    v_request bytea := operation_request('add', p_id::text, p_units::text);
    v_outcome text := begin_operation(p_id, p_if_match, p_key, v_request);
    v_state   text;
    v_units   bigint;
    v_change  bigint;
BEGIN
    IF v_outcome IS NOT NULL THEN
        RETURN end_operation(v_outcome, p_id, p_key, v_request);
    END IF;
    SELECT v.state INTO v_state FROM seckill_voucher v WHERE v.id = p_id;
    SELECT s.units INTO v_units FROM voucher_stock s WHERE s.voucher_id = p_id;
    v_outcome := CASE WHEN v_state NOT IN ('open', 'paused') THEN 'state'
                      WHEN v_units + p_units > 100000000 THEN 'invalid'
                      ELSE 'done' END;
    IF v_outcome = 'done' THEN
        UPDATE seckill_voucher v SET state = v.state WHERE v.id = p_id RETURNING v.change INTO v_change;
        INSERT INTO admin_event (by_whom, what, voucher_id, change, detail)
        VALUES (p_by, 'stock', p_id, v_change, jsonb_build_object('add', p_units));
        INSERT INTO stock_change (voucher_id, change, units) VALUES (p_id, v_change, p_units);
        UPDATE voucher_stock s SET units = s.units + p_units, stock = s.stock + p_units WHERE s.voucher_id = p_id;
    END IF;
    RETURN end_operation(v_outcome, p_id, p_key, v_request);
END
$$;

-- Whether units may be taken away: ready, or why not. Asked before they are taken out
-- of Redis.
CREATE FUNCTION may_remove_units(p_id bigint, p_if_match bigint, p_key text, p_units integer)
RETURNS operation_end
LANGUAGE plpgsql AS $$
DECLARE
    v_request bytea := operation_request('remove', p_id::text, p_units::text);
    v_outcome text := begin_operation(p_id, p_if_match, p_key, v_request);
BEGIN
    IF v_outcome IS NULL THEN
        SELECT CASE WHEN v.state IN ('open', 'paused') THEN 'ready' ELSE 'state' END INTO v_outcome
          FROM seckill_voucher v WHERE v.id = p_id;
    END IF;
    RETURN end_operation(v_outcome, p_id, p_key, v_request);
END
$$;

-- Takes away units that have been taken out of Redis under this epoch. Under another one they are in Redis again, or were
-- never out of what it holds now.
CREATE FUNCTION remove_units(p_slot integer, p_id bigint, p_epoch bigint, p_if_match bigint, p_key text, p_by text,
                             p_units integer)
RETURNS operation_end
LANGUAGE plpgsql AS $$
DECLARE
    v_request bytea := operation_request('remove', p_id::text, p_units::text);
    v_outcome text := begin_operation(p_id, p_if_match, p_key, v_request);
    v_state   text;
    v_epoch   bigint;
    v_left    bigint;
    v_change  bigint;
BEGIN
    IF v_outcome IS NOT NULL THEN
        RETURN end_operation(v_outcome, p_id, p_key, v_request);
    END IF;
    SELECT v.state INTO v_state FROM seckill_voucher v WHERE v.id = p_id;
    IF v_state NOT IN ('open', 'paused') THEN
        RETURN end_operation('state', p_id, p_key, v_request);
    END IF;
    SELECT s.epoch INTO v_epoch FROM voucher_stock s WHERE s.voucher_id = p_id AND s.slot = p_slot FOR UPDATE;
    IF NOT FOUND OR v_epoch <> p_epoch THEN
        RETURN end_operation('stale', p_id, p_key, v_request);
    END IF;
    SELECT a.stock INTO v_left FROM voucher_accounts(ARRAY[p_slot], ARRAY[p_id]) a; -- without what dead letters hold
    IF v_left < p_units THEN
        RETURN end_operation('below', p_id, p_key, v_request, v_left);
    END IF;
    UPDATE seckill_voucher v SET state = v.state WHERE v.id = p_id RETURNING v.change INTO v_change;
    UPDATE voucher_stock s SET units = s.units - p_units, stock = s.stock - p_units
     WHERE s.voucher_id = p_id AND s.slot = p_slot;
    INSERT INTO stock_change (voucher_id, change, units) VALUES (p_id, v_change, -p_units);
    INSERT INTO admin_event (by_whom, what, voucher_id, change, detail)
    VALUES (p_by, 'stock', p_id, v_change, jsonb_build_object('reduce', p_units));
    RETURN end_operation('done', p_id, p_key, v_request);
END
$$;
