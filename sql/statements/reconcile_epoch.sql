-- Fences every writer of the voucher that is still in flight. The new epoch is newer than Redis's too, should
-- that be ahead: of a database that was restored, say. One that is a billion ahead was forged: reconcile_begin.lua
-- overrules it. Journal ids are counted anew.
UPDATE seckill_voucher
   SET epoch = CASE WHEN $2::bigint <= epoch + 1000000000 THEN greatest(epoch, $2::bigint) ELSE epoch END + 1,
       journal_ms = 0, journal_seq = 0
 WHERE id = $1::bigint
RETURNING epoch
