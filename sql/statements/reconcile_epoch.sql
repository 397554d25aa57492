-- Fences every writer of the voucher that is still in flight. Journal ids are counted anew.
UPDATE seckill_voucher SET epoch = epoch + 1, journal_ms = 0, journal_seq = 0 WHERE id = $1::bigint RETURNING epoch
