-- Lines: users who wait for a unit. A place in a line is an order of status 'waiting': the same row, the same URL, one for
-- each user and scope, of one unit. It holds no unit, and Redis does not know it. The order of a line is that of the ids.
--
-- A user who waits has not won. If Redis grants him a unit, place_orders() refuses that order as a duplicate, and its unit
-- returns.
CREATE TABLE voucher_line (
    voucher_id bigint  PRIMARY KEY REFERENCES seckill_voucher ON DELETE CASCADE,
    most       integer NOT NULL CHECK (most BETWEEN 0 AND 10000000) -- may wait at once; 0: nobody joins any more
);
ALTER TABLE voucher_stock ADD COLUMN waiting integer NOT NULL DEFAULT 0 CHECK (waiting >= 0); -- orders, counted as `live` is

-- LEFT: the reason of one that was cancelled while it waited. It never held a unit.
ALTER TABLE voucher_order DROP CONSTRAINT voucher_order_check;
ALTER TABLE voucher_order ADD CONSTRAINT voucher_order_reason
    CHECK (CASE status WHEN 'cancelled' THEN reason IS NULL OR reason = 'LEFT'
                       ELSE (status IN ('refused', 'refunded')) = (reason IS NOT NULL) END) NOT VALID;
DROP INDEX voucher_order_live;
CREATE UNIQUE INDEX voucher_order_live ON voucher_order (user_id, (coalesce(scope, voucher_id)), slot)
    WHERE status IN ('waiting', 'unpaid', 'paid');
CREATE INDEX voucher_order_waiting ON voucher_order (slot, voucher_id, id) WHERE status = 'waiting';

INSERT INTO order_move VALUES ('waiting', 'cancelled', 'user');
ALTER TABLE order_placed ADD COLUMN joined boolean NOT NULL DEFAULT false; -- a line: these orders wait

-- ---- terms and documents ----

-- Opens, bounds or ends the line of a voucher. p_line: {"waitlist": how many may wait, or true: twice the units, or false:
-- nobody joins any more}; without the member nothing changes. Who waits already stays. Returns whether it changed.
CREATE FUNCTION set_line(p_voucher bigint, p_line jsonb) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_most integer;
BEGIN
    v_most := CASE p_line -> 'waitlist'
        WHEN 'true'  THEN (SELECT least(2 * s.units::bigint, 10000000) FROM voucher_stock s WHERE s.voucher_id = p_voucher)
        WHEN 'false' THEN 0
        ELSE (p_line ->> 'waitlist')::integer END;
    INSERT INTO voucher_line AS l (voucher_id, most)
    SELECT p_voucher, v_most
     WHERE v_most > 0 OR (v_most = 0 AND EXISTS (SELECT FROM voucher_line w WHERE w.voucher_id = p_voucher))
        ON CONFLICT (voucher_id) DO UPDATE SET most = EXCLUDED.most WHERE l.most <> EXCLUDED.most;
    RETURN FOUND;
END
$$;

-- How many wait before an order. Counted as far as 10,000: that many, or more.
CREATE FUNCTION place_in_line(p_slot integer, p_voucher bigint, p_id uuid) RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT count(*)
      FROM (SELECT FROM voucher_order w
             WHERE w.slot = p_slot AND w.voucher_id = p_voucher AND w.status = 'waiting' AND w.id < p_id
             LIMIT 10000) before
$$;

-- As in 036_extend.sql. An order that waits has a place, and nothing to pay yet.
CREATE OR REPLACE FUNCTION order_json(o voucher_order) RETURNS json
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
        'place', CASE WHEN o.status = 'waiting' THEN place_in_line(o.slot, o.voucher_id, o.id) END,
        'expires_at', CASE WHEN o.status <> 'waiting' THEN rfc3339(due_at(o.created_at, v_within, o.due_at)) END));
END
$$;

-- As in 037_scopes.sql, with the line.
CREATE OR REPLACE FUNCTION voucher_json(v seckill_voucher) RETURNS json
LANGUAGE sql STABLE AS $$
    SELECT json_strip_nulls(json_build_object(
        'id', v.id::text, 'title', v.title, 'description', v.description, 'picture', v.picture,
        'price_cents', v.price_cents, 'currency', v.currency, 'stock', s.units, 'remaining', s.stock,
        'limit', v.user_limit, 'scope', coalesce(s.scope, v.id)::text, 'orders_per_user', v.orders_per_user,
        'waitlist', l.most, 'waiting', CASE WHEN l.most IS NOT NULL THEN s.waiting END,
        'pay_within_s', v.pay_within_s, 'extend_s', v.extend_s, 'ticket', v.ticket, 'work_bits', v.work_bits, 'offer', v.offer,
        'begin_at', rfc3339(v.begin_at), 'end_at', rfc3339(v.end_at), 'more_at', rfc3339(v.more_at), 'state', v.state,
        'version', v.change))
      FROM voucher_stock s
      LEFT JOIN voucher_line l ON l.voucher_id = s.voucher_id
     WHERE s.voucher_id = v.id
$$;

DROP FUNCTION catalogue_changes(bigint, integer, bigint, boolean);
CREATE FUNCTION catalogue_changes(p_after bigint, p_most integer, p_first bigint DEFAULT 0,
                                  p_scopes boolean DEFAULT false)
RETURNS TABLE (newest_change bigint, newest_voucher bigint, change bigint, voucher_id bigint, state text,
               begin_ms bigint, end_ms bigint, tag text, slot smallint, user_limit smallint, pay_within_s integer,
               ticket integer, work_bits smallint, offer integer, price_cents bigint, currency text,
               orders_per_user smallint, waitlist integer)
LANGUAGE sql STABLE AS $$
    SELECT c.change, coalesce((SELECT max(id) FROM seckill_voucher), 0), v.change, v.id, v.state,
           unix_ms(v.begin_at), unix_ms(v.end_at), s.tag, s.slot, v.user_limit, v.pay_within_s, v.ticket::integer,
           v.work_bits, v.offer, v.price_cents, v.currency, v.orders_per_user,
           (SELECT l.most FROM voucher_line l WHERE l.voucher_id = v.id)
      FROM seckill_catalogue c
      LEFT JOIN ((SELECT * FROM seckill_voucher changed
                   WHERE changed.change > p_after
                     AND (changed.state <> 'retired' OR (p_after > 0 AND changed.change > p_first))
                     AND (p_scopes OR NOT EXISTS (SELECT FROM voucher_stock other
                                                   WHERE other.voucher_id = changed.id AND other.scope <> changed.id))
                   ORDER BY changed.change
                   LIMIT p_most) v
                 JOIN voucher_stock s ON s.voucher_id = v.id) ON true
     ORDER BY v.change
$$;

DROP FUNCTION create_voucher(text, text, bigint, integer, bigint, bigint, smallint, integer, text, text, boolean, smallint,
                             text, text, integer, smallint, bigint, bigint);
CREATE FUNCTION create_voucher(p_key text, p_title text, p_price_cents bigint, p_stock integer, p_begin_ms bigint,
                               p_end_ms bigint, p_user_limit smallint DEFAULT 1, p_pay_within_s integer DEFAULT 900,
                               p_currency text DEFAULT 'CNY', p_by text DEFAULT 'admin', p_ticket boolean DEFAULT false,
                               p_work_bits smallint DEFAULT 0, p_description text DEFAULT NULL,
                               p_picture text DEFAULT NULL, p_extend_s integer DEFAULT 120,
                               p_orders_per_user smallint DEFAULT 3, p_more_ms bigint DEFAULT NULL,
                               p_scope bigint DEFAULT NULL, p_line jsonb DEFAULT NULL)
RETURNS TABLE (outcome text, id bigint, epoch bigint, document json, loading json, change bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_terms   bytea := sha256(convert_to(
        concat_ws(' ', p_price_cents, p_currency, p_stock, p_begin_ms, p_end_ms, p_user_limit, p_pay_within_s, p_ticket,
                  p_work_bits, p_title, E'\ndescription ' || nullif(p_description, ''),
                  E'\npicture ' || nullif(p_picture, ''), E'\nextend_s ' || nullif(p_extend_s, 120),
                  E'\norders_per_user ' || nullif(p_orders_per_user, 3), E'\nmore_at ' || nullif(p_more_ms, 0),
                  E'\nscope ' || p_scope, E'\nline ' || p_line::text), 'UTF8'));
    v_shard   seckill_shard;
    v_id      bigint;
    v_voucher seckill_voucher;
    v_first   voucher_stock; -- of the scope
BEGIN
    -- Before the id is taken, so that ids commit in their order. It waits for a call with the same key, too; the
    -- statement after it has a snapshot of its own, so that it sees what that call did.
    PERFORM FROM seckill_catalogue FOR UPDATE;
    SELECT v.* INTO v_voucher FROM seckill_voucher v WHERE v.create_key = p_key;
    IF NOT FOUND THEN
        IF p_scope IS NOT NULL THEN
            SELECT f.* INTO v_first
              FROM voucher_stock named
              JOIN voucher_stock f ON f.voucher_id = coalesce(named.scope, named.voucher_id)
              JOIN seckill_voucher v ON v.id = f.voucher_id
             WHERE named.voucher_id = p_scope AND v.state <> 'retired' FOR UPDATE OF f;
            IF NOT FOUND
               OR (SELECT count(*) FROM voucher_stock s WHERE s.slot = v_first.slot AND s.scope = v_first.voucher_id) >= 16 THEN
                outcome := 'scope';
                RETURN NEXT;
                RETURN;
            END IF;
            UPDATE voucher_stock s SET scope = s.voucher_id WHERE s.voucher_id = v_first.voucher_id AND s.scope IS NULL;
        END IF;
        SELECT s.* INTO v_shard FROM seckill_shard s;
        LOOP
            v_id := nextval(pg_get_serial_sequence('seckill_voucher', 'id'));
            -- In the same shard as its scope, also when shards are split later: there are 16 at most.
            EXIT WHEN shard_of_slot(slot_of(v_id::text), v_shard.shards) = v_shard.number
                  AND (slot_of(v_id::text) & 15) = coalesce(v_first.slot, slot_of(v_id::text)) & 15;
        END LOOP;
        INSERT INTO seckill_voucher AS v (id, title, price_cents, currency, user_limit, pay_within_s, ticket, work_bits,
                                          begin_at, end_at, description, picture, extend_s, orders_per_user, more_at,
                                          create_key, create_terms)
        OVERRIDING SYSTEM VALUE
        VALUES (v_id, p_title, p_price_cents, p_currency, p_user_limit, p_pay_within_s, p_ticket, p_work_bits,
                to_timestamp(p_begin_ms / 1000.0), to_timestamp(p_end_ms / 1000.0),
                nullif(p_description, ''), nullif(p_picture, ''), p_extend_s, p_orders_per_user,
                to_timestamp(nullif(p_more_ms, 0) / 1000.0), p_key, v_terms)
        RETURNING v.* INTO v_voucher;
        INSERT INTO voucher_stock (voucher_id, tag, slot, units, stock, scope)
        SELECT v_voucher.id, tag, slot_of(tag), p_stock, p_stock, v_first.voucher_id
          FROM coalesce(v_first.tag, v_voucher.id::text) AS tag;
        PERFORM set_line(v_id, p_line);
        INSERT INTO admin_event (by_whom, what, voucher_id, change, detail)
        VALUES (p_by, 'created', v_voucher.id, v_voucher.change,
                jsonb_strip_nulls(jsonb_build_object(
                    'title', p_title, 'description', v_voucher.description, 'picture', v_voucher.picture,
                    'price_cents', p_price_cents, 'currency', p_currency, 'stock', p_stock, 'limit', p_user_limit,
                    'scope', v_first.voucher_id::text, 'orders_per_user', p_orders_per_user,
                    'pay_within_s', p_pay_within_s, 'extend_s', p_extend_s, 'ticket', p_ticket, 'work_bits', p_work_bits,
                    'begin_at', rfc3339(v_voucher.begin_at), 'end_at', rfc3339(v_voucher.end_at),
                    'more_at', rfc3339(v_voucher.more_at),
                    'waitlist', (SELECT l.most FROM voucher_line l WHERE l.voucher_id = v_id))));
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

-- As in 035_terms.sql. The line may change at any time.
DROP FUNCTION change_voucher(bigint, bigint, text, text, text, bigint, text, bigint, bigint, smallint, integer, boolean,
                             smallint, text, text, integer, smallint, bigint);
CREATE FUNCTION change_voucher(p_id bigint, p_if_match bigint, p_key text, p_by text, p_title text,
                               p_price_cents bigint, p_currency text, p_begin_ms bigint, p_end_ms bigint,
                               p_user_limit smallint, p_pay_within_s integer, p_ticket boolean DEFAULT NULL,
                               p_work_bits smallint DEFAULT NULL, p_description text DEFAULT NULL,
                               p_picture text DEFAULT NULL, p_extend_s integer DEFAULT NULL,
                               p_orders_per_user smallint DEFAULT NULL, p_more_ms bigint DEFAULT NULL,
                               p_line jsonb DEFAULT NULL)
RETURNS operation_end
LANGUAGE plpgsql AS $$
DECLARE
    v_parts   text[] := ARRAY['change', p_id::text, p_title, p_price_cents::text, p_currency, p_begin_ms::text,
                              p_end_ms::text, p_user_limit::text, p_pay_within_s::text, p_ticket::text,
                              p_work_bits::text];
    -- Without the new terms it is the request that an older version has recorded.
    v_request bytea := operation_request(VARIADIC CASE
        WHEN p_line IS NOT NULL
            THEN v_parts || p_description || p_picture || p_extend_s::text || p_orders_per_user::text || p_more_ms::text
                 || p_line::text
        WHEN p_extend_s IS NOT NULL OR p_orders_per_user IS NOT NULL OR p_more_ms IS NOT NULL
            THEN v_parts || p_description || p_picture || p_extend_s::text || p_orders_per_user::text || p_more_ms::text
        WHEN p_description IS NULL AND p_picture IS NULL THEN v_parts
        ELSE v_parts || p_description || p_picture END);
    v_outcome text := begin_operation(p_id, p_if_match, p_key, v_request);
    v_old     seckill_voucher;
    v_new     seckill_voucher;
    v_begun   boolean;
    v_line    boolean;
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
    v_line := v_outcome = 'done' AND set_line(p_id, p_line);
    IF v_outcome = 'done' AND (v_line OR v_new IS DISTINCT FROM v_old) THEN
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
                    'more_at', CASE p_more_ms WHEN 0 THEN '' ELSE rfc3339(to_timestamp(p_more_ms / 1000.0)) END,
                    'waitlist', CASE WHEN v_line THEN (SELECT l.most FROM voucher_line l WHERE l.voucher_id = p_id) END)));
    END IF;
    RETURN end_operation(v_outcome, p_id, p_key, v_request);
END
$$;

-- ---- joining, and leaving ----

-- Puts a batch of users at the end of a voucher's line: one outcome for each order.
--
--   waiting           it waits, by this call or an earlier one; `place`: so many wait before it, if it came now. Another
--                     instance's clock may be behind: then its users stand further in front
--   already_ordered   the user has a live order of the scope, or waits: order_id
--   repeated, reused  the user's Idempotency-Key has led to another order, order_id; reused: of more units than one
--   most              the user has had as many orders as one may have
--   full              as many wait as may
--   none              the voucher has no line
--   not_started, paused, ended   as for a purchase
--
-- Idempotent by order id. It locks the voucher's row, as placing does. Who has an order hears so whatever else is.
CREATE FUNCTION join_orders(p_slot integer, p_voucher bigint, p_ids uuid[], p_users text[], p_keys text[] DEFAULT NULL,
                            p_offers integer[] DEFAULT NULL)
RETURNS TABLE (n integer, outcome text, order_id uuid, place bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_stock   voucher_stock;
    v_voucher seckill_voucher;
    v_most    integer;
    v_why     text;
    v_scope   bigint;
    v_key     bigint; -- of the index of live orders
    v_room    integer := 0;
    v_new     uuid[] := '{}';
    v_spent   text[]; -- users who have had as many orders as one may have
    v_one     record;
BEGIN
    SELECT s.* INTO v_stock FROM voucher_stock s WHERE s.voucher_id = p_voucher AND s.slot = p_slot FOR UPDATE;
    SELECT v.* INTO v_voucher FROM seckill_voucher v WHERE v.id = p_voucher; -- after the lock
    SELECT l.most INTO v_most FROM voucher_line l WHERE l.voucher_id = p_voucher;
    v_why := CASE WHEN v_stock.voucher_id IS NULL OR v_voucher.state IN ('closed', 'retired')
                       OR v_voucher.end_at <= clock_timestamp() THEN 'ended'
                  WHEN coalesce(v_most, 0) = 0 THEN 'none'
                  WHEN v_voucher.state = 'paused' THEN 'paused'
                  WHEN v_voucher.begin_at > clock_timestamp() THEN 'not_started' END;
    v_key := coalesce(v_stock.scope, p_voucher);
    IF v_stock.scope IS NOT NULL THEN
        PERFORM lock_scope(v_stock.scope);
        v_scope := nullif(v_stock.scope, p_voucher); -- as place_orders()
    END IF;
    v_spent := ARRAY(SELECT u FROM unnest(p_users) AS u
                         WHERE EXISTS (SELECT FROM voucher_order w
                                        WHERE w.user_id = u AND w.voucher_id = p_voucher
                                          AND w.ended_nth >= v_voucher.orders_per_user OFFSET 0));
    IF v_why IS NULL THEN
        v_room := v_most - v_stock.waiting;
        FOR v_one IN SELECT old.id FROM unnest(p_users, p_keys) AS o (user_id, key) -- a key counts for a day
                      CROSS JOIN LATERAL (SELECT w.id FROM voucher_order w
                                           WHERE w.user_id = o.user_id AND w.voucher_id = p_voucher
                                             AND w.request_key = o.key
                                             AND w.created_at < now() - interval '1 day' OFFSET 0) old LOOP
            UPDATE voucher_order own SET request_key = NULL
             WHERE own.slot = p_slot AND own.voucher_id = p_voucher AND own.id = v_one.id;
        END LOOP;
    END IF;
    IF v_room >= cardinality(p_ids) THEN
        WITH joined AS (
            INSERT INTO voucher_order (id, slot, user_id, voucher_id, request_key, offer, scope, status)
            SELECT o.id, p_slot, o.user_id, p_voucher, o.key, coalesce(o.offer, 0), v_scope, 'waiting'
              FROM unnest(p_ids, p_users, p_keys, p_offers) AS o (id, user_id, key, offer)
             WHERE o.user_id <> ALL (v_spent)
            ON CONFLICT DO NOTHING
            RETURNING id)
        SELECT coalesce(array_agg(id), '{}') INTO v_new FROM joined;
    ELSIF v_room > 0 THEN -- one by one
        FOR v_one IN SELECT o.id, o.user_id, o.key, o.offer
                       FROM unnest(p_ids, p_users, p_keys, p_offers) WITH ORDINALITY AS o (id, user_id, key, offer, n)
                      WHERE o.user_id <> ALL (v_spent)
                      ORDER BY o.n LOOP
            INSERT INTO voucher_order (id, slot, user_id, voucher_id, request_key, offer, scope, status)
            VALUES (v_one.id, p_slot, v_one.user_id, p_voucher, v_one.key, coalesce(v_one.offer, 0), v_scope, 'waiting')
            ON CONFLICT DO NOTHING;
            v_new := CASE WHEN FOUND THEN v_new || v_one.id ELSE v_new END;
            EXIT WHEN cardinality(v_new) = v_room;
        END LOOP;
    END IF;
    IF v_new <> '{}' THEN
        UPDATE voucher_stock s SET waiting = s.waiting + cardinality(v_new)
         WHERE s.voucher_id = p_voucher AND s.slot = p_slot;
        INSERT INTO order_placed (slot, voucher_id, ids, joined)
        SELECT p_slot, p_voucher, v_new[f : f + 99], true FROM generate_series(1, cardinality(v_new), 100) AS f ORDER BY f;
    END IF;
    RETURN QUERY
    SELECT o.n::integer,
           CASE WHEN own.user_id = o.user_id THEN 'waiting'
                WHEN first.quantity > 1 THEN 'reused'
                WHEN first.id IS NOT NULL THEN 'repeated'
                WHEN live.id IS NOT NULL THEN 'already_ordered'
                WHEN v_why IS NOT NULL THEN v_why
                WHEN o.user_id = ANY (v_spent) THEN 'most'
                ELSE 'full' END,
           CASE WHEN own.user_id = o.user_id THEN own.id WHEN first.quantity = 1 THEN first.id
                WHEN first.id IS NULL THEN live.id END,
           CASE WHEN o.id = ANY (v_new)
                THEN v_stock.waiting + (SELECT count(*) FROM unnest(v_new) AS b WHERE b < o.id) END
      FROM unnest(p_ids, p_users, p_keys) WITH ORDINALITY AS o (id, user_id, key, n)
      LEFT JOIN LATERAL (SELECT w.id, w.user_id FROM voucher_order w
                          WHERE w.slot = p_slot AND w.voucher_id = p_voucher AND w.id = o.id OFFSET 0) own ON true
      LEFT JOIN LATERAL (SELECT f.id, f.quantity FROM voucher_order f
                          WHERE f.user_id = o.user_id AND f.voucher_id = p_voucher AND f.request_key = o.key
                            AND f.id <> o.id OFFSET 0) first ON true
      LEFT JOIN LATERAL (SELECT l.id FROM voucher_order l
                          WHERE l.user_id = o.user_id AND coalesce(l.scope, l.voucher_id) = v_key AND l.slot + 0 = p_slot
                            AND l.status IN ('waiting', 'unpaid', 'paid') OFFSET 0) live ON true
     ORDER BY o.n;
END
$$;

-- Ends the line of a voucher whose sale is over, p_most orders at a time, from its front. Returns how many it has refused,
-- and how many are left.
CREATE FUNCTION refuse_waiting(p_slot integer, p_voucher bigint, p_most integer)
RETURNS TABLE (refused integer, waiting integer)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_refused uuid[] := '{}';
BEGIN
    PERFORM FROM voucher_stock s WHERE s.voucher_id = p_voucher AND s.slot = p_slot FOR UPDATE;
    IF EXISTS (SELECT FROM seckill_voucher v
                WHERE v.id = p_voucher AND (v.state = 'closed' OR v.end_at <= clock_timestamp())) THEN
        WITH ended AS (
            UPDATE voucher_order o SET status = 'refused', reason = 'SOLD_OUT', updated_at = now()
             WHERE o.slot = p_slot AND o.voucher_id = p_voucher
               AND o.id = ANY (ARRAY(SELECT w.id FROM voucher_order w
                                      WHERE w.slot = p_slot AND w.voucher_id = p_voucher AND w.status = 'waiting'
                                      ORDER BY w.id LIMIT p_most))
            RETURNING o.id)
        SELECT coalesce(array_agg(e.id ORDER BY e.id), '{}') INTO v_refused FROM ended e;
        INSERT INTO order_event (slot, voucher_id, order_id, status, by_whom, why)
        SELECT p_slot, p_voucher, r.id, 'refused', 'service', 'SOLD_OUT'
          FROM unnest(v_refused) WITH ORDINALITY AS r (id, n) ORDER BY r.n;
        UPDATE voucher_stock s SET waiting = s.waiting - cardinality(v_refused)
         WHERE s.voucher_id = p_voucher AND s.slot = p_slot AND v_refused <> '{}';
    END IF;
    RETURN QUERY
    SELECT cardinality(v_refused), s.waiting FROM voucher_stock s WHERE s.voucher_id = p_voucher AND s.slot = p_slot;
END
$$;

-- As in 004_orders.sql. One that waits is not a buyer yet.
CREATE OR REPLACE FUNCTION buyer_value(p_slot integer, p_voucher bigint, p_id uuid) RETURNS text
LANGUAGE plpgsql STRICT AS $$
BEGIN
    RETURN (SELECT concat_ws(' ', w.id, CASE WHEN w.quantity > 1 OR w.request_key IS NOT NULL THEN w.quantity END,
                             w.request_key)
              FROM voucher_order w
             WHERE w.slot = p_slot AND w.voucher_id = p_voucher AND w.id = p_id AND w.status <> 'waiting');
END
$$;

-- As in 037_scopes.sql. An order that waits refuses its user's others.
CREATE OR REPLACE FUNCTION place_orders(p_slot integer, p_voucher bigint, p_epoch bigint, p_ids uuid[], p_users text[],
                                        p_journal text DEFAULT NULL, p_quantities smallint[] DEFAULT NULL,
                                        p_keys text[] DEFAULT NULL, p_offer integer DEFAULT 0)
RETURNS TABLE (n integer, outcome text, live_id uuid, first_id uuid, created_ms bigint, gone_by text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_stock  integer;
    v_epoch  bigint;
    v_due    uuid;
    v_scope  bigint;
    v_key    bigint; -- of the index of live orders
    v_new    uuid[];
    v_order  record;
    v_late   uuid[] := '{}';
    v_kept   uuid[];
    v_placed uuid[];
    v_taken  integer;
    v_units  bigint;
    v_ms     bigint := journal_number(p_journal, 1);
    v_seq    bigint := journal_number(p_journal, 2);
BEGIN
    SELECT s.stock, s.epoch, s.due_after, s.scope INTO v_stock, v_epoch, v_due, v_scope
      FROM voucher_stock s WHERE s.voucher_id = p_voucher AND s.slot = p_slot FOR UPDATE;
    IF NOT FOUND OR p_epoch <> v_epoch THEN
        RETURN QUERY VALUES (NULL::integer, 'stale', NULL::uuid, NULL::uuid, NULL::bigint, NULL::text);
        RETURN;
    END IF;

    v_key := coalesce(v_scope, p_voucher);
    IF v_scope IS NOT NULL THEN
        PERFORM lock_scope(v_scope);
        v_scope := nullif(v_scope, p_voucher); -- as orders of the first voucher have it: from before it had a scope, too
    END IF;

    -- Nearly always there is no conflict; then a plain INSERT costs a third less than one that is ready for it.
    BEGIN
        IF p_quantities IS NULL THEN
            INSERT INTO voucher_order (id, slot, user_id, voucher_id, offer, scope)
            SELECT o.id, p_slot, o.user_id, p_voucher, p_offer, v_scope FROM unnest(p_ids, p_users) AS o (id, user_id);
        ELSE
            INSERT INTO voucher_order (id, slot, user_id, voucher_id, quantity, request_key, offer, scope)
            SELECT o.id, p_slot, o.user_id, p_voucher, o.quantity, o.key, p_offer, v_scope
              FROM unnest(p_ids, p_users, p_quantities, p_keys) AS o (id, user_id, quantity, key);
        END IF;
        v_new := p_ids;
    EXCEPTION WHEN unique_violation THEN
        -- A key counts for a day.
        FOR v_order IN SELECT old.id FROM unnest(p_users, p_keys) AS o (user_id, key)
                        CROSS JOIN LATERAL (SELECT w.id FROM voucher_order w
                                             WHERE w.user_id = o.user_id AND w.voucher_id = p_voucher
                                               AND w.request_key = o.key
                                               AND w.created_at < now() - interval '1 day' OFFSET 0) old LOOP
            UPDATE voucher_order own SET request_key = NULL
             WHERE own.slot = p_slot AND own.voucher_id = p_voucher AND own.id = v_order.id;
        END LOOP;
        WITH inserted AS (
            INSERT INTO voucher_order (id, slot, user_id, voucher_id, quantity, request_key, offer, scope)
            SELECT o.id, p_slot, o.user_id, p_voucher, coalesce(o.quantity, 1), o.key, p_offer, v_scope
              FROM unnest(p_ids, p_users, p_quantities, p_keys) AS o (id, user_id, quantity, key)
            ON CONFLICT DO NOTHING
            RETURNING id)
        SELECT coalesce(array_agg(id), '{}') INTO v_new FROM inserted;
    END;

    -- An order gets all its units or none.
    v_units := cardinality(v_new);
    IF p_quantities IS NOT NULL THEN
        SELECT coalesce(sum(o.quantity), 0) INTO v_units
          FROM (SELECT DISTINCT ON (p.id) p.quantity FROM unnest(p_ids, p_quantities) AS p (id, quantity)
                 WHERE p.id = ANY (v_new)) o;
    END IF;
    IF v_units > v_stock THEN
        v_units := 0;
        FOR v_order IN SELECT o.id, max(coalesce(o.quantity, 1)) AS quantity
                         FROM unnest(p_ids, p_quantities) WITH ORDINALITY AS o (id, quantity, n)
                        WHERE o.id = ANY (v_new) GROUP BY o.id ORDER BY min(o.n) LOOP
            IF v_units + v_order.quantity <= v_stock THEN
                v_units := v_units + v_order.quantity;
            ELSE
                v_late := v_late || v_order.id;
            END IF;
        END LOOP;
    END IF;
    v_taken := cardinality(v_new) - cardinality(v_late);
    IF v_taken > 0 THEN
        IF EXISTS (SELECT FROM unnest(v_new) AS id WHERE id < v_due) THEN
            SELECT id INTO v_due FROM unnest(v_new) AS id ORDER BY id LIMIT 1; -- it was settled late
        END IF;
        UPDATE voucher_stock s
           SET stock = stock - v_units, live = live + v_taken, due_after = v_due,
               journal_ms = CASE WHEN (v_ms, v_seq) > (journal_ms, journal_seq) THEN v_ms ELSE journal_ms END,
               journal_seq = CASE WHEN (v_ms, v_seq) > (journal_ms, journal_seq) THEN v_seq ELSE journal_seq END
         WHERE s.voucher_id = p_voucher AND s.slot = p_slot;
        v_placed := CASE WHEN v_late = '{}' THEN v_new
                         ELSE ARRAY(SELECT n.id FROM unnest(v_new) WITH ORDINALITY AS n (id, nth)
                                     WHERE n.id <> ALL (v_late) ORDER BY n.nth) END;
        INSERT INTO order_placed (slot, voucher_id, ids)
        SELECT p_slot, p_voucher, v_placed[f : f + 99] FROM generate_series(1, v_taken, 100) AS f ORDER BY f;
    END IF;
    IF v_taken = cardinality(p_ids) THEN
        RETURN QUERY VALUES (NULL::integer, 'placed', NULL::uuid, NULL::uuid, unix_ms(now()), NULL::text);
        RETURN;
    END IF;

    -- The uncommon path. Each order is looked up by itself (LATERAL, OFFSET 0), and each user's live order in the index
    -- that the user stands first in (slot + 0): a plan that was made while the table was small would else go through
    -- all the voucher's orders for each one of the batch.
    --
    -- First the orders that came after the last unit ...
    FOR v_order IN SELECT l.id FROM unnest(v_late) AS l (id) LOOP
        UPDATE voucher_order own SET status = 'refused', reason = 'SOLD_OUT', request_key = NULL
         WHERE own.slot = p_slot AND own.voucher_id = p_voucher AND own.id = v_order.id;
    END LOOP;
    -- ... then those that met a live order of their user, the first order under their key, or one that was just refused:
    -- kept, so that their URL can say why.
    WITH inserted AS (
        INSERT INTO voucher_order (id, slot, user_id, voucher_id, quantity, offer, status, reason)
        SELECT o.id, p_slot, o.user_id, p_voucher, coalesce(o.quantity, 1), p_offer, 'refused',
               CASE WHEN EXISTS (SELECT FROM voucher_order first
                                  WHERE first.user_id = o.user_id AND first.voucher_id = p_voucher
                                    AND first.request_key = o.key OFFSET 0)
                    THEN 'REPEATED'
                    WHEN EXISTS (SELECT FROM voucher_order live
                                  WHERE live.user_id = o.user_id AND coalesce(live.scope, live.voucher_id) = v_key
                                    AND live.slot + 0 = p_slot AND live.status IN ('waiting', 'unpaid', 'paid') OFFSET 0)
                    THEN 'ALREADY_ORDERED' ELSE 'SOLD_OUT' END
          FROM unnest(p_ids, p_users, p_quantities, p_keys) AS o (id, user_id, quantity, key)
        ON CONFLICT DO NOTHING
        RETURNING id)
    SELECT coalesce(array_agg(id), '{}') INTO v_kept FROM inserted;
    INSERT INTO order_event (slot, voucher_id, order_id, status, by_whom, why)
    SELECT p_slot, p_voucher, own.id, 'refused', 'service', own.reason
      FROM unnest(v_late || v_kept) WITH ORDINALITY AS r (id, n)
     CROSS JOIN LATERAL (SELECT w.id, w.reason FROM voucher_order w
                          WHERE w.slot = p_slot AND w.voucher_id = p_voucher AND w.id = r.id OFFSET 0) own
     ORDER BY r.n;

    RETURN QUERY
    SELECT o.n::integer,
           CASE WHEN own.user_id <> o.user_id THEN 'clash'
                WHEN own.status IN ('unpaid', 'paid') AND own.id = ANY (v_new) THEN 'placed'
                WHEN own.status IN ('unpaid', 'paid') THEN 'already_placed'
                WHEN own.reason = 'KEPT' THEN 'gone'
                WHEN own.id <> ALL (v_new || v_kept)
                     AND own.reason = 'SOLD_OUT' AND v_stock < v_units + own.quantity THEN 'sold_out'
                WHEN own.id <> ALL (v_new || v_kept) THEN 'ended'
                WHEN own.reason = 'SOLD_OUT' THEN 'sold_out'
                WHEN own.reason = 'REPEATED' AND first.quantity <> own.quantity THEN 'reused'
                WHEN own.reason = 'REPEATED' THEN 'repeated'
                ELSE 'duplicate'
           END,
           CASE WHEN own.status IN ('unpaid', 'paid', 'refused') THEN live.id END, first.id, unix_ms(own.created_at),
           CASE WHEN own.reason = 'KEPT'
                THEN (SELECT e.journal FROM order_event e WHERE e.order_id = own.id AND e.journal IS NOT NULL) END
      FROM unnest(p_ids, p_users, p_keys) WITH ORDINALITY AS o (id, user_id, key, n)
     CROSS JOIN LATERAL (SELECT w.user_id, w.status, w.reason, w.id, w.quantity, w.created_at
                           FROM voucher_order w
                          WHERE w.slot = p_slot AND w.voucher_id = p_voucher AND w.id = o.id OFFSET 0) own
      LEFT JOIN LATERAL (SELECT l.id FROM voucher_order l
                          WHERE l.user_id = o.user_id AND coalesce(l.scope, l.voucher_id) = v_key AND l.slot + 0 = p_slot
                            AND l.status IN ('waiting', 'unpaid', 'paid') AND l.id <> o.id OFFSET 0) live ON true
      LEFT JOIN LATERAL (SELECT f.id, f.quantity FROM voucher_order f
                          WHERE f.user_id = o.user_id AND f.voucher_id = p_voucher AND f.request_key = o.key
                            AND f.id <> o.id OFFSET 0) first ON true
     ORDER BY o.n;
END
$$;

-- As in 036_extend.sql, and an order that waits is cancelled: it gives no unit back.
CREATE OR REPLACE FUNCTION return_batches(p_slots integer[], p_vouchers bigint[], p_epochs bigint[], p_counts integer[],
                                          p_ids uuid[], p_move text, p_by text, p_why text, p_journals text[])
RETURNS TABLE (n integer, outcome text, user_id text, units integer, nth smallint, batch integer)
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    v_status  order_status := split_part(p_move, '-', 1)::order_status;
    v_reason  text := CASE p_move WHEN 'refunded' THEN 'RESTOCKED' WHEN 'refunded-kept' THEN 'KEPT' END;
    v_from    order_status[] := ARRAY(SELECT m.from_status FROM order_move m WHERE m.to_status = v_status);
    v_slots   integer[]; -- of entries; NULL: stale
    v_batches integer[]; -- of ids
BEGIN
    PERFORM FROM unnest(p_slots, p_vouchers) AS e (slot, voucher)
      JOIN voucher_stock s ON s.voucher_id = e.voucher AND s.slot = e.slot
     ORDER BY s.voucher_id
       FOR UPDATE OF s;
    v_slots := ARRAY(
        SELECT s.slot
          FROM unnest(p_slots, p_vouchers, p_epochs) WITH ORDINALITY AS e (slot, voucher, epoch, batch)
          LEFT JOIN seckill_voucher v ON v.id = e.voucher
          LEFT JOIN voucher_stock s
            ON s.voucher_id = e.voucher AND s.slot = e.slot
           AND e.epoch IS NOT DISTINCT FROM CASE WHEN v.state <> 'retired' THEN s.epoch END
         ORDER BY e.batch);
    v_batches := ARRAY(SELECT e.batch FROM unnest(p_counts) WITH ORDINALITY AS e (count, batch), generate_series(1, e.count)
                        ORDER BY e.batch);
    WITH moved AS (
        UPDATE voucher_order o
           SET status = v_status, reason = CASE WHEN o.status = 'waiting' THEN 'LEFT' ELSE v_reason END, updated_at = now(),
               ended_nth = 1 + coalesce((SELECT max(w.ended_nth) FROM voucher_order w
                                          WHERE w.user_id = o.user_id AND w.voucher_id = o.voucher_id
                                            AND w.ended_nth IS NOT NULL), 0)
          FROM unnest(p_ids, v_batches) AS a (id, batch), seckill_voucher v
         WHERE o.slot = v_slots[a.batch] AND o.voucher_id = p_vouchers[a.batch] AND o.id = a.id
           AND v.id = p_vouchers[a.batch] AND o.status = ANY (v_from)
           AND (v_status <> 'expired'
                OR (due_at(o.created_at, v.pay_within_s, o.due_at) <= now() AND NOT expiry_is_held(v.id)))
        RETURNING o.slot, o.voucher_id, o.id, o.quantity, a.batch, o.reason IS NOT DISTINCT FROM 'LEFT' AS waited
    ), noted AS (
        INSERT INTO order_event (slot, voucher_id, order_id, status, by_whom, why, journal)
        SELECT m.slot, m.voucher_id, m.id, v_status, p_by, p_why,
               CASE WHEN v_reason = 'KEPT' THEN p_journals[m.batch] || '@' || p_epochs[m.batch] END
          FROM moved m
    ), given_back AS (
        UPDATE payment p SET state = 'refunded' FROM moved m
         WHERE v_status = 'refunded' AND p.order_id = m.id AND p.state = 'accepted'
    )
    UPDATE voucher_stock s
       SET stock = stock + CASE WHEN v_reason = 'KEPT' THEN 0 ELSE m.units END, live = live - m.orders,
           waiting = waiting - m.waited
      FROM (SELECT slot, voucher_id, coalesce(sum(quantity) FILTER (WHERE NOT waited), 0) AS units,
                   count(*) FILTER (WHERE NOT waited) AS orders, count(*) FILTER (WHERE waited) AS waited
              FROM moved GROUP BY slot, voucher_id) m
     WHERE s.voucher_id = m.voucher_id AND s.slot = m.slot;
    RETURN QUERY
    SELECT a.n::integer,
           CASE WHEN own.status IS NULL THEN 'unknown'
                WHEN own.status IN ('cancelled', 'expired', 'refunded') THEN 'returned'
                ELSE 'kept' END,
           own.user_id,
           CASE WHEN own.reason = 'KEPT' THEN
                    (SELECT 0 FROM order_event e
                      WHERE e.order_id = own.id
                        AND e.journal IN (p_journals[a.batch] || '@' || p_epochs[a.batch], p_journals[a.batch]))
                WHEN own.status IN ('cancelled', 'expired', 'refunded') AND own.reason IS DISTINCT FROM 'LEFT'
                    THEN own.quantity
                ELSE 0 END::integer,
           own.ended_nth, a.batch
      FROM (SELECT i.id, i.batch, row_number() OVER (PARTITION BY i.batch ORDER BY i.at) AS n
              FROM unnest(p_ids, v_batches) WITH ORDINALITY AS i (id, batch, at)) a
      LEFT JOIN LATERAL (SELECT w.id, w.user_id, w.status, w.reason, w.quantity, w.ended_nth
                           FROM voucher_order w
                          WHERE w.slot = v_slots[a.batch] AND w.voucher_id = p_vouchers[a.batch] AND w.id = a.id
                         OFFSET 0) own ON true
     WHERE v_slots[a.batch] IS NOT NULL
    UNION ALL
    SELECT NULL, 'stale', NULL, NULL, NULL, e.batch::integer
      FROM unnest(v_slots) WITH ORDINALITY AS e (slot, batch) WHERE e.slot IS NULL
     ORDER BY 6, 1;
END
$$;

-- ---- lists, and the end ----

-- As in 011_lists.sql.
CREATE OR REPLACE FUNCTION list_orders(p_user text, p_before uuid, p_most integer, p_pending uuid[], p_vouchers bigint[])
RETURNS TABLE (id uuid, document json, voucher_id bigint)
LANGUAGE sql STABLE AS $$
    SELECT l.id, l.document, l.voucher_id
      FROM (SELECT o.id, order_json(o.*) AS document, o.voucher_id
              FROM ((SELECT * FROM voucher_order live
                      WHERE live.user_id = p_user AND live.status IN ('waiting', 'unpaid', 'paid')
                        AND live.id < coalesce(p_before, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
                      ORDER BY live.id DESC
                      LIMIT p_most)
                    UNION ALL
                    (SELECT * FROM voucher_order ended
                      WHERE ended.user_id = p_user AND ended.status IN ('cancelled', 'expired', 'refused', 'refunded')
                        AND ended.id < coalesce(p_before, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
                      ORDER BY ended.id DESC
                      LIMIT p_most)
                    ORDER BY id DESC
                    LIMIT p_most) o
            UNION ALL
            SELECT p.id, NULL, p.voucher_id
              FROM unnest(p_pending, p_vouchers) AS p (id, voucher_id)
             WHERE NOT EXISTS (SELECT FROM voucher_stock s
                                CROSS JOIN LATERAL (SELECT FROM voucher_order own
                                                     WHERE own.slot = s.slot AND own.voucher_id = s.voucher_id
                                                       AND own.id = p.id OFFSET 0) own
                                WHERE s.voucher_id = p.voucher_id)) l
     ORDER BY l.document IS NULL, l.id DESC
$$;

-- As in 036_extend.sql, with the orders that wait.
CREATE OR REPLACE FUNCTION order_events(p_after_tx xid8, p_after_seq bigint, p_most integer, p_only text DEFAULT NULL)
RETURNS TABLE (tx xid8, seq bigint, document json)
LANGUAGE sql STABLE AS $$
    SELECT e.tx, e.seq, json_strip_nulls(json_build_object(
               'event', CASE WHEN e.type = 'moved' THEN 'order.' || e.status
                             WHEN e.type IN ('placed', 'extended') THEN 'order.' || e.type
                             ELSE replace(e.type, 'payment_', 'payment.') END,
               'type', CASE WHEN e.type LIKE 'sale.%' THEN 'sale' ELSE e.type END, 'order_id', e.order_id,
               'voucher_id', e.voucher_id::text, 'user_id', o.user_id,
               'quantity', o.quantity, 'total_cents', f.price_cents * o.quantity, 'currency', f.currency,
               'status', CASE WHEN e.type IN ('moved', 'placed') OR o.status IS NULL THEN e.status ELSE o.status END,
               'at', rfc3339(e.at), 'by', e.by_whom, 'why', e.why,
               'expires_at', CASE WHEN e.type = 'extended' THEN rfc3339(o.due_at) END,
               'reference', CASE WHEN e.type = 'extended' THEN e.reference END,
               'payment', CASE WHEN e.type <> 'extended' AND p.reference IS NOT NULL THEN json_build_object(
                   'reference', p.reference, 'amount_cents', p.amount_cents, 'currency', p.currency) END))
      FROM (SELECT * FROM (
                (SELECT w.tx, w.seq, w.slot, w.voucher_id, w.order_id, w.at, w.status, w.by_whom, w.why, w.reference,
                        coalesce(w.type, old_event_type(w)) AS type
                   FROM order_event w
                  WHERE (p_only IS NULL OR p_only = 'moves') AND (w.tx, w.seq) > (p_after_tx, p_after_seq)
                    AND w.tx < pg_snapshot_xmin(pg_current_snapshot())
                  ORDER BY w.tx, w.seq
                  LIMIT p_most)
                UNION ALL
                (SELECT b.tx, b.seq + o.n - 1, b.slot, b.voucher_id, o.id, b.at,
                        (CASE WHEN b.joined THEN 'waiting' ELSE 'unpaid' END)::order_status, 'user', NULL, NULL,
                        CASE WHEN b.joined THEN 'moved' ELSE 'placed' END
                   FROM (SELECT * FROM order_placed p
                          WHERE (p_only IS NULL OR p_only = 'placed') AND (p.tx, p.seq) > (p_after_tx, p_after_seq - 100)
                            AND p.tx < pg_snapshot_xmin(pg_current_snapshot())
                          ORDER BY p.tx, p.seq
                          LIMIT p_most + 1) b
                  CROSS JOIN LATERAL unnest(b.ids) WITH ORDINALITY AS o (id, n)
                  WHERE (b.tx, b.seq + o.n - 1) > (p_after_tx, p_after_seq)
                  ORDER BY b.tx, b.seq, o.n
                  LIMIT p_most)
                UNION ALL
                (SELECT s.tx, s.seq, s.slot, s.voucher_id, NULL, s.at, NULL, 'service', NULL, NULL, s.name
                   FROM sale_event s
                  WHERE (p_only IS NULL OR p_only = 'sales') AND (s.tx, s.seq) > (p_after_tx, p_after_seq)
                    AND s.tx < pg_snapshot_xmin(pg_current_snapshot())
                  ORDER BY s.tx, s.seq
                  LIMIT p_most)) of_all
             ORDER BY tx, seq
             LIMIT p_most) e
      LEFT JOIN LATERAL (SELECT own.user_id, own.quantity, own.offer, own.status, own.due_at FROM voucher_order own
                          WHERE own.slot = e.slot AND own.voucher_id = e.voucher_id AND own.id = e.order_id
                         OFFSET 0) o ON true
      LEFT JOIN LATERAL order_offer(e.voucher_id, o.offer) f ON o.offer IS NOT NULL
      LEFT JOIN LATERAL (SELECT noted.reference, noted.amount_cents, noted.currency
                           FROM payment noted
                          WHERE noted.order_id = e.order_id
                            AND CASE WHEN e.reference IS NOT NULL THEN noted.reference = e.reference
                                     WHEN e.type = 'moved' THEN e.status IN ('paid', 'refunded')
                                     ELSE e.type = 'payment_to_refund' AND noted.at = e.at END
                          ORDER BY noted.at
                          LIMIT 1) p ON true
     ORDER BY e.tx, e.seq
$$;

-- As in 033_feed.sql, with how many wait.
DROP FUNCTION voucher_accounts(integer[], bigint[]);
CREATE FUNCTION voucher_accounts(p_slots integer[], p_vouchers bigint[])
RETURNS TABLE (slot smallint, voucher_id bigint, epoch bigint, journal_ms bigint, journal_seq bigint, stock bigint,
               buyers bigint, change bigint, state text, begin_ms bigint, end_ms bigint, letters bigint,
               offer integer, phase text, waiting integer)
LANGUAGE sql STABLE AS $$
    SELECT s.slot, s.voucher_id, s.epoch, s.journal_ms, s.journal_seq, greatest(s.stock - h.units, 0), s.live + h.users,
           v.change, v.state, unix_ms(v.begin_at), unix_ms(v.end_at),
           (SELECT count(*) FROM dead_letter d
             WHERE d.voucher_id = s.voucher_id AND d.slot = s.slot AND d.ended_at IS NULL),
           v.offer, phase.phase, s.waiting
      FROM unnest(p_slots, p_vouchers) AS asked (slot, voucher_id)
      JOIN voucher_stock s ON s.voucher_id = asked.voucher_id AND s.slot = asked.slot
      JOIN seckill_voucher v ON v.id = s.voucher_id
      LEFT JOIN sale_phase phase ON phase.voucher_id = s.voucher_id
     CROSS JOIN LATERAL (SELECT coalesce(sum(held.quantity), 0) AS units, count(DISTINCT held.user_id) AS users
                           FROM held_order held
                          WHERE held.voucher_id = s.voucher_id AND held.slot = s.slot) h
$$;

-- As in 009_retire.sql. A voucher with waiting orders is open.
CREATE OR REPLACE FUNCTION voucher_is_open(p_voucher bigint) RETURNS boolean
LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    v_stock voucher_stock;
BEGIN
    IF EXISTS (SELECT FROM dead_letter d WHERE d.voucher_id = p_voucher AND d.ended_at IS NULL)
       OR EXISTS (SELECT FROM voucher_stock s WHERE s.voucher_id = p_voucher AND s.waiting > 0) THEN
        RETURN true;
    END IF;
    SELECT s.* INTO v_stock FROM voucher_stock s JOIN seckill_voucher v ON v.id = s.voucher_id
     WHERE s.voucher_id = p_voucher AND s.live > 0 AND v.pay_within_s > 0;
    IF FOUND THEN
        PERFORM FROM voucher_order o
          WHERE o.slot = v_stock.slot AND o.voucher_id = p_voucher AND o.id >= v_stock.due_after AND o.status = 'unpaid'
          ORDER BY o.slot, o.voucher_id, o.id LIMIT 1;
    END IF;
    RETURN FOUND;
END
$$;

-- As in 015_erase.sql.
CREATE OR REPLACE FUNCTION erase_user(p_user text)
RETURNS TABLE (outcome text, pseudonym text, orders bigint, letters bigint, vouchers text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_orders  bigint[]; -- the voucher of each
    v_letters bigint[];
    v_word    text := '(^|,)[^ ,]* ' || regexp_replace(p_user, '([.])', '\\\1', 'g') || '( |,|$)';
BEGIN
    PERFORM FROM seckill_catalogue FOR UPDATE; -- no voucher is recalled meanwhile
    SELECT string_agg(open.id::text, ',' ORDER BY open.id) INTO vouchers
      FROM (SELECT v.id FROM seckill_voucher v
             WHERE v.id IN (SELECT live.voucher_id FROM voucher_order live
                             WHERE live.user_id = p_user AND live.status IN ('waiting', 'unpaid', 'paid')
                             UNION ALL
                            SELECT ended.voucher_id FROM voucher_order ended
                             WHERE ended.user_id = p_user
                               AND ended.status IN ('cancelled', 'expired', 'refused', 'refunded'))
               AND v.state <> 'retired'
             UNION
            SELECT h.voucher_id FROM held_order h WHERE h.user_id = p_user
             LIMIT 20) open;
    orders := 0;
    letters := 0;
    IF vouchers IS NOT NULL THEN
        outcome := 'refused';
        RETURN NEXT;
        RETURN;
    END IF;
    outcome := 'erased';
    pseudonym := 'erased-' || replace(gen_random_uuid()::text, '-', '');

    WITH own AS (
        SELECT o.slot, o.voucher_id, o.id FROM voucher_order o
         WHERE o.user_id = p_user AND o.status IN ('unpaid', 'paid')
         UNION ALL
        SELECT o.slot, o.voucher_id, o.id FROM voucher_order o
         WHERE o.user_id = p_user AND o.status IN ('cancelled', 'expired', 'refused', 'refunded')),
    renamed AS (
        UPDATE voucher_order o SET user_id = erase_user.pseudonym, request_key = NULL
          FROM own
         WHERE o.slot = own.slot AND o.voucher_id = own.voucher_id AND o.id = own.id
        RETURNING o.voucher_id)
    SELECT coalesce(array_agg(r.voucher_id), '{}') INTO v_orders FROM renamed r;
    WITH renamed AS (
        UPDATE dead_letter d
           SET orders = erase_in_orders(d.orders, p_user, erase_user.pseudonym), raw = erase_in_bytes(d.raw, p_user)
         WHERE d.orders ~ v_word OR erase_in_bytes(d.raw, p_user) <> d.raw
        RETURNING d.voucher_id)
    SELECT coalesce(array_agg(r.voucher_id), '{}') INTO v_letters FROM renamed r;
    INSERT INTO admin_event (by_whom, what, voucher_id, detail)
    SELECT session_user, 'erased', w.voucher_id,
           jsonb_build_object('pseudonym', erase_user.pseudonym, 'orders', sum(w.orders), 'letters', sum(w.letters))
      FROM (SELECT id, 1, 0 FROM unnest(v_orders) AS o (id)
             UNION ALL
            SELECT id, 0, 1 FROM unnest(v_letters) AS d (id)) AS w (voucher_id, orders, letters)
     GROUP BY w.voucher_id;
    orders := cardinality(v_orders);
    letters := cardinality(v_letters);
    RETURN NEXT;
END
$$;

DO $$
DECLARE
    v_function text;
BEGIN
    FOREACH v_function IN ARRAY ARRAY[
        'catalogue_changes(bigint, integer, bigint, boolean)',
        'create_voucher(text, text, bigint, integer, bigint, bigint, smallint, integer, text, text, boolean, smallint,'
        ' text, text, integer, smallint, bigint, bigint, jsonb)',
        'change_voucher(bigint, bigint, text, text, text, bigint, text, bigint, bigint, smallint, integer, boolean,'
        ' smallint, text, text, integer, smallint, bigint, jsonb)',
        'join_orders(integer, bigint, uuid[], text[], text[], integer[])', 'refuse_waiting(integer, bigint, integer)',
        'buyer_value(integer, bigint, uuid)',
        'place_orders(integer, bigint, bigint, uuid[], text[], text, smallint[], text[], integer)',
        'return_batches(integer[], bigint[], bigint[], integer[], uuid[], text, text, text, text[])',
        'list_orders(text, uuid, integer, uuid[], bigint[])', 'order_events(xid8, bigint, integer, text)',
        'voucher_accounts(integer[], bigint[])', 'erase_user(text)'] LOOP
        EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER SET search_path = %I, pg_temp', v_function, current_schema());
    END LOOP;
    REVOKE EXECUTE ON FUNCTION catalogue_changes(bigint, integer, bigint, boolean),
                               create_voucher(text, text, bigint, integer, bigint, bigint, smallint, integer, text, text,
                                              boolean, smallint, text, text, integer, smallint, bigint, bigint, jsonb),
                               change_voucher(bigint, bigint, text, text, text, bigint, text, bigint, bigint, smallint, integer,
                                              boolean, smallint, text, text, integer, smallint, bigint, jsonb),
                               join_orders(integer, bigint, uuid[], text[], text[], integer[]),
                               refuse_waiting(integer, bigint, integer), set_line(bigint, jsonb),
                               voucher_accounts(integer[], bigint[]),
                               place_in_line(integer, bigint, uuid) FROM PUBLIC;
    GRANT EXECUTE ON FUNCTION catalogue_changes(bigint, integer, bigint, boolean) TO seckill_service;
    GRANT EXECUTE ON FUNCTION create_voucher(text, text, bigint, integer, bigint, bigint, smallint, integer, text, text,
                                             boolean, smallint, text, text, integer, smallint, bigint, bigint,
                                             jsonb) TO seckill_service;
    GRANT EXECUTE ON FUNCTION change_voucher(bigint, bigint, text, text, text, bigint, text, bigint, bigint, smallint,
                                             integer, boolean, smallint, text, text, integer, smallint, bigint,
                                             jsonb) TO seckill_service;
    GRANT EXECUTE ON FUNCTION join_orders(integer, bigint, uuid[], text[], text[], integer[]) TO seckill_service;
    GRANT EXECUTE ON FUNCTION voucher_accounts(integer[], bigint[]) TO seckill_service;
    GRANT EXECUTE ON FUNCTION refuse_waiting(integer, bigint, integer) TO seckill_service;
END
$$;
