-- What the database has at place $3 of its migrations, and whether that is the migration named $1 with the text $2. Where the text's
-- sum is not noted, each function of the text must be there, word for word. No row: it has no more than so many.
SELECT m.name, m.name = $1 AND coalesce(
           m.text_sha256 = sha256(convert_to($2, 'UTF8')),
           NOT EXISTS (SELECT FROM regexp_matches($2, 'CREATE FUNCTION ([a-z_0-9]+)\(', 'g') AS made (names)
                        WHERE NOT EXISTS (SELECT FROM pg_proc p
                                           WHERE p.proname = made.names[1]
                                             AND p.pronamespace = (SELECT relnamespace FROM pg_class
                                                                    WHERE oid = 'seckill_migration'::regclass)
                                             AND position(p.prosrc IN $2) > 0))) AS same
  FROM seckill_migration m
 ORDER BY m.name COLLATE "C"
 LIMIT 1 OFFSET $3::integer
