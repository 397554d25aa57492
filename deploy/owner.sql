-- Makes the roles: the owner of tables and functions, or a new password for it, and the two that own nothing and may call
-- functions. Run it before `seckill --migrate`, by a superuser, in the service's database, as often as you like. The
-- password comes from the environment, out of sight of `ps`.
--
-- The owner is no superuser, and may not create roles: up to PostgreSQL 15 a role that may could also give itself
-- pg_execute_server_program, and with it the server's account. All functions run with the owner's rights.
\set ON_ERROR_STOP on
\getenv password SECKILL_OWNER_PASSWORD

SELECT format('CREATE ROLE %I %s', role, how)
  FROM (VALUES ('seckill_owner', 'LOGIN'), ('seckill_service', 'NOLOGIN'), ('seckill_keeper', 'NOLOGIN')) AS r (role, how)
 WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role) \gexec
ALTER ROLE seckill_owner NOSUPERUSER NOCREATEROLE PASSWORD :'password';
SELECT format('ALTER DATABASE %I OWNER TO seckill_owner', current_database()) \gexec
