-- One migration at a time, also when several instances start together.
BEGIN;
SELECT pg_advisory_xact_lock(hashtext('seckill_migration'));
SET LOCAL client_min_messages = warning;
CREATE TABLE IF NOT EXISTS seckill_migration (
    name       text PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT now()
);
