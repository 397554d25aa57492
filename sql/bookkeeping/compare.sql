-- Returns the migration at position $3 of the database, and whether it is the migration named $1 with the text $2. If
-- no SHA-256 is recorded, the database must contain each function of the text, word for word. No row: the database has
-- at most $3 migrations.
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
