-- Of one user, or of all: how many, and how many of them are one too many.
SELECT count(*), count(*) - count(DISTINCT user_id)
  FROM (SELECT user_id FROM approaches.bought UNION ALL SELECT user_id FROM approaches.bought_once) AS both_tables
 WHERE $1 = '' OR user_id = $1
