-- The roles that 016_grants.sql would have to make, if this login may not: a superuser makes them (deploy/owner.sql). NULL:
-- nothing is in the way.
SELECT string_agg(role, ', ')
  FROM unnest(ARRAY['seckill_service', 'seckill_keeper']) AS role
 WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role)
   AND NOT EXISTS (SELECT FROM pg_roles WHERE rolname = current_user AND (rolsuper OR rolcreaterole))
