-- How long instances may cache a refusal of a segment, in ms: the most under which it was ever loaded. 0: it never was.
ALTER TABLE seckill_segment ADD COLUMN cache_ms integer NOT NULL DEFAULT 0 CHECK (cache_ms >= 0);

DROP FUNCTION rebuild_epoch(integer, bigint, bigint);

-- Fences every writer of the segment that is still in flight. The new epoch is newer than Redis's too, should that be
-- ahead: of a database that was restored, say. One that is a billion ahead was forged: rebuild_begin.lua overrules it.
-- Journal ids start from the beginning. Refusals may be cached for p_cache_ms from now on, or for longer where that applied
-- before (`cached_ms`): other instances may have such ones, so it never shrinks. No row: there is no such segment, or its
-- voucher is retired.
CREATE FUNCTION rebuild_epoch(p_slot integer, p_voucher bigint, p_seen bigint, p_cache_ms integer)
RETURNS TABLE (epoch bigint, cached_ms integer, cache_ms integer)
LANGUAGE sql AS $$
    WITH before AS (
        SELECT b.voucher_id, b.segment, b.cache_ms
          FROM seckill_segment b
         WHERE b.voucher_id = p_voucher AND b.slot = p_slot
           AND NOT EXISTS (SELECT FROM seckill_voucher v WHERE v.id = p_voucher AND v.state = 'retired')
           FOR UPDATE)
    UPDATE seckill_segment s
       SET epoch = CASE WHEN p_seen <= s.epoch + 1000000000 THEN greatest(s.epoch, p_seen) ELSE s.epoch END + 1,
           journal_ms = 0, journal_seq = 0, cache_ms = greatest(s.cache_ms, p_cache_ms)
      FROM before b
     WHERE s.voucher_id = b.voucher_id AND s.segment = b.segment
    RETURNING s.epoch, b.cache_ms, s.cache_ms
$$;

-- As 011_grants.sql does it for those before.
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION rebuild_epoch(integer, bigint, bigint, integer)'
                   ' SECURITY DEFINER SET search_path = %I, pg_temp', current_schema());
END
$$;
REVOKE EXECUTE ON FUNCTION rebuild_epoch(integer, bigint, bigint, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION rebuild_epoch(integer, bigint, bigint, integer) TO seckill_service;
