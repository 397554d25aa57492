-- Server and login settings on which the service's promises depend (seckill --check). One row. Runs before the session
-- is set up, so that synchronous_commit is the value that other sessions get.
SELECT current_setting('server_version')                                         AS version,
       current_setting('server_version_num')                                     AS version_number,
       current_setting('fsync')                                                  AS fsync,
       current_setting('full_page_writes')                                       AS full_page_writes,
       current_setting('synchronous_commit')                                     AS synchronous_commit,
       current_setting('default_transaction_read_only')                          AS read_only,
       current_setting('max_wal_size')                                           AS max_wal_size,
       current_setting('checkpoint_timeout')                                     AS checkpoint_timeout,
       -- Whether a checkpoint may begin in a sale of 15 minutes that writes 2 GB.
       (pg_size_bytes(current_setting('max_wal_size')) < pg_size_bytes('2 GB')
         OR current_setting('checkpoint_timeout')::interval < interval '15 min')::int AS checkpoints_often,
       current_setting('min_wal_size')                                           AS min_wal_size,
       current_setting('wal_recycle')                                            AS wal_recycle,
       -- Whether a checkpoint removes the segments that were made ahead of a sale.
       (pg_size_bytes(current_setting('min_wal_size')) < pg_size_bytes('512 MB')
         OR current_setting('wal_recycle') = 'off')::int                         AS segments_removed,
       pg_is_in_recovery()::int                                                  AS standby,
       getdatabaseencoding()                                                     AS encoding,
       current_user                                                              AS login,
       me.rolsuper::int                                                          AS superuser,
       coalesce((SELECT pg_has_role(me.oid, c.relowner, 'USAGE') FROM pg_class AS c
                  WHERE c.oid = to_regclass('voucher_order')), false)::int       AS owner,
       -- The owner of the tables, whose rights all functions have, if those rights could give it the server's own
       -- account.
       (SELECT o.rolname FROM pg_class AS c JOIN pg_roles AS o ON o.oid = c.relowner
         WHERE c.oid = to_regclass('voucher_order')
           AND (o.rolsuper OR o.rolcreaterole OR pg_has_role(o.oid, 'pg_execute_server_program', 'MEMBER')
                OR pg_has_role(o.oid, 'pg_write_server_files', 'MEMBER')))        AS mighty_owner,
       (to_regclass('voucher_order') IS NOT NULL)::int                           AS has_tables,
       EXISTS (SELECT FROM pg_roles AS r
                WHERE r.rolname = 'seckill_service' AND pg_has_role(me.oid, r.oid, 'USAGE'))::int AS has_role,
       -- Connections that this login can still open: of the server, of the role, of the database.
       current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
         - (SELECT count(*) FROM pg_stat_activity
             WHERE backend_type = 'client backend' AND pid <> pg_backend_pid())  AS free_server,
       CASE WHEN me.rolconnlimit < 0 THEN NULL
            ELSE me.rolconnlimit - (SELECT count(*) FROM pg_stat_activity
                                     WHERE usesysid = me.oid AND pid <> pg_backend_pid()) END AS free_role,
       CASE WHEN d.datconnlimit < 0 THEN NULL
            ELSE d.datconnlimit - (SELECT count(*) FROM pg_stat_activity
                                    WHERE datid = d.oid AND pid <> pg_backend_pid()) END      AS free_database
  FROM pg_roles AS me, pg_database AS d
 WHERE me.rolname = current_user AND d.datname = current_database()
