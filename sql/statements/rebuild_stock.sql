-- A voucher may have been retired while its new epoch waited for the row.
SELECT stock, begin_ms, end_ms, state, buyers, change, offer
  FROM rebuild_stock($1::integer, $2::bigint, $3::bigint) WHERE state <> 'retired'
