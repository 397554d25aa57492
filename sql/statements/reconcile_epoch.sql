-- Fences every writer of the voucher that is still in flight. The new epoch is newer than Redis's too, should
-- that be ahead: of a database that was restored, say. Journal ids are counted anew.
UPDATE seckill_voucher SET epoch = greatest(epoch, $2::bigint) + 1, journal_ms = 0, journal_seq = 0
 WHERE id = $1::bigint
RETURNING epoch
