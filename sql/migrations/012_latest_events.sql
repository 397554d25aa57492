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

-- As 011_grants.sql does it for those before.
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION latest_events(integer, integer) SECURITY DEFINER SET search_path = %I, pg_temp',
                   current_schema());
END
$$;
REVOKE EXECUTE ON FUNCTION latest_events(integer, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION latest_events(integer, integer) TO seckill_service;
