-- What PostgreSQL's rows say of each other, at any moment between two transactions: each row that this returns is a
-- fault. The simulation asks after each statement, the fault suite and the soak at the end of each round.
WITH sold AS (
    SELECT o.voucher_id, count(*) FILTER (WHERE o.status IN ('unpaid', 'paid')) AS live,
           coalesce(sum(o.quantity) FILTER (WHERE o.status IN ('unpaid', 'paid')), 0) AS units,
           coalesce(sum(o.quantity) FILTER (WHERE o.status = 'refunded' AND o.reason = 'KEPT'), 0) AS kept
      FROM voucher_order o
     GROUP BY o.voucher_id
), books AS (
    SELECT s.voucher_id AS id, s.units, s.stock, s.live AS counted, coalesce(o.live, 0) AS live,
           coalesce(o.units, 0) AS sold, coalesce(o.kept, 0) AS kept
      FROM voucher_stock s
      LEFT JOIN sold o USING (voucher_id)
)
SELECT 'P1: of voucher ' || id || ' ' || sold || ' units are sold and ' || kept || ' kept, of ' || units AS wrong
  FROM books
 WHERE sold + kept > units OR stock < 0
UNION ALL
SELECT 'voucher ' || id || ' has ' || stock || ' in stock, with ' || sold || ' sold and ' || kept || ' kept of ' || units
  FROM books
 WHERE stock <> units - sold - kept
UNION ALL
SELECT 'voucher ' || id || ' has counted ' || counted || ' live orders of ' || live
  FROM books
 WHERE counted <> live
UNION ALL
SELECT 'P2: ' || o.user_id || ' has ' || count(*) || ' orders in the scope of voucher ' || min(o.voucher_id)
  FROM voucher_order o
  JOIN voucher_stock s USING (voucher_id)
 WHERE o.status IN ('waiting', 'unpaid', 'paid')
 GROUP BY coalesce(s.scope, s.voucher_id), o.user_id
HAVING count(*) > 1
UNION ALL
SELECT 'voucher ' || s.voucher_id || ' has counted ' || s.waiting || ' orders that wait of ' || count(o.id)
  FROM voucher_stock s
  LEFT JOIN voucher_order o ON o.voucher_id = s.voucher_id AND o.status = 'waiting'
 GROUP BY s.voucher_id
HAVING s.waiting <> count(o.id)
UNION ALL
SELECT 'order ' || o.id || ' waits in voucher ' || v.id || ', which is retired'
  FROM voucher_order o
  JOIN seckill_voucher v ON v.id = o.voucher_id
 WHERE o.status = 'waiting' AND v.state = 'retired'
UNION ALL
SELECT 'order ' || o.id || ' has ' || o.quantity || ' units, is ' || o.status || ', and has passed on ' || count(h.id)
  FROM voucher_order h
  JOIN voucher_order o ON o.slot = h.slot AND o.voucher_id = h.voucher_id AND o.id = h.heir_of
 GROUP BY o.id, o.quantity, o.status, o.reason
HAVING count(h.id) > o.quantity OR o.status NOT IN ('cancelled', 'expired', 'refunded') OR o.reason IN ('KEPT', 'LEFT')
UNION ALL
SELECT user_id || ' has ' || count(*) || ' orders of voucher ' || voucher_id || ' under one key'
  FROM voucher_order
 WHERE request_key IS NOT NULL
 GROUP BY voucher_id, user_id, request_key
HAVING count(*) > 1
UNION ALL
SELECT user_id || ' has ' || count(*) || ' orders of voucher ' || voucher_id || ' that ended as number ' || ended_nth
  FROM voucher_order
 WHERE ended_nth IS NOT NULL
 GROUP BY voucher_id, user_id, ended_nth
HAVING count(*) > 1
UNION ALL
SELECT 'order ' || o.id || ' is ' || o.status || ', its last event: ' || coalesce(e.status::text, 'none')
  FROM voucher_order o
  LEFT JOIN LATERAL (SELECT m.status FROM order_event m
                      WHERE m.order_id = o.id AND coalesce(m.type, 'moved') = 'moved'
                      ORDER BY m.seq DESC LIMIT 1) e ON true
 WHERE o.status NOT IN ('waiting', 'unpaid', 'refused') AND e.status IS DISTINCT FROM o.status
UNION ALL
SELECT 'order ' || o.id || ' is ' || o.status || ', and the feed has ' || coalesce(p.times, 0) || ' events of its placement'
  FROM voucher_order o
  LEFT JOIN (SELECT id, count(*) AS times, bool_and(joined) AS joined FROM order_placed, unnest(ids) AS id GROUP BY id) p
         USING (id)
 WHERE coalesce(p.times, 0) <> (CASE WHEN o.status = 'refused' AND p.joined IS NOT TRUE THEN 0 ELSE 1 END)
   AND NOT EXISTS (SELECT FROM archived_voucher a WHERE a.voucher_id = o.voucher_id)
UNION ALL
SELECT 'order ' || o.id || ' is refused, and the feed has ' || count(e.seq) || ' events of that'
  FROM voucher_order o
  LEFT JOIN order_event e ON e.order_id = o.id AND e.type = 'moved' AND e.status = 'refused'
 WHERE o.status = 'refused'
 GROUP BY o.id
HAVING count(e.seq) <> 1
UNION ALL
SELECT 'order ' || o.id || ' is ' || o.status || ', with ' || count(p.reference) || ' accepted payments'
  FROM voucher_order o
  LEFT JOIN payment p ON p.order_id = o.id AND p.state = 'accepted'
 GROUP BY o.id, o.status
HAVING count(p.reference) <> (CASE WHEN o.status = 'paid' THEN 1 ELSE 0 END)
