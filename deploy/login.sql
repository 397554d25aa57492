-- Makes the service's login, or gives it a new password; run after owner.sql, by a superuser, as often as you like. The
-- password comes from the environment, out of sight of `ps`. It goes to the server as it is: with log_statement=ddl it is
-- in PostgreSQL's log, and pg_stat_statements keeps it. `\password seckill` in psql sends its hash alone.
\set ON_ERROR_STOP on
\getenv password SECKILL_DB_PASSWORD
\if :{?password}
\else
    DO $$ BEGIN RAISE 'SECKILL_DB_PASSWORD is not set: it is the password'; END $$;
\endif

SELECT 'CREATE ROLE seckill LOGIN IN ROLE seckill_service'
 WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'seckill') \gexec
SELECT 'ALTER ROLE seckill NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS'
  FROM pg_roles
 WHERE rolname = 'seckill' AND (rolsuper OR rolcreatedb OR rolcreaterole OR rolreplication OR rolbypassrls) \gexec
ALTER ROLE seckill PASSWORD :'password';
