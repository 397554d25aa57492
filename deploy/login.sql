-- Makes the service's login, or gives it a new password; run after owner.sql, by a superuser, as often as you like. The
-- password comes from the environment, out of sight of `ps`.
\set ON_ERROR_STOP on
\getenv password SECKILL_DB_PASSWORD

SELECT 'CREATE ROLE seckill LOGIN IN ROLE seckill_service'
 WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'seckill') \gexec
ALTER ROLE seckill PASSWORD :'password';
