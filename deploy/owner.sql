-- Makes the owner of the tables and functions, or gives it a new password; run before `seckill --migrate`, by a
-- superuser, in the service's database, as often as you like. It is no superuser itself: the functions run with its
-- rights, whichever login calls them. The password comes from the environment, out of sight of `ps`.
\set ON_ERROR_STOP on
\getenv password SECKILL_OWNER_PASSWORD

SELECT 'CREATE ROLE seckill_owner LOGIN CREATEROLE'
 WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'seckill_owner') \gexec
ALTER ROLE seckill_owner PASSWORD :'password';
SELECT format('ALTER DATABASE %I OWNER TO seckill_owner', current_database()) \gexec
