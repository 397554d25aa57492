SELECT outcome, document, due->>0, due->>1
  FROM (SELECT outcome, document,
               -- What a wrong amount would have to be: as it was recorded under this reference, or the order's total.
               CASE WHEN outcome = 'wrong_amount' THEN
                    (SELECT coalesce((SELECT json_build_array(p->'amount_cents', p->'currency')
                                        FROM json_array_elements(o->'payments') AS p WHERE p->>'reference' = $3),
                                     json_build_array(o->'total_cents', o->'currency'))
                       FROM find_any_order($1::integer, $2::uuid) AS o)
               END AS due
          FROM pay_order($1::integer, $2::uuid, $3, $4::bigint, $5, $6)) AS paid
