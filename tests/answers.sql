-- What people were told, against what PostgreSQL's rows say when all work is done: each row that this returns is a
-- fault, with the name of what it breaks. The simulation asks at the end of a world, the fault suite and the soak at
-- the end of a round.
--   $1  the answers about this database's vouchers, a JSON array of
--         what       buy, pay or cancel
--         answer     done (it has happened), taken (202), another (its user has another order), refused, or unknown
--         excused    whether a documented loss may have taken what was promised
--         nth, voucher, user, quantity, id, reference
WITH told AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset($1::jsonb)
                  AS t(nth integer, what text, answer text, excused boolean, voucher bigint, "user" text,
                       quantity integer, id uuid, reference text)
), bought AS MATERIALIZED (
    SELECT t.*, o.id AS row, o.user_id, o.voucher_id, o.status, o.quantity AS units, h.user_id AS held_for
      FROM told t
      LEFT JOIN voucher_order o ON o.id = t.id
      LEFT JOIN held_order h ON h.id = t.id
     WHERE t.what = 'buy'
), asked AS MATERIALIZED (
    SELECT voucher AS voucher_id, "user" AS user_id, bool_or(answer = 'unknown' OR excused) AS unknown,
           bool_or(answer = 'another') AS another
      FROM bought
     GROUP BY voucher, "user"
), placed AS MATERIALIZED (
    SELECT id, voucher_id, user_id, status NOT IN ('unpaid', 'paid') AS ended
      FROM voucher_order
     WHERE status <> 'refused' AND voucher_id IN (SELECT voucher FROM told)
)
SELECT 'created_is_a_row' AS breaks,
       'P3: #' || nth || ' told ' || "user" || ' that order ' || id || ' is placed, and it is no such row' AS wrong
  FROM bought
 WHERE answer = 'done' AND NOT excused AND (row IS NULL OR status = 'refused')
UNION ALL
SELECT DISTINCT 'accepted_ends', 'P5: order ' || id || ' of ' || "user" || ' was accepted, and has no end'
  FROM bought
 WHERE answer = 'taken' AND NOT excused
   AND row IS NULL AND held_for IS NULL
UNION ALL
SELECT 'accepted_is_the_users_own',
       '#' || nth || ' told ' || "user" || ' of order ' || id || ' of voucher ' || voucher || ', which is '
       || coalesce(user_id, held_for) || '''s, of voucher ' || coalesce(voucher_id, voucher)
  FROM bought
 WHERE answer IN ('done', 'taken')
   AND (coalesce(user_id, held_for) <> "user" OR voucher_id <> voucher)
UNION ALL
SELECT 'quantities_are_as_asked', '#' || nth || ' asked for ' || quantity || ', order ' || id || ' has ' || units
  FROM bought
 WHERE answer IN ('done', 'taken') AND units <> quantity
UNION ALL
SELECT 'moves_answered_are_done', '#' || t.nth || ': payment ' || t.reference || ' of order ' || t.id || ' is not noted'
  FROM told t
  LEFT JOIN payment p ON p.reference = t.reference AND p.order_id = t.id
 WHERE t.what = 'pay' AND t.answer = 'done' AND NOT t.excused AND p.reference IS NULL
UNION ALL
SELECT 'moves_answered_are_done', '#' || t.nth || ': order ' || t.id || ' was cancelled, and is ' || coalesce(o.status::text, 'no row')
  FROM told t
  LEFT JOIN voucher_order o ON o.id = t.id
 WHERE t.what = 'cancel' AND t.answer = 'done' AND NOT t.excused AND o.status IS DISTINCT FROM 'cancelled'
UNION ALL
-- An order that nobody was told of needs a purchase that got no definite answer. Or it has ended, and its user was told
-- of a later order, which was bought before the first answer came.
SELECT 'refused_left_no_order',
       'P7: order ' || p.id || ' of ' || user_id || ' is a row, and each purchase of theirs was refused'
  FROM placed p
  JOIN asked a USING (voucher_id, user_id)
 WHERE NOT a.unknown AND NOT (p.ended AND a.another)
   AND NOT EXISTS (SELECT FROM bought b WHERE b.id = p.id)
UNION ALL
SELECT 'orders_are_bounded', user_id || ' has had ' || count(*) || ' orders of voucher ' || voucher_id
  FROM placed
 GROUP BY voucher_id, user_id
HAVING count(*) > (SELECT v.orders_per_user FROM seckill_voucher v WHERE v.id = voucher_id)
