-- One migration at a time, also when several instances start together. It waits only a short time for a lock that a
-- sale or a long transaction holds, since all orders would wait behind the migration.
BEGIN;
SELECT pg_advisory_xact_lock(hashtext('seckill_migration'));
SET LOCAL lock_timeout = '3s';
SET LOCAL client_min_messages = warning;
CREATE TABLE IF NOT EXISTS seckill_migration (
    name        text COLLATE "C" PRIMARY KEY,
    applied_at  timestamptz NOT NULL DEFAULT now(),
    text_sha256 bytea -- NULL: applied by a version that did not record it
);
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_attribute
                    WHERE attrelid = 'seckill_migration'::regclass AND attname = 'text_sha256') THEN
        ALTER TABLE seckill_migration ADD COLUMN text_sha256 bytea;
    END IF;
    -- See 030_fixed_order.sql.
    IF NOT EXISTS (SELECT FROM pg_attribute
                    WHERE attrelid = 'seckill_migration'::regclass AND attname = 'name'
                      AND attcollation = '"C"'::regcollation) THEN
        ALTER TABLE seckill_migration ALTER COLUMN name TYPE text COLLATE "C";
    END IF;
END
$$;
