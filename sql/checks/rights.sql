-- The rights that this login lacks, one in a row. $1 is the text of the migrations that grant them to the service's
-- role, so that there is only one list. In the first migration, functions after `v_keeper` are for others; later
-- migrations name each function.
WITH relations AS (
    SELECT DISTINCT btrim(name) AS name, btrim(privilege) AS privilege
      FROM regexp_matches($1, 'GRANT ([A-Z, ]+) ON ([a-z_, \n]+) TO seckill_service', 'g') AS found,
           string_to_table(found[1], ',') AS privilege,
           string_to_table(replace(found[2], E'\n', ' '), ',') AS name
), functions AS (
    SELECT found[1] AS name FROM regexp_matches(split_part($1, 'v_keeper', 1), '([a-z_]+)\([^()]*\)', 'g') AS found
    UNION
    SELECT found[1]
      FROM regexp_matches($1, 'GRANT EXECUTE ON FUNCTION ([a-z_]+)\([^()]*\) TO seckill_service', 'g') AS found
)
SELECT privilege || ' on ' || name AS missing
  FROM relations
 WHERE NOT coalesce(has_table_privilege(to_regclass(name), privilege), false)
UNION ALL
SELECT 'EXECUTE on ' || p.proname
  FROM functions AS f
  JOIN pg_proc AS p ON p.proname = f.name
   AND p.pronamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('voucher_order'))
 WHERE NOT has_function_privilege(p.oid, 'EXECUTE')
 ORDER BY 1
