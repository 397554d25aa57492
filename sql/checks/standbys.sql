-- The standbys that commits wait for. `attached`: servers that follow this one; `synchronous`: the names of those that
-- count; NULL: the login may not read that (pg_monitor may). One row.
SELECT current_setting('synchronous_standby_names')                                        AS wanted,
       count(r.pid)                                                                        AS attached,
       CASE WHEN pg_has_role(current_user, 'pg_read_all_stats', 'USAGE')
            THEN coalesce(string_agg(r.application_name, ', ' ORDER BY r.application_name)
                            FILTER (WHERE r.sync_state IN ('sync', 'quorum') AND r.state = 'streaming'), '')
       END                                                                                 AS synchronous
  FROM (VALUES (1)) AS one LEFT JOIN pg_stat_replication AS r ON true
