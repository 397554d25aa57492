-- The roles that 016_grants.sql would have to create and this login may not: a superuser creates them
-- (deploy/owner.sql). NULL: nothing is missing.
SELECT string_agg(role, ', ')
  FROM unnest(ARRAY['seckill_service', 'seckill_keeper']) AS role
 WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role)
   AND NOT EXISTS (SELECT FROM pg_roles WHERE rolname = current_user AND (rolsuper OR rolcreaterole))
