-- Lists in pages. A page is found by the key of the last row of the page before it, never by counting, so rows that come
-- meanwhile move nothing: what was there when a reader began is shown once. Callers ask for one row more than they show:
-- if it comes, there is another page.

-- The newest vouchers of one state (NULL: of all), before p_before (NULL: from the newest). One of the two halves is
-- never run.
CREATE FUNCTION list_vouchers(p_state text, p_before bigint, p_most integer) RETURNS TABLE (id bigint, document json)
LANGUAGE sql STABLE AS $$
    SELECT v.id, voucher_json(v.*)
      FROM ((SELECT * FROM seckill_voucher whole
              WHERE p_state IS NULL AND whole.id < coalesce(p_before, 9223372036854775807)
              ORDER BY whole.id DESC
              LIMIT p_most)
            UNION ALL
            (SELECT * FROM seckill_voucher part
              WHERE part.state = p_state AND part.id < coalesce(p_before, 9223372036854775807)
              ORDER BY part.id DESC
              LIMIT p_most)) v
     ORDER BY v.id DESC
$$;

-- The newest orders of one user before p_before (NULL: from the newest): their ids, and the finished text of each. After
-- them, without a text, those of the orders p_pending, of the vouchers p_vouchers, that are pending: Redis has them and
-- PostgreSQL does not. Both are of one moment, so an order that is settled just now is shown once, and one that is older
-- than the page is not taken for pending.
--
-- Each half is cut to a page before the halves meet: then the ended ones, of which a user may have any number, are read
-- in the order of their index. Of live ones a user has one for each voucher.
CREATE FUNCTION list_orders(p_user text, p_before uuid, p_most integer, p_pending uuid[], p_vouchers bigint[])
RETURNS TABLE (id uuid, document json, voucher_id bigint)
LANGUAGE sql STABLE AS $$
    SELECT l.id, l.document, l.voucher_id
      FROM (SELECT o.id, order_json(o.*) AS document, o.voucher_id
              FROM ((SELECT * FROM voucher_order live
                      WHERE live.user_id = p_user AND live.status IN ('unpaid', 'paid')
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

-- The orders of a voucher, for the admin: of this status, and written in this time (from p_from on, before p_to; NULL:
-- whatever they are). The newest first, before p_before (NULL: from the newest).
--
-- The time narrows the ids that are looked at, with an hour to spare: an id is made before its row is written, by another
-- clock. An order that was written more than an hour after it was granted (a dead letter that was tried again) is
-- found without p_from only.
--
-- A page looks at 10,000 rows at most. If it ends there, its last row has no document: where to go on. So a page may have
-- fewer orders than were asked for, or none, and still not be the last.
CREATE FUNCTION list_all_orders(p_voucher bigint, p_status order_status, p_from timestamptz, p_to timestamptz,
                                p_before uuid, p_most integer)
RETURNS TABLE (id uuid, document json)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    v_first  uuid    := coalesce(uuid_at(p_from - interval '1 h'), '00000000-0000-0000-0000-000000000000');
    v_end    uuid    := coalesce(uuid_at(p_to + interval '1 h'), 'ffffffff-ffff-ffff-ffff-ffffffffffff');
    v_looked integer := 0;
    v_found  integer := 0;
    v_slot   smallint;
    v_order  voucher_order;
BEGIN
    SELECT s.slot INTO v_slot FROM voucher_stock s WHERE s.voucher_id = p_voucher;
    FOR v_order IN
        SELECT o.* FROM voucher_order o
         WHERE o.slot = v_slot AND o.voucher_id = p_voucher AND o.id >= v_first AND o.id < least(p_before, v_end)
         ORDER BY o.id DESC
         LIMIT 10000 LOOP
        v_looked := v_looked + 1;
        id := v_order.id;
        IF (p_status IS NULL OR v_order.status = p_status) AND (p_from IS NULL OR v_order.created_at >= p_from)
           AND (p_to IS NULL OR v_order.created_at < p_to) THEN
            document := order_json(v_order);
            RETURN NEXT;
            v_found := v_found + 1;
            IF v_found = p_most THEN
                RETURN;
            END IF;
        END IF;
        IF v_looked = 10000 THEN
            document := NULL;
            RETURN NEXT;
        END IF;
    END LOOP;
END
$$;

-- The dead letters of a voucher that wait for a decision, from after p_after on: as many as were asked for and fit into
-- an answer of about 2 MB, at least one; the others have no document. 4096 is what dead_letter_json() shows of the raw
-- bytes, in hex; an order's JSON is about twice as long as its text.
CREATE FUNCTION list_dead_letters(p_slot integer, p_voucher bigint, p_after bigint, p_most integer)
RETURNS TABLE (id bigint, document json)
LANGUAGE sql STABLE AS $$
    SELECT (letter).id, CASE WHEN place = 1 OR bytes <= 2000000 THEN dead_letter_json(letter) END
      FROM (SELECT d AS letter, row_number() OVER by_age AS place,
                   sum(300 + 2 * least(octet_length(d.raw), 4096) + 2 * coalesce(octet_length(d.orders), 0))
                       OVER by_age AS bytes
              FROM dead_letter d
             WHERE d.voucher_id = p_voucher AND d.slot = p_slot AND d.ended_at IS NULL AND d.id > p_after
               AND (d.orders IS NULL
                    OR d.id IN (SELECT h.letter FROM held_order h
                                 WHERE h.voucher_id = p_voucher AND h.slot = p_slot))
            WINDOW by_age AS (ORDER BY d.id)
             ORDER BY d.id
             LIMIT p_most) listed
     ORDER BY place
$$;

-- What operators did with a voucher, in the order of (tx, seq), after the row that is named.
CREATE FUNCTION list_admin_events(p_voucher bigint, p_after_tx xid8, p_after_seq bigint, p_most integer)
RETURNS TABLE (tx xid8, seq bigint, document json)
LANGUAGE sql STABLE AS $$
    SELECT e.tx, e.seq, json_strip_nulls(json_build_object(
               'at', rfc3339(e.at), 'by', e.by_whom, 'what', e.what, 'voucher_id', e.voucher_id::text,
               'version', e.change, 'detail', e.detail))
      FROM admin_event e
     WHERE e.voucher_id = p_voucher AND (e.tx, e.seq) > (p_after_tx, p_after_seq)
     ORDER BY e.tx, e.seq
     LIMIT p_most
$$;

-- The feed of what became of orders, after the row that is named: without a gap, and in one order for all readers.
--
-- Transactions commit in another order than they begin, so a reader that took all rows that it sees would pass by those
-- of a transaction that is still open. It takes rows of transactions only that are older than every one that still runs:
-- these have all ended, and a later one gets a higher number. So a transaction that has written something and stays open
-- holds the feed back for as long, wherever on the server it is, also in another database, and a prepared one as
-- well. Nothing is lost by that: the rows come when it has ended. One that only reads holds nothing back.
--
-- The numbers belong to this server and its physical copies. Rows that were restored from a dump on another one carry
-- numbers of the old one: there the transaction counter must be set past them (pg_resetwal --next-transaction-id and
-- --epoch) before the first order moves.
CREATE FUNCTION order_events(p_after_tx xid8, p_after_seq bigint, p_most integer)
RETURNS TABLE (tx xid8, seq bigint, document json)
LANGUAGE sql STABLE AS $$
    SELECT e.tx, e.seq, json_strip_nulls(json_build_object(
               'order_id', e.order_id, 'voucher_id', e.voucher_id::text, 'user_id', o.user_id, 'quantity', o.quantity,
               'status', e.status, 'at', rfc3339(e.at), 'by', e.by_whom, 'why', e.why))
      FROM (SELECT * FROM order_event w
             WHERE (w.tx, w.seq) > (p_after_tx, p_after_seq) AND w.tx < pg_snapshot_xmin(pg_current_snapshot())
             ORDER BY w.tx, w.seq
             LIMIT p_most) e
      LEFT JOIN LATERAL (SELECT own.user_id, own.quantity FROM voucher_order own
                          WHERE own.slot = e.slot AND own.voucher_id = e.voucher_id AND own.id = e.order_id
                         OFFSET 0) o ON true
     ORDER BY e.tx, e.seq
$$;

-- The end of the feed, for those who do not want all of it: order_events() from where p_last rows are left. A reader goes
-- on behind what it gets, as behind any page: what the feed still holds back comes after it.
CREATE FUNCTION latest_events(p_last integer, p_most integer)
RETURNS TABLE (tx xid8, seq bigint, document json)
LANGUAGE sql STABLE AS $$
    SELECT f.tx, f.seq, f.document
      FROM (SELECT) always
      LEFT JOIN (SELECT w.tx, w.seq FROM order_event w
                  WHERE w.tx < pg_snapshot_xmin(pg_current_snapshot())
                  ORDER BY w.tx DESC, w.seq DESC
                 OFFSET p_last LIMIT 1) before ON true
     CROSS JOIN LATERAL order_events(coalesce(before.tx, '0'), coalesce(before.seq, 0), p_most) f
$$;
