SELECT newest_change, newest_voucher, change, voucher_id, state, begin_ms, end_ms, tag, slot, user_limit, pay_within_s, ticket,
       work_bits, offer, price_cents, currency, orders_per_user, waitlist
  FROM catalogue_changes($1::bigint, $2::integer, $3::bigint, true)
