-- Instances refuse users from memory while a line is full, except those who wait, for as long as SOLD_OUT may be cached.
-- No user joins before such refusals have expired.
ALTER TABLE voucher_line
    ADD COLUMN joined bigint NOT NULL DEFAULT 0, -- orders, ever
    ADD COLUMN full_at timestamptz;              -- when a user was last told, or might have been, that it is full

-- As in 040_waiting.sql.
--
-- Puts a batch of users at the end of a voucher's line: one outcome for each order.
--
--   waiting           it waits, by this call or an earlier one; `place`: so many wait before it, if it came now. Another
--                     instance's clock may be behind: then its users stand further in front
--   already_ordered   the user has a live order of the scope, or waits: order_id
--   repeated, reused  the user's Idempotency-Key has led to another order, order_id; reused: of more units than one
--   most              the user has had as many orders as one may have
--   full              as many wait as may. An instance may refuse further users from its memory then, those who do not wait,
--                     as long as the voucher's cache_ms, and while `joined` stays the same
--   held              a place is free, but such refusals have not expired: no user joins yet, so that no instance refuses
--                     a user who has joined (P6)
--   none              the voucher has no line
--   not_started, paused, ended   as for a purchase
--
-- Idempotent by order id. It locks the voucher's row, as placing does. Who has an order hears so whatever else is.
DROP FUNCTION join_orders(integer, bigint, uuid[], text[], text[], integer[]);
CREATE FUNCTION join_orders(p_slot integer, p_voucher bigint, p_ids uuid[], p_users text[], p_keys text[] DEFAULT NULL,
                            p_offers integer[] DEFAULT NULL)
RETURNS TABLE (n integer, outcome text, order_id uuid, place bigint, joined bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_stock   voucher_stock;
    v_voucher seckill_voucher;
    v_line    voucher_line;
    v_held    boolean := false;
    v_full    boolean;
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
    SELECT l.* INTO v_line FROM voucher_line l WHERE l.voucher_id = p_voucher;
    v_why := CASE WHEN v_stock.voucher_id IS NULL OR v_voucher.state IN ('closed', 'retired')
                       OR v_voucher.end_at <= clock_timestamp() THEN 'ended'
                  WHEN coalesce(v_line.most, 0) = 0 THEN 'none'
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
        v_room := v_line.most - v_stock.waiting;
        v_held := v_room > 0
                  AND coalesce(clock_timestamp() < v_line.full_at + v_stock.cache_ms * interval '1 ms', false);
        v_room := CASE WHEN v_held THEN 0 ELSE v_room END;
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
    v_full := v_why IS NULL AND NOT v_held AND cardinality(v_new) >= v_room;
    IF v_full OR v_new <> '{}' THEN
        UPDATE voucher_line l
           SET joined = l.joined + cardinality(v_new), full_at = CASE WHEN v_full THEN clock_timestamp() ELSE l.full_at END
         WHERE l.voucher_id = p_voucher RETURNING l.* INTO v_line;
    END IF;
    RETURN QUERY
    SELECT o.n::integer,
           CASE WHEN own.user_id = o.user_id THEN 'waiting'
                WHEN first.quantity > 1 THEN 'reused'
                WHEN first.id IS NOT NULL THEN 'repeated'
                WHEN live.id IS NOT NULL THEN 'already_ordered'
                WHEN v_why IS NOT NULL THEN v_why
                WHEN o.user_id = ANY (v_spent) THEN 'most'
                WHEN v_held THEN 'held'
                ELSE 'full' END,
           CASE WHEN own.user_id = o.user_id THEN own.id WHEN first.quantity = 1 THEN first.id
                WHEN first.id IS NULL THEN live.id END,
           CASE WHEN o.id = ANY (v_new)
                THEN v_stock.waiting + (SELECT count(*) FROM unnest(v_new) AS b WHERE b < o.id) END,
           v_line.joined
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

-- Who waits, page by page behind p_after (NULL: from the first one); how many do, whether that is as many as may, and how
-- many have ever joined. One row without a user at least.
CREATE FUNCTION line_users(p_slot integer, p_voucher bigint, p_after uuid, p_most integer)
RETURNS TABLE (id uuid, user_id text, waiting integer, full_now boolean, joined bigint)
LANGUAGE sql STABLE AS $$
    SELECT w.id, w.user_id, s.waiting, s.waiting >= l.most, l.joined
      FROM voucher_stock s
      JOIN voucher_line l ON l.voucher_id = s.voucher_id
      LEFT JOIN LATERAL (SELECT o.id, o.user_id FROM voucher_order o
                          WHERE o.slot = p_slot AND o.voucher_id = p_voucher AND o.status = 'waiting'
                            AND o.id > coalesce(p_after, '00000000-0000-0000-0000-000000000000')
                          ORDER BY o.slot, o.voucher_id, o.id
                          LIMIT p_most) w ON true
     WHERE s.voucher_id = p_voucher AND s.slot = p_slot
     ORDER BY w.id
$$;

DO $$
DECLARE
    v_function text;
BEGIN
    FOREACH v_function IN ARRAY ARRAY['join_orders(integer, bigint, uuid[], text[], text[], integer[])',
                                      'line_users(integer, bigint, uuid, integer)'] LOOP
        EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER SET search_path = %I, pg_temp', v_function, current_schema());
    END LOOP;
    REVOKE EXECUTE ON FUNCTION join_orders(integer, bigint, uuid[], text[], text[], integer[]),
                               line_users(integer, bigint, uuid, integer) FROM PUBLIC;
    GRANT EXECUTE ON FUNCTION join_orders(integer, bigint, uuid[], text[], text[], integer[]) TO seckill_service;
    GRANT EXECUTE ON FUNCTION line_users(integer, bigint, uuid, integer) TO seckill_service;
END
$$;
