-- What became of a voucher's units and orders: the account that is shown when a sale is over.

-- Live orders beyond the first of their user.
CREATE FUNCTION duplicate_orders(p_voucher bigint) RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT count(*) - count(DISTINCT hashtextextended(o.user_id, 0))
      FROM voucher_stock s
      JOIN voucher_order o ON o.slot = s.slot AND o.voucher_id = s.voucher_id
     WHERE s.voucher_id = p_voucher AND o.status IN ('unpaid', 'paid')
$$;

-- All of one moment, and counted: nothing is taken from a counter but the stock and `live_counted`, which are to be held
-- against what was counted; orders that were moved out to files were counted then. A sum of nothing is NULL. No row:
-- there is no such voucher.
--
-- `units` are those of now: what was added is among them, what was taken away is not. `refused` is 'REASON orders
-- units,REASON orders units,...'. `prices` is one such entry for each price that live orders have, the price of each
-- order's offer: 'CURRENCY cents orders units paid_orders paid_units,...'. `letters`: those that wait for a decision;
-- they hold `held_...`. `duplicates`: live orders beyond the first of their user. They are told by a hash of 64 bits:
-- sorting users by name takes five times as long, and of a million users two have the same hash once in 40 million
-- counts.
CREATE FUNCTION settlement(p_voucher bigint)
RETURNS TABLE (state text, refused text, prices text, at_ms bigint, begin_ms bigint, end_ms bigint, pay_within_s integer,
               units bigint, added bigint, taken_away bigint, stock bigint, live_counted bigint,
               unpaid_orders bigint, unpaid_units bigint, paid_orders bigint, paid_units bigint,
               cancelled_orders bigint, cancelled_units bigint, expired_orders bigint, expired_units bigint,
               restocked_orders bigint, restocked_units bigint, kept_orders bigint, kept_units bigint,
               refused_orders bigint, refused_units bigint, letters bigint, held_orders bigint, held_units bigint,
               duplicates bigint)
LANGUAGE sql STABLE AS $$
    WITH counted AS MATERIALIZED (
        SELECT o.status, o.reason, o.offer, count(*) AS orders, sum(o.quantity) AS units
          FROM voucher_stock s
          JOIN voucher_order o ON o.slot = s.slot AND o.voucher_id = s.voucher_id
         WHERE s.voucher_id = p_voucher
         GROUP BY o.status, o.reason, o.offer
         UNION ALL
        SELECT a.status, nullif(a.reason, ''), a.offer, a.orders, a.units
          FROM archived_orders a
         WHERE a.voucher_id = p_voucher),
    held AS MATERIALIZED (
        SELECT h.letter, h.quantity
          FROM held_order h
         WHERE h.voucher_id = p_voucher)
    SELECT v.state, refused.reasons, priced.prices,
           unix_ms(now()), unix_ms(v.begin_at), unix_ms(v.end_at), v.pay_within_s,
           s.units, changes.added, changes.taken_away, s.stock, s.live,
           o.unpaid_orders, o.unpaid_units, o.paid_orders, o.paid_units,
           o.cancelled_orders, o.cancelled_units, o.expired_orders, o.expired_units,
           o.restocked_orders, o.restocked_units, o.kept_orders, o.kept_units,
           o.refused_orders, o.refused_units, letters.open, held_now.orders, held_now.units, second.orders
      FROM seckill_voucher v
      JOIN voucher_stock s ON s.voucher_id = v.id
     CROSS JOIN LATERAL (SELECT sum(c.units) FILTER (WHERE c.units > 0) AS added,
                                -sum(c.units) FILTER (WHERE c.units < 0) AS taken_away
                           FROM stock_change c WHERE c.voucher_id = v.id) changes
     CROSS JOIN (SELECT sum(c.orders) FILTER (WHERE c.status = 'unpaid') AS unpaid_orders,
                        sum(c.units) FILTER (WHERE c.status = 'unpaid') AS unpaid_units,
                        sum(c.orders) FILTER (WHERE c.status = 'paid') AS paid_orders,
                        sum(c.units) FILTER (WHERE c.status = 'paid') AS paid_units,
                        sum(c.orders) FILTER (WHERE c.status = 'cancelled') AS cancelled_orders,
                        sum(c.units) FILTER (WHERE c.status = 'cancelled') AS cancelled_units,
                        sum(c.orders) FILTER (WHERE c.status = 'expired') AS expired_orders,
                        sum(c.units) FILTER (WHERE c.status = 'expired') AS expired_units,
                        sum(c.orders) FILTER (WHERE c.status = 'refunded' AND c.reason = 'RESTOCKED') AS restocked_orders,
                        sum(c.units) FILTER (WHERE c.status = 'refunded' AND c.reason = 'RESTOCKED') AS restocked_units,
                        sum(c.orders) FILTER (WHERE c.status = 'refunded' AND c.reason <> 'RESTOCKED') AS kept_orders,
                        sum(c.units) FILTER (WHERE c.status = 'refunded' AND c.reason <> 'RESTOCKED') AS kept_units,
                        sum(c.orders) FILTER (WHERE c.status = 'refused') AS refused_orders,
                        sum(c.units) FILTER (WHERE c.status = 'refused') AS refused_units
                   FROM counted c) o
     CROSS JOIN (SELECT string_agg(concat_ws(' ', r.reason, r.orders, r.units), ',' ORDER BY r.reason) AS reasons
                   FROM (SELECT CASE WHEN c.reason ~ '^[A-Z_]{1,40}$' THEN c.reason ELSE 'OTHER' END AS reason,
                                sum(c.orders) AS orders, sum(c.units) AS units
                           FROM counted c
                          WHERE c.status = 'refused'
                          GROUP BY 1) r) refused
     CROSS JOIN (SELECT string_agg(concat_ws(' ', p.currency, p.price_cents, p.orders, p.units, p.paid_orders, p.paid_units),
                                   ',' ORDER BY p.currency, p.price_cents) AS prices
                   FROM (SELECT f.currency, f.price_cents, sum(c.orders) AS orders, sum(c.units) AS units,
                                coalesce(sum(c.orders) FILTER (WHERE c.status = 'paid'), 0) AS paid_orders,
                                coalesce(sum(c.units) FILTER (WHERE c.status = 'paid'), 0) AS paid_units
                           FROM counted c
                          CROSS JOIN LATERAL order_offer(p_voucher, c.offer) f
                          WHERE c.status IN ('unpaid', 'paid')
                          GROUP BY f.currency, f.price_cents) p) priced
     CROSS JOIN (SELECT count(*) AS orders, sum(h.quantity) AS units FROM held h) held_now
     CROSS JOIN (SELECT count(*) AS open
                   FROM dead_letter d
                  WHERE d.voucher_id = p_voucher AND d.ended_at IS NULL
                    AND (d.orders IS NULL OR d.id IN (SELECT h.letter FROM held h))) letters
     CROSS JOIN (SELECT coalesce((SELECT a.duplicates FROM archived_voucher a WHERE a.voucher_id = p_voucher),
                                 duplicate_orders(p_voucher)) AS orders) second
     WHERE v.id = p_voucher
$$;

-- What Redis must have of a voucher, for the settlement report: what voucher_accounts() returns, which the audit compares
-- and a rebuild opens with. So the report and the audit never judge differently.
CREATE FUNCTION settlement_account(p_voucher bigint) RETURNS TABLE (account_stock bigint, account_buyers bigint)
LANGUAGE sql STABLE AS $$
    SELECT a.stock, a.buyers
      FROM voucher_stock s
     CROSS JOIN LATERAL voucher_accounts(ARRAY[s.slot::integer], ARRAY[s.voucher_id]) a
     WHERE s.voucher_id = p_voucher
$$;
