-- Makes segments of the write-ahead log ahead of a sale, until so many exist that are not written yet. PostgreSQL would
-- make each one in the rush, while all orders wait. `min_wal_size` must keep as many.
--
--   psql -v segments=64 -f segments.sql DATABASE      64 of 16 MB; 32 if none are named
--
-- By a superuser, or a login with pg_monitor, pg_checkpoint and EXECUTE on pg_switch_wal(). In the official image as a
-- file of /docker-entrypoint-initdb.d. It may run again: what is there is not made twice.
\set ON_ERROR_STOP on
\if :{?segments}
\else
    \set segments 32
\endif
SELECT count(*) AS ahead FROM pg_ls_waldir()
 WHERE name ~ '^[0-9A-F]{24}$' AND name > pg_walfile_name(pg_current_wal_insert_lsn()) \gset
-- Each call ends the current segment. The checkpoint then renames them for later use.
SELECT count(*) AS written
  FROM (SELECT pg_logical_emit_message(false, 'ahead', ''), pg_switch_wal()
          FROM generate_series(1, :segments - :ahead)) s \gset
CHECKPOINT;
