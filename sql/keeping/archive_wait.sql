-- No `seckill archive` runs from now on until this session ends; one that does is waited for (archive_next()).
SELECT pg_advisory_lock(hashtext('seckill_archive'))
