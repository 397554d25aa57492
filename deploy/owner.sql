-- Makes the roles: the owner of tables and functions, or a new password for it, and the two that own nothing and may call
-- functions. Run it before `seckill --migrate`, by a superuser, in the service's database, as often as you like. The
-- password comes from the environment, out of sight of `ps`. PostgreSQL's own log may have it: see login.sql.
--
-- The owner is no superuser, and may not create roles: up to PostgreSQL 15 a role that may could also give itself
-- pg_execute_server_program, and with it the server's account. All functions run with the owner's rights.
\set ON_ERROR_STOP on
\getenv password SECKILL_OWNER_PASSWORD
\if :{?password}
\else
    DO $$ BEGIN RAISE 'SECKILL_OWNER_PASSWORD is not set: it is the password'; END $$;
\endif

SELECT format('CREATE ROLE %I %s', role, how)
  FROM (VALUES ('seckill_owner', 'LOGIN'), ('seckill_service', 'NOLOGIN'), ('seckill_keeper', 'NOLOGIN')) AS r (role, how)
 WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role) \gexec
-- Roles that were there before may have been given more.
SELECT format('ALTER ROLE %I NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS', rolname)
  FROM pg_roles
 WHERE rolname IN ('seckill_owner', 'seckill_service', 'seckill_keeper')
   AND (rolsuper OR rolcreatedb OR rolcreaterole OR rolreplication OR rolbypassrls) \gexec
ALTER ROLE seckill_owner PASSWORD :'password';
SELECT format('ALTER DATABASE %I OWNER TO seckill_owner', current_database()) \gexec

-- Others than these roles have no business in this database, and a stolen login of the service must not fill its disk with
-- temporary tables or large objects.
SELECT format('REVOKE CONNECT, TEMPORARY ON DATABASE %I FROM PUBLIC', current_database()) \gexec
SELECT format('GRANT CONNECT ON DATABASE %I TO seckill_service, seckill_keeper', current_database()) \gexec
SELECT format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', oid::regprocedure)
  FROM pg_proc
 WHERE pronamespace = 'pg_catalog'::regnamespace AND proname IN ('lo_creat', 'lo_create', 'lo_from_bytea')
   AND (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) \gexec
