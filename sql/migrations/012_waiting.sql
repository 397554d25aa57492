-- What requests that wait for an order's next change ask, all of a reactor's together.

-- The orders that have moved since the snapshot p_seen was taken, in rows of their own behind the one that names the
-- snapshot of this answer. A move is told to each reader once, as soon as it is committed: what the old snapshot did not
-- see, the new one does. Nothing is held back by a transaction that runs long; until it ends, the rows of the moves
-- since its beginning are looked at again and left out. More rows than 5,000: the reader asks for its orders one by one.
CREATE FUNCTION orders_moved(p_seen text) RETURNS TABLE (seen text, id uuid)
LANGUAGE sql STABLE AS $$
    SELECT pg_current_snapshot()::text, NULL::uuid
     UNION ALL
    (SELECT NULL, e.order_id
       FROM order_event e
      WHERE e.tx >= pg_snapshot_xmin(p_seen::pg_snapshot)
        AND NOT pg_visible_in_snapshot(e.tx, p_seen::pg_snapshot)
      ORDER BY e.tx, e.seq
      LIMIT 5001)
$$;

-- Which of these orders are rows whose status is not the one that is known, and what their users may see of them; who has
-- no name, as an admin has none, may see all.
CREATE FUNCTION orders_changed(p_slots integer[], p_ids uuid[], p_users text[], p_known text[])
RETURNS TABLE (n integer, document json)
LANGUAGE sql STABLE AS $$
    SELECT w.n::integer,
           CASE WHEN w.user_id = '' THEN (SELECT f FROM find_any_order(w.slot, w.id) AS f)
                ELSE (SELECT f FROM find_order(w.slot, w.id, w.user_id) AS f) END
      FROM unnest(p_slots, p_ids, p_users, p_known) WITH ORDINALITY AS w (slot, id, user_id, known, n)
     WHERE EXISTS (SELECT FROM voucher_stock s
                     JOIN voucher_order o ON o.slot = s.slot AND o.voucher_id = s.voucher_id AND o.id = w.id
                    WHERE s.slot = w.slot AND o.status::text <> w.known)
$$;
