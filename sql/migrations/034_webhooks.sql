-- How far each receiver of `seckill webhooks` (src/webhooks) is in this shard's feed. The cursor lies beside the events, so
-- that both fail over together, and come back together from an older copy. There is no queue, and no state of single
-- events: what stands behind the cursor is to be sent.
CREATE TABLE webhook_receiver (
    name      text COLLATE "C" PRIMARY KEY CHECK (name ~ '^[A-Za-z0-9_.-]{1,64}$'),
    tx        xid8        NOT NULL, -- it has taken all events up to this one
    seq       bigint      NOT NULL,
    state     text        NOT NULL DEFAULT 'sending' CHECK (state IN ('sending', 'failing', 'stopped')),
    since     timestamptz NOT NULL DEFAULT now(), -- it has this state
    tries     integer     NOT NULL DEFAULT 0,     -- of the page that it does not take
    why       text,                               -- it does not
    unsent_at timestamptz,                        -- when the first event of that page happened
    page_tx   xid8,                               -- its last event
    page_seq  bigint,
    page_id   text,
    CHECK (num_nonnulls(why, unsent_at, page_tx, page_seq, page_id) = CASE WHEN state = 'sending' THEN 0 ELSE 5 END)
);

-- Takes the receiver for this session, until it ends: two processes never send to it at the same time. `taken` false:
-- another session has it. A receiver that is new begins with the first event of all (p_from 'first'), or after those of
-- now. The session's commits do not wait for the disk: a cursor that is lost is one page that comes again.
CREATE FUNCTION webhook_begin(p_name text, p_from text)
RETURNS TABLE (taken boolean, tx text, seq bigint, state text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('synchronous_commit', 'off', false);
    taken := pg_try_advisory_lock(hashtextextended('seckill webhook ' || p_name, 0));
    IF taken THEN
        INSERT INTO webhook_receiver (name, tx, seq)
        VALUES (p_name, CASE WHEN p_from = 'first' THEN '0' ELSE pg_snapshot_xmin(pg_current_snapshot()) END, -1)
        ON CONFLICT DO NOTHING;
        SELECT r.tx, r.seq, r.state INTO tx, seq, state FROM webhook_receiver r WHERE r.name = p_name;
    END IF;
    RETURN NEXT;
END
$$;

-- It has taken the events after one up to another. False: an operator has moved its cursor meanwhile, or removed it.
CREATE FUNCTION webhook_took(p_name text, p_tx xid8, p_seq bigint, p_to_tx xid8, p_to_seq bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE webhook_receiver r
       SET tx = p_to_tx, seq = p_to_seq, state = 'sending', tries = 0, why = NULL, unsent_at = NULL, page_tx = NULL,
           page_seq = NULL, page_id = NULL, since = CASE WHEN r.state = 'sending' THEN r.since ELSE now() END
     WHERE r.name = p_name AND r.tx = p_tx AND r.seq = p_seq;
    RETURN FOUND;
END
$$;

-- It has not taken the page after an event, which ends with p_page: 'failing' or 'stopped'. False: as above.
CREATE FUNCTION webhook_failed(p_name text, p_tx xid8, p_seq bigint, p_state text, p_why text, p_unsent_at timestamptz,
                               p_page_tx xid8, p_page_seq bigint, p_page_id text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE webhook_receiver r
       SET state = p_state, tries = r.tries + 1, why = p_why, unsent_at = p_unsent_at, page_tx = p_page_tx,
           page_seq = p_page_seq, page_id = p_page_id, since = CASE WHEN r.state = p_state THEN r.since ELSE now() END
     WHERE r.name = p_name AND r.tx = p_tx AND r.seq = p_seq;
    RETURN FOUND;
END
$$;

-- Where it is, for a process that waits before the next try. No row: an operator has removed it.
CREATE FUNCTION webhook_find(p_name text) RETURNS TABLE (tx text, seq bigint, state text)
LANGUAGE sql STABLE AS $$
    SELECT r.tx::text, r.seq, r.state FROM webhook_receiver r WHERE r.name = p_name
$$;

-- What an operator does: 'skip' passes over the page that it did not take, and over no later event; 'resume' tries at
-- once, also if it has stopped; 'forget' removes it. False: there is nothing to do: it takes what is sent, or is not known.
CREATE FUNCTION webhook_operate(p_name text, p_what text) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_was webhook_receiver;
BEGIN
    SELECT * INTO v_was FROM webhook_receiver r
     WHERE r.name = p_name AND (p_what = 'forget' OR r.state <> 'sending') FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF p_what = 'forget' THEN
        DELETE FROM webhook_receiver r WHERE r.name = p_name;
    ELSE
        UPDATE webhook_receiver r
           SET tx = CASE WHEN p_what = 'skip' THEN v_was.page_tx ELSE r.tx END,
               seq = CASE WHEN p_what = 'skip' THEN v_was.page_seq ELSE r.seq END,
               state = 'sending', since = now(), tries = 0, why = NULL, unsent_at = NULL, page_tx = NULL,
               page_seq = NULL, page_id = NULL
         WHERE r.name = p_name;
    END IF;
    INSERT INTO admin_event (by_whom, what, voucher_id, detail)
    VALUES (session_user, 'webhook_' || p_what, 0,
            jsonb_strip_nulls(jsonb_build_object('receiver', p_name, 'page_id', v_was.page_id, 'why', v_was.why)));
    RETURN true;
END
$$;

-- All receivers, with the time of the oldest event that is still to be sent. The document is for operators, with what one
-- of them did last.
CREATE FUNCTION webhook_receivers()
RETURNS TABLE (name text, state text, tries integer, unsent_ms bigint, document json)
LANGUAGE sql STABLE AS $$
    SELECT r.name, r.state, r.tries, unix_ms(unsent.at),
           json_strip_nulls(json_build_object(
               'name', r.name, 'state', r.state, 'since', rfc3339(r.since), 'tries', r.tries, 'why', r.why,
               'unsent_since', rfc3339(unsent.at), 'operated', operated.document))
      FROM webhook_receiver r
     CROSS JOIN LATERAL (SELECT coalesce(r.unsent_at, (SELECT (e.document->>'at')::timestamptz
                                                         FROM order_events(r.tx, r.seq, 1) e)) AS at) unsent
      LEFT JOIN LATERAL (SELECT json_build_object('what', substr(a.what, 9), 'by', a.by_whom, 'at', rfc3339(a.at)) AS document
                           FROM admin_event a
                          WHERE a.voucher_id = 0 AND a.detail->>'receiver' = r.name
                          ORDER BY a.tx DESC, a.seq DESC LIMIT 1) operated ON true
     ORDER BY r.name
$$;

-- Whether a receiver has still to be sent an event of this voucher: then its orders stay where the events are.
CREATE FUNCTION webhook_waits_for(p_voucher bigint) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM webhook_receiver r
                    WHERE EXISTS (SELECT FROM order_event e
                                   WHERE (e.tx, e.seq) > (r.tx, r.seq) AND e.voucher_id = p_voucher)
                       OR EXISTS (SELECT FROM order_placed p
                                   WHERE (p.tx, p.seq + cardinality(p.ids) - 1) > (r.tx, r.seq)
                                     AND p.voucher_id = p_voucher))
$$;

-- As in 031_paid_twice.sql, and a voucher whose events a receiver lacks stays: the outcome is 'unsent'.
CREATE OR REPLACE FUNCTION archive_next(p_after bigint, p_days integer) RETURNS TABLE (voucher_id bigint, outcome text)
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
        IF EXISTS (SELECT FROM payment p WHERE p.state = 'to_refund' AND p.voucher_id = v_id) THEN
            RETURN QUERY VALUES (v_id, 'owed');
            RETURN;
        END IF;
        IF webhook_waits_for(v_id) THEN
            RETURN QUERY VALUES (v_id, 'unsent');
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

DO $$
DECLARE
    v_function text;
BEGIN
    FOREACH v_function IN ARRAY ARRAY[
        'webhook_begin(text, text)', 'webhook_took(text, xid8, bigint, xid8, bigint)',
        'webhook_failed(text, xid8, bigint, text, text, timestamptz, xid8, bigint, text)', 'webhook_find(text)',
        'webhook_operate(text, text)', 'webhook_receivers()', 'archive_next(bigint, integer)'] LOOP
        EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER SET search_path = %I, pg_temp', v_function, current_schema());
    END LOOP;
    REVOKE EXECUTE ON FUNCTION webhook_begin(text, text), webhook_took(text, xid8, bigint, xid8, bigint),
                               webhook_failed(text, xid8, bigint, text, text, timestamptz, xid8, bigint, text),
                               webhook_find(text), webhook_operate(text, text), webhook_receivers(),
                               webhook_waits_for(bigint) FROM PUBLIC;
    GRANT EXECUTE ON FUNCTION webhook_begin(text, text) TO seckill_service;
    GRANT EXECUTE ON FUNCTION webhook_took(text, xid8, bigint, xid8, bigint) TO seckill_service;
    GRANT EXECUTE ON FUNCTION webhook_failed(text, xid8, bigint, text, text, timestamptz, xid8, bigint, text) TO seckill_service;
    GRANT EXECUTE ON FUNCTION webhook_find(text) TO seckill_service;
    GRANT EXECUTE ON FUNCTION webhook_operate(text, text) TO seckill_service;
    GRANT EXECUTE ON FUNCTION webhook_receivers() TO seckill_service;
END
$$;
