-- As in 012_waiting.sql, but a move is read once, however long a transaction of anybody stays open. What the old snapshot
-- did not see is of transactions that it names as in progress, or of later ones. Before, all moves since the oldest open
-- transaction began were read and left out, five times a second by each reactor, while one request waited: with 600,000 of
-- them 150 ms, on the link of payments.
CREATE OR REPLACE FUNCTION orders_moved(p_seen text) RETURNS TABLE (seen text, id uuid)
LANGUAGE sql STABLE AS $$
    SELECT pg_current_snapshot()::text, NULL::uuid
     UNION ALL
    (SELECT NULL, e.order_id
       FROM pg_snapshot_xip(p_seen::pg_snapshot) AS was (tx)
      CROSS JOIN LATERAL (SELECT i.order_id FROM order_event i WHERE i.tx = was.tx ORDER BY i.tx, i.seq LIMIT 5001) e
      WHERE pg_visible_in_snapshot(was.tx, pg_current_snapshot()) -- it has ended
      LIMIT 5001)
     UNION ALL
    (SELECT NULL, e.order_id
       FROM order_event e
      WHERE e.tx >= pg_snapshot_xmax(p_seen::pg_snapshot) AND e.tx < pg_snapshot_xmax(pg_current_snapshot())
      ORDER BY e.tx, e.seq
      LIMIT 5001)
$$;

DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION orders_moved(text) SECURITY DEFINER SET search_path = %I, pg_temp', current_schema());
END
$$;
