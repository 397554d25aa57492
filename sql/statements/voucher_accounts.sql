SELECT slot, voucher_id, epoch, journal_ms, journal_seq, stock, buyers, change, state, begin_ms, end_ms, letters, offer,
       phase, waiting
  FROM voucher_accounts($1::integer[], $2::bigint[])
