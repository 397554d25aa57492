-- Moving the orders of retired vouchers out, part by part, to files that `seckill archive` writes (app/archive.c).
--
-- A part is made into text here (archive_part()), written and synced there, and only then removed here
-- (archive_drop()), if it is still what was written: what has changed in between is read and written again, under the
-- same name. The number of a part is that of those removed before it. So a crash at any step leaves every order here,
-- or in a file that is complete, or in both, and then the next run writes that very file again.
--
-- What stays: the voucher, its stock and number of live orders, what was counted (archived_orders), and the SHA-256 of
-- the files (archived_part).

-- One field of a line of CSV (RFC 4180): NULL is nothing, an empty text is "".
CREATE FUNCTION csv_field(p_value text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_value IS NULL THEN ''
                WHEN p_value = '' OR p_value ~ '[",\r\n]' THEN '"' || replace(p_value, '"', '""') || '"'
                ELSE p_value END
$$;

CREATE FUNCTION csv_time(p_at timestamptz) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT to_char(p_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
$$;

-- Takes the next voucher after p_after whose sale ended p_days days ago or earlier, which is retired, and of which there
-- are orders here, or nothing was moved yet.
--
--   begun  its orders may be moved; from now on it cannot be recalled
--   owed   money that came for one of its orders is to be given back: nothing is moved before that is noted
--
-- No row: there is none.
--
-- The catalogue is locked after the orders are counted: counting a million takes a second, in which no voucher could be
-- created, changed or retired. One that was recalled meanwhile is passed by.
CREATE FUNCTION archive_next(p_after bigint, p_days integer) RETURNS TABLE (voucher_id bigint, outcome text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_id         bigint := p_after;
    v_duplicates bigint;
BEGIN
    PERFORM pg_advisory_lock(hashtext('seckill_archive')); -- of the session: one run after the other
    LOOP
        SELECT v.id INTO v_id FROM seckill_voucher v
         WHERE v.id > v_id AND v.state = 'retired' AND v.end_at <= now() - make_interval(days => p_days)
           AND (NOT EXISTS (SELECT FROM archived_voucher a WHERE a.voucher_id = v.id AND a.ended_at IS NOT NULL)
                OR EXISTS (SELECT FROM voucher_stock s
                            CROSS JOIN LATERAL (SELECT FROM voucher_order o
                                                 WHERE o.slot = s.slot AND o.voucher_id = s.voucher_id
                                                 LIMIT 1 OFFSET 0) own
                            WHERE s.voucher_id = v.id))
         ORDER BY v.id LIMIT 1;
        IF NOT FOUND THEN
            RETURN;
        END IF;
        IF EXISTS (SELECT FROM voucher_stock s
                    CROSS JOIN LATERAL (SELECT FROM voucher_order o
                                         JOIN payment p ON p.order_id = o.id AND p.state = 'to_refund'
                                        WHERE o.slot = s.slot AND o.voucher_id = s.voucher_id
                                          AND o.status NOT IN ('unpaid', 'paid')
                                        LIMIT 1 OFFSET 0) owed
                    WHERE s.voucher_id = v_id) THEN
            RETURN QUERY VALUES (v_id, 'owed');
            RETURN;
        END IF;
        EXIT WHEN EXISTS (SELECT FROM archived_voucher a WHERE a.voucher_id = v_id); -- begun by an earlier run
        v_duplicates := duplicate_orders(v_id);
        PERFORM FROM seckill_catalogue FOR UPDATE; -- as what recalls a voucher
        INSERT INTO archived_voucher (voucher_id, duplicates)
        SELECT v.id, v_duplicates FROM seckill_voucher v WHERE v.id = v_id AND v.state = 'retired';
        IF FOUND THEN
            INSERT INTO admin_event (by_whom, what, voucher_id) VALUES (session_user, 'archiving', v_id);
            EXIT;
        END IF;
    END LOOP;
    RETURN QUERY VALUES (v_id, 'begun');
END
$$;

-- The next part of a voucher: its first p_most orders, with their events and payments, as three files. An
-- order stays as long as money that came for it is to be given back. Locked: nothing of it changes until the transaction
-- ends. No row: nothing is left to be moved.
CREATE FUNCTION archive_lines(p_voucher bigint, p_most integer, p_locked boolean)
RETURNS TABLE (part integer, slot smallint, ids uuid[], orders text, events text, payments text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    slot := (SELECT s.slot FROM voucher_stock s WHERE s.voucher_id = p_voucher);
    ids := ARRAY(SELECT o.id FROM voucher_order o
                  WHERE o.slot = archive_lines.slot AND o.voucher_id = p_voucher
                    AND NOT EXISTS (SELECT FROM payment p
                                     WHERE p.order_id = o.id AND p.state = 'to_refund' OFFSET 0)
                  ORDER BY o.id LIMIT p_most);
    IF ids = '{}' THEN
        RETURN;
    END IF;
    IF p_locked THEN
        PERFORM FROM voucher_order o
          WHERE o.slot = archive_lines.slot AND o.voucher_id = p_voucher AND o.id = ANY (ids) ORDER BY o.id FOR UPDATE;
    END IF;
    part := (SELECT count(*) + 1 FROM archived_part a WHERE a.voucher_id = p_voucher);
    SELECT E'id,slot,voucher_id,user_id,quantity,status,reason,created_at,updated_at,request_key,offer,price_cents,currency\n' ||
           coalesce(string_agg(concat_ws(',', o.id, o.slot, o.voucher_id, csv_field(o.user_id), o.quantity, o.status,
                                         csv_field(o.reason), csv_time(o.created_at), csv_time(o.updated_at),
                                         csv_field(o.request_key), o.offer, coalesce(f.price_cents::text, ''),
                                         csv_field(f.currency)) || E'\n', '' ORDER BY o.id), '')
      INTO orders
      FROM unnest(ids) AS moved (id)
     CROSS JOIN LATERAL (SELECT * FROM voucher_order w
                          WHERE w.slot = archive_lines.slot AND w.voucher_id = p_voucher AND w.id = moved.id
                         OFFSET 0) o
      LEFT JOIN LATERAL order_offer(p_voucher, o.offer) f ON true;
    SELECT E'tx,seq,order_id,voucher_id,at,status,by,why,journal\n' ||
           coalesce(string_agg(concat_ws(',', e.tx, e.seq, e.order_id, e.voucher_id, csv_time(e.at), e.status,
                                         csv_field(e.by_whom), csv_field(e.why), csv_field(e.journal)) || E'\n', '' ORDER BY e.tx, e.seq), '')
      INTO events
      FROM unnest(ids) AS moved (id)
     CROSS JOIN LATERAL (SELECT * FROM order_event w
                          WHERE w.order_id = moved.id AND w.slot = archive_lines.slot AND w.voucher_id = p_voucher
                         OFFSET 0) e;
    SELECT E'reference,order_id,voucher_id,amount_cents,currency,state,by,at\n' ||
           coalesce(string_agg(concat_ws(',', csv_field(p.reference), p.order_id, p.voucher_id, p.amount_cents, p.currency,
                                         p.state, csv_field(p.by_whom), csv_time(p.at)) || E'\n', ''
                               ORDER BY p.order_id, p.reference), '')
      INTO payments
      FROM unnest(ids) AS moved (id)
     CROSS JOIN LATERAL (SELECT * FROM payment w
                          WHERE w.order_id = moved.id AND w.slot = archive_lines.slot AND w.voucher_id = p_voucher
                         OFFSET 0) p;
    RETURN NEXT;
END
$$;

-- What is to be written next; `digest` names it to archive_drop(). No row: nothing is left, and archive_end() closes it.
CREATE FUNCTION archive_part(p_voucher bigint, p_most integer)
RETURNS TABLE (part integer, orders text, events text, payments text, digest text)
LANGUAGE sql AS $$
    SELECT l.part, l.orders, l.events, l.payments,
           encode(sha256(convert_to(l.orders || l.events || l.payments, 'UTF8')), 'hex')
      FROM archive_lines(p_voucher, p_most, false) l
$$;

-- Removes what has been written, and counts it. False: it is not the same any more.
CREATE FUNCTION archive_drop(p_voucher bigint, p_part integer, p_most integer, p_digest text) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_part     record;
    v_orders   integer;
    v_events   integer;
    v_payments integer;
BEGIN
    IF NOT EXISTS (SELECT FROM archived_voucher a WHERE a.voucher_id = p_voucher) THEN
        RETURN false;
    END IF;
    SELECT * INTO v_part FROM archive_lines(p_voucher, p_most, true);
    IF NOT FOUND OR v_part.part <> p_part
       OR encode(sha256(convert_to(v_part.orders || v_part.events || v_part.payments, 'UTF8')), 'hex') <> p_digest THEN
        RETURN false;
    END IF;
    DELETE FROM order_event e WHERE e.order_id = ANY (v_part.ids) AND e.slot = v_part.slot AND e.voucher_id = p_voucher;
    GET DIAGNOSTICS v_events = ROW_COUNT;
    DELETE FROM payment p WHERE p.order_id = ANY (v_part.ids) AND p.slot = v_part.slot AND p.voucher_id = p_voucher;
    GET DIAGNOSTICS v_payments = ROW_COUNT;
    WITH moved AS (
        DELETE FROM voucher_order o
         WHERE o.slot = v_part.slot AND o.voucher_id = p_voucher AND o.id = ANY (v_part.ids)
        RETURNING o.id, o.status, o.reason, o.offer, o.quantity)
    INSERT INTO archived_orders AS a (slot, voucher_id, status, reason, offer, orders, units, first_id, last_id)
    SELECT v_part.slot, p_voucher, m.status, coalesce(m.reason, ''), m.offer, count(*), sum(m.quantity), min(m.id::text)::uuid,
           max(m.id::text)::uuid
      FROM moved m
     GROUP BY m.status, coalesce(m.reason, ''), m.offer
    ON CONFLICT (slot, voucher_id, status, reason, offer) DO UPDATE
       SET orders = a.orders + EXCLUDED.orders, units = a.units + EXCLUDED.units,
           first_id = least(a.first_id, EXCLUDED.first_id), last_id = greatest(a.last_id, EXCLUDED.last_id);
    v_orders := cardinality(v_part.ids);
    INSERT INTO archived_part (voucher_id, part, orders, events, payments, orders_sha256, events_sha256, payments_sha256)
    VALUES (p_voucher, p_part, v_orders, v_events, v_payments, sha256(convert_to(v_part.orders, 'UTF8')),
            sha256(convert_to(v_part.events, 'UTF8')), sha256(convert_to(v_part.payments, 'UTF8')));
    RETURN true;
END
$$;

-- Notes that all orders of a voucher are moved; what comes later (a refused order that an instance still held) is
-- moved by the next run. Returns how much was moved in all.
CREATE FUNCTION archive_end(p_voucher bigint) RETURNS TABLE (parts bigint, orders bigint, events bigint, payments bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    SELECT count(*), coalesce(sum(a.orders), 0), coalesce(sum(a.events), 0), coalesce(sum(a.payments), 0)
      INTO parts, orders, events, payments
      FROM archived_part a WHERE a.voucher_id = p_voucher;
    UPDATE archived_voucher a SET ended_at = now() WHERE a.voucher_id = p_voucher;
    INSERT INTO admin_event (by_whom, what, voucher_id, detail)
    VALUES (session_user, 'archived', p_voucher,
            jsonb_build_object('parts', parts, 'orders', orders, 'events', events, 'payments', payments));
    RETURN NEXT;
END
$$;
