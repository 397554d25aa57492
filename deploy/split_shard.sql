-- Makes a database shard `number` of `shards`: removes the vouchers whose slots belong to other shards, with all that
-- belongs to them. To split a shard, copy its server (a base backup), and run this on every shard while no instance
-- runs: on those that are not split it removes nothing. docs/scale.md has all steps.
--
--   psql -v number=1 -v shards=2 -f split_shard.sql DATABASE      as the owner of the tables
--
-- It is one transaction, and may be repeated.
\set ON_ERROR_STOP on
BEGIN;
LOCK TABLE seckill_shard; -- an instance that connects now waits, and then finds another number than it expects
SELECT set_config('split.number', :'number', true), set_config('split.shards', :'shards', true) \gset
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_stat_activity
                WHERE datname = current_database() AND application_name LIKE 'seckill-%') THEN
        RAISE EXCEPTION 'instances are connected: drain them first';
    END IF;
    -- A shard may only be divided: what another one has is not here.
    IF EXISTS (SELECT FROM seckill_shard s
                WHERE current_setting('split.shards')::integer < s.shards
                   OR s.number NOT IN (current_setting('split.number')::integer,
                                       shard_of_slot(current_setting('split.number')::integer, s.shards))) THEN
        RAISE EXCEPTION 'this database is shard % and cannot become shard % of %',
            (SELECT s.number || ' of ' || s.shards FROM seckill_shard s), current_setting('split.number'),
            current_setting('split.shards');
    END IF;
END
$$;
UPDATE seckill_shard SET number = :number, shards = :shards;
TRUNCATE shard_seen;
CREATE TEMPORARY TABLE leaving ON COMMIT DROP AS
    SELECT voucher_id, slot FROM voucher_stock WHERE shard_of_slot(slot, :shards) <> :number;
DELETE FROM voucher_order o USING leaving l WHERE o.slot = l.slot AND o.voucher_id = l.voucher_id;
DELETE FROM order_event e USING leaving l WHERE e.voucher_id = l.voucher_id;
DELETE FROM payment p USING leaving l WHERE p.voucher_id = l.voucher_id;
DELETE FROM dead_letter d USING leaving l WHERE d.voucher_id = l.voucher_id;
DELETE FROM archived_orders a USING leaving l WHERE a.voucher_id = l.voucher_id;
DELETE FROM archived_part a USING leaving l WHERE a.voucher_id = l.voucher_id;
DELETE FROM archived_voucher a USING leaving l WHERE a.voucher_id = l.voucher_id;
DELETE FROM admin_event e USING leaving l WHERE e.voucher_id = l.voucher_id;
DELETE FROM stock_change c USING leaving l WHERE c.voucher_id = l.voucher_id;
DELETE FROM seckill_offer o USING leaving l WHERE o.voucher_id = l.voucher_id;
DELETE FROM seckill_voucher v USING leaving l WHERE v.id = l.voucher_id; -- and its row of voucher_stock
SELECT count(*) AS vouchers_kept FROM seckill_voucher;
COMMIT;
