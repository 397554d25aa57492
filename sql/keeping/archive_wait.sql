-- Prevents any `seckill archive` until this session ends; waits for one that is running (archive_next()).
SELECT pg_advisory_lock(hashtext('seckill_archive'))
