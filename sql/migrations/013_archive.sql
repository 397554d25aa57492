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
                OR EXISTS (SELECT FROM seckill_segment s
                            CROSS JOIN LATERAL (SELECT FROM voucher_order o
                                                 WHERE o.slot = s.slot AND o.voucher_id = s.voucher_id
                                                 LIMIT 1 OFFSET 0) own
                            WHERE s.voucher_id = v.id))
         ORDER BY v.id LIMIT 1;
        IF NOT FOUND THEN
            RETURN;
        END IF;
        IF EXISTS (SELECT FROM seckill_segment s
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

-- As in 011_grants.sql.
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION archive_next(bigint, integer) SECURITY DEFINER SET search_path = %I, pg_temp',
                   current_schema());
END
$$;
