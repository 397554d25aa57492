-- Texts in an index compare by their bytes. By the database's own collation, an upgrade of the C library may order them
-- anew (glibc 2.28 moved the hyphen): an index that was built before is then out of order, and ON CONFLICT may miss the
-- row that is there. These three were left. No row is written: their indexes are built anew, which also mends them.
DROP INDEX dead_letter_once;
ALTER TABLE dead_letter ALTER COLUMN journal_id TYPE text COLLATE "C";
CREATE UNIQUE INDEX dead_letter_once ON dead_letter (voucher_id, slot, journal_id, md5(raw) COLLATE "C");

ALTER TABLE archived_orders ALTER COLUMN reason TYPE text COLLATE "C";

ALTER TABLE seckill_voucher ALTER COLUMN state TYPE text COLLATE "C";
