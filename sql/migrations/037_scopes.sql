-- Scopes: vouchers of which a user has one live order altogether, such as the sizes of one shoe. A scope has the id of its
-- first voucher; a voucher that names no other one is a scope of its own.
--
-- The vouchers of a scope have the tag of the first one, so their keys in Redis are in one slot, and one script sees who
-- has bought the others. PostgreSQL decides last, as for a single voucher: the index of live orders has the scope in
-- place of the voucher.
ALTER TABLE voucher_stock ADD COLUMN scope bigint; -- the first voucher's id, if the scope has other ones; NULL: alone
ALTER TABLE voucher_stock DROP CONSTRAINT voucher_stock_tag_key;
ALTER TABLE voucher_order ADD COLUMN scope bigint; -- NULL: that of its voucher's id. So orders of a single voucher, and
                                                   -- of the first one, cost nothing.
DROP INDEX voucher_order_live;
CREATE UNIQUE INDEX voucher_order_live ON voucher_order (user_id, (coalesce(scope, voucher_id)), slot)
    WHERE status IN ('unpaid', 'paid');

-- One transaction at a time places orders in a scope: else two of them could wait for each other's users crosswise. It is
-- taken after the rows of all vouchers of the transaction, and in the order of the scopes.
CREATE FUNCTION lock_scope(p_scope bigint) RETURNS void
LANGUAGE sql AS $$
    SELECT pg_advisory_xact_lock(hashtextextended('seckill scope ' || p_scope, 0))
$$;

-- Whether another voucher of the scope may still sell: then this one's buyers must stay in Redis.
CREATE FUNCTION scope_is_open(p_voucher bigint) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM voucher_stock own
                     JOIN voucher_stock other ON other.slot = own.slot AND other.scope = own.scope
                     JOIN seckill_voucher v ON v.id = other.voucher_id
                    WHERE own.voucher_id = p_voucher AND v.id <> p_voucher AND v.state IN ('open', 'paused')
                      AND v.end_at > now())
$$;

-- Whose voucher's the user's other order is. VOLATILE: see buyer_value().
CREATE FUNCTION live_voucher(p_slot integer, p_id uuid) RETURNS bigint
LANGUAGE plpgsql STRICT AS $$
BEGIN
    RETURN voucher_of_order(p_slot, p_id);
END
$$;

-- As in 035_terms.sql, with the scope.
CREATE OR REPLACE FUNCTION voucher_json(v seckill_voucher) RETURNS json
LANGUAGE sql STABLE AS $$
    SELECT json_strip_nulls(json_build_object(
        'id', v.id::text, 'title', v.title, 'description', v.description, 'picture', v.picture,
        'price_cents', v.price_cents, 'currency', v.currency, 'stock', s.units, 'remaining', s.stock,
        'limit', v.user_limit, 'scope', coalesce(s.scope, v.id)::text, 'orders_per_user', v.orders_per_user,
        'pay_within_s', v.pay_within_s, 'extend_s', v.extend_s, 'ticket', v.ticket, 'work_bits', v.work_bits, 'offer', v.offer,
        'begin_at', rfc3339(v.begin_at), 'end_at', rfc3339(v.end_at), 'more_at', rfc3339(v.more_at), 'state', v.state,
        'version', v.change))
      FROM voucher_stock s
     WHERE s.voucher_id = v.id
$$;

-- As in 035_terms.sql, with the scope. An instance that knows no scopes does not ask for them, and never sees a voucher
-- whose tag is not its id: it would take another's keys for this one's.
DROP FUNCTION catalogue_changes(bigint, integer, bigint);
CREATE FUNCTION catalogue_changes(p_after bigint, p_most integer, p_first bigint DEFAULT 0,
                                  p_scopes boolean DEFAULT false)
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
                     AND (p_scopes OR NOT EXISTS (SELECT FROM voucher_stock other
                                                   WHERE other.voucher_id = changed.id AND other.scope <> changed.id))
                   ORDER BY changed.change
                   LIMIT p_most) v
                 JOIN voucher_stock s ON s.voucher_id = v.id) ON true
     ORDER BY v.change
$$;

-- As in 035_terms.sql. p_scope: a voucher whose scope the new one joins. Outcome 'scope': there is no such voucher, or it
-- is retired, or its scope has 16 vouchers.
DROP FUNCTION create_voucher(text, text, bigint, integer, bigint, bigint, smallint, integer, text, text, boolean, smallint,
                             text, text, integer, smallint, bigint);
CREATE FUNCTION create_voucher(p_key text, p_title text, p_price_cents bigint, p_stock integer, p_begin_ms bigint,
                               p_end_ms bigint, p_user_limit smallint DEFAULT 1, p_pay_within_s integer DEFAULT 900,
                               p_currency text DEFAULT 'CNY', p_by text DEFAULT 'admin', p_ticket boolean DEFAULT false,
                               p_work_bits smallint DEFAULT 0, p_description text DEFAULT NULL,
                               p_picture text DEFAULT NULL, p_extend_s integer DEFAULT 120,
                               p_orders_per_user smallint DEFAULT 3, p_more_ms bigint DEFAULT NULL,
                               p_scope bigint DEFAULT NULL)
RETURNS TABLE (outcome text, id bigint, epoch bigint, document json, loading json, change bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_terms   bytea := sha256(convert_to(
        concat_ws(' ', p_price_cents, p_currency, p_stock, p_begin_ms, p_end_ms, p_user_limit, p_pay_within_s, p_ticket,
                  p_work_bits, p_title, E'\ndescription ' || nullif(p_description, ''),
                  E'\npicture ' || nullif(p_picture, ''), E'\nextend_s ' || nullif(p_extend_s, 120),
                  E'\norders_per_user ' || nullif(p_orders_per_user, 3), E'\nmore_at ' || nullif(p_more_ms, 0),
                  E'\nscope ' || p_scope), 'UTF8'));
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
        INSERT INTO admin_event (by_whom, what, voucher_id, change, detail)
        VALUES (p_by, 'created', v_voucher.id, v_voucher.change,
                jsonb_strip_nulls(jsonb_build_object(
                    'title', p_title, 'description', v_voucher.description, 'picture', v_voucher.picture,
                    'price_cents', p_price_cents, 'currency', p_currency, 'stock', p_stock, 'limit', p_user_limit,
                    'scope', v_first.voucher_id::text, 'orders_per_user', p_orders_per_user,
                    'pay_within_s', p_pay_within_s, 'extend_s', p_extend_s, 'ticket', p_ticket, 'work_bits', p_work_bits,
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

-- As in 033_feed.sql, with the scope: a live order of another voucher in it refuses this one.
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
                                    AND live.slot + 0 = p_slot AND live.status IN ('unpaid', 'paid') OFFSET 0)
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
                            AND l.status IN ('unpaid', 'paid') AND l.id <> o.id OFFSET 0) live ON true
      LEFT JOIN LATERAL (SELECT f.id, f.quantity FROM voucher_order f
                          WHERE f.user_id = o.user_id AND f.voucher_id = p_voucher AND f.request_key = o.key
                            AND f.id <> o.id OFFSET 0) first ON true
     ORDER BY o.n;
END
$$;

-- As in 033_feed.sql. Those of vouchers with a scope are placed one by one.
CREATE OR REPLACE FUNCTION place_batches(p_slots integer[], p_vouchers bigint[], p_epochs bigint[], p_counts integer[],
                                         p_ids uuid[], p_users text[], p_journals text[],
                                         p_quantities smallint[] DEFAULT NULL, p_keys text[] DEFAULT NULL,
                                         p_offers integer[] DEFAULT NULL)
RETURNS TABLE (n integer, outcome text, live_id uuid, first_id uuid, created_ms bigint, gone_by text, batch integer)
LANGUAGE plpgsql AS $$
DECLARE
    v_firsts integer[]; -- of each batch, in p_ids
    v_lasts  integer[];
    v_units  integer[] := p_counts;
    v_ready  bigint;
BEGIN
    IF (SELECT count(DISTINCT v) FROM unnest(p_vouchers) AS v) <> cardinality(p_vouchers) THEN
        RAISE EXCEPTION 'place_batches(): two batches of one voucher';
    END IF;
    SELECT array_agg(f.last - f.count + 1 ORDER BY f.i), array_agg(f.last ORDER BY f.i) INTO v_firsts, v_lasts
      FROM (SELECT o.i, o.count, (sum(o.count) OVER (ORDER BY o.i))::integer AS last
              FROM unnest(p_counts) WITH ORDINALITY AS o (count, i)) f;
    IF p_quantities IS NOT NULL THEN
        SELECT array_agg((SELECT sum(q) FROM unnest(p_quantities[v_firsts[i]:v_lasts[i]]) AS q) ORDER BY i) INTO v_units
          FROM generate_subscripts(p_slots, 1) AS i;
    END IF;
    SELECT count(*) FILTER (WHERE locked.ready) INTO v_ready
      FROM (SELECT s.epoch = o.epoch AND s.stock >= o.units AND s.scope IS NULL
                   AND NOT EXISTS (SELECT FROM unnest(p_ids[o.first:o.last]) AS id WHERE id < s.due_after) AS ready
              FROM unnest(p_slots, p_vouchers, p_epochs, v_units, v_firsts, v_lasts)
                   AS o (slot, voucher, epoch, units, first, last)
              JOIN voucher_stock s ON s.voucher_id = o.voucher AND s.slot = o.slot
             ORDER BY s.voucher_id
               FOR UPDATE OF s) locked;

    -- Nearly always all can be placed: then all are, at once.
    IF v_ready = cardinality(p_slots) THEN
        BEGIN
            INSERT INTO voucher_order (id, slot, user_id, voucher_id, quantity, request_key, offer)
            SELECT o.id, p_slots[o.i], o.user_id, p_vouchers[o.i], coalesce(o.quantity, 1), o.key,
                   coalesce(p_offers[o.i], 0)
              FROM (SELECT p.id, p.user_id, p.quantity, p.key, width_bucket(p.k::integer, v_firsts) AS i
                      FROM unnest(p_ids, p_users, p_quantities, p_keys)
                           WITH ORDINALITY AS p (id, user_id, quantity, key, k)) o;
            UPDATE voucher_stock s
               SET stock = s.stock - o.units, live = s.live + o.count,
                   journal_ms = CASE WHEN (o.ms, o.seq) > (s.journal_ms, s.journal_seq) THEN o.ms ELSE s.journal_ms END,
                   journal_seq = CASE WHEN (o.ms, o.seq) > (s.journal_ms, s.journal_seq) THEN o.seq ELSE s.journal_seq END
              FROM (SELECT u.slot, u.voucher, u.count, u.units, journal_number(u.journal, 1) AS ms,
                           journal_number(u.journal, 2) AS seq
                      FROM unnest(p_slots, p_vouchers, p_counts, v_units, p_journals)
                           AS u (slot, voucher, count, units, journal)) o
             WHERE s.voucher_id = o.voucher AND s.slot = o.slot;
            INSERT INTO order_placed (slot, voucher_id, ids)
            SELECT p_slots[i], p_vouchers[i], p_ids[f : least(f + 99, v_lasts[i])]
              FROM generate_subscripts(p_slots, 1) AS i
             CROSS JOIN LATERAL generate_series(v_firsts[i], v_lasts[i], 100) AS f
             ORDER BY i, f;
            RETURN QUERY
            SELECT NULL::integer, 'placed'::text, NULL::uuid, NULL::uuid, unix_ms(now()), NULL::text, i
              FROM generate_subscripts(p_slots, 1) AS i;
            RETURN;
        EXCEPTION WHEN unique_violation THEN -- one by one
        END;
    END IF;
    PERFORM lock_scope(scopes.scope)
       FROM (SELECT DISTINCT s.scope FROM voucher_stock s WHERE s.voucher_id = ANY (p_vouchers) AND s.scope IS NOT NULL
              ORDER BY s.scope) scopes;
    FOR i IN 1 .. cardinality(p_slots) LOOP
        RETURN QUERY SELECT p.n, p.outcome, p.live_id, p.first_id, p.created_ms, p.gone_by, i
                       FROM place_orders(p_slots[i], p_vouchers[i], p_epochs[i], p_ids[v_firsts[i]:v_lasts[i]],
                                         p_users[v_firsts[i]:v_lasts[i]], p_journals[i],
                                         p_quantities[v_firsts[i]:v_lasts[i]], p_keys[v_firsts[i]:v_lasts[i]],
                                         coalesce(p_offers[i], 0)) p;
    END LOOP;
END
$$;

-- As in 013_settlement.sql, in the whole scope.
CREATE OR REPLACE FUNCTION duplicate_orders(p_voucher bigint) RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT count(*) - count(DISTINCT hashtextextended(o.user_id, 0))
      FROM voucher_stock own
      JOIN voucher_stock s ON s.slot = own.slot AND coalesce(s.scope, s.voucher_id) = coalesce(own.scope, own.voucher_id)
      JOIN voucher_order o ON o.slot = s.slot AND o.voucher_id = s.voucher_id
     WHERE own.voucher_id = p_voucher AND o.status IN ('unpaid', 'paid')
$$;

-- As in 009_retire.sql, and a voucher stays as long as another one of its scope may sell.
CREATE OR REPLACE FUNCTION may_retire(p_voucher bigint, p_after_ms bigint) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM seckill_voucher v
                    WHERE v.id = p_voucher AND v.state <> 'retired'
                      AND greatest(v.end_at, v.recalled_at) + p_after_ms * interval '1 ms' <= now())
           AND NOT voucher_is_open(p_voucher) AND NOT scope_is_open(p_voucher)
$$;

CREATE OR REPLACE FUNCTION retire_voucher(p_voucher bigint, p_slot integer, p_epoch bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM seckill_catalogue FOR UPDATE; -- as everything that changes a voucher: before its own row
    PERFORM FROM voucher_stock s WHERE s.voucher_id = p_voucher FOR UPDATE;
    IF NOT EXISTS (SELECT FROM voucher_stock s
                    WHERE s.voucher_id = p_voucher AND s.slot = p_slot AND s.epoch = p_epoch)
       OR voucher_is_open(p_voucher) OR scope_is_open(p_voucher) THEN
        RETURN false;
    END IF;
    UPDATE seckill_voucher v SET state = 'retired'
     WHERE v.id = p_voucher AND v.end_at <= now() AND v.state <> 'retired';
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE voucher_stock s SET epoch = s.epoch + 1, journal_ms = 0, journal_seq = 0 WHERE s.voucher_id = p_voucher;
    RETURN true;
END
$$;

DO $$
DECLARE
    v_function text;
BEGIN
    FOREACH v_function IN ARRAY ARRAY[
        'catalogue_changes(bigint, integer, bigint, boolean)',
        'create_voucher(text, text, bigint, integer, bigint, bigint, smallint, integer, text, text, boolean, smallint,'
        ' text, text, integer, smallint, bigint, bigint)',
        'live_voucher(integer, uuid)',
        'place_orders(integer, bigint, bigint, uuid[], text[], text, smallint[], text[], integer)',
        'place_batches(integer[], bigint[], bigint[], integer[], uuid[], text[], text[], smallint[], text[], integer[])',
        'may_retire(bigint, bigint)', 'retire_voucher(bigint, integer, bigint)'] LOOP
        EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER SET search_path = %I, pg_temp', v_function, current_schema());
    END LOOP;
    REVOKE EXECUTE ON FUNCTION catalogue_changes(bigint, integer, bigint, boolean),
                               create_voucher(text, text, bigint, integer, bigint, bigint, smallint, integer, text, text,
                                              boolean, smallint, text, text, integer, smallint, bigint, bigint),
                               live_voucher(integer, uuid), lock_scope(bigint), scope_is_open(bigint) FROM PUBLIC;
    GRANT EXECUTE ON FUNCTION catalogue_changes(bigint, integer, bigint, boolean) TO seckill_service;
    GRANT EXECUTE ON FUNCTION create_voucher(text, text, bigint, integer, bigint, bigint, smallint, integer, text, text,
                                             boolean, smallint, text, text, integer, smallint, bigint,
                                             bigint) TO seckill_service;
    GRANT EXECUTE ON FUNCTION live_voucher(integer, uuid) TO seckill_service;
END
$$;
