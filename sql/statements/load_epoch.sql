-- Fences every writer of the voucher that is still in flight.
UPDATE seckill_voucher SET epoch = epoch + 1 WHERE id = $1::bigint RETURNING epoch
