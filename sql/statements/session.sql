-- Each new connection runs this first, so that no promise depends on the configuration of a role, a database or a
-- server. No statement may run longer than the service waits for it. Each statement of a function sees the data
-- committed before it; under REPEATABLE READ, batches that wait for a voucher's row would fail instead. A confirmed
-- commit is on disk, or more where the server requires more. Texts are UTF-8, as JSON is.
--
-- Left to the operator: default_transaction_read_only, which stops the service on purpose, and search_path, since any
-- schema may hold the tables. Time zone and date style do not affect the service's statements.
SELECT set_config('statement_timeout', $1, false), set_config('idle_in_transaction_session_timeout', $1, false),
       set_config('lock_timeout', '100', false), -- ms; a voucher whose row is locked must not delay the others
       set_config('default_transaction_isolation', 'read committed', false),
       set_config('synchronous_commit', CASE WHEN current_setting('synchronous_commit') IN ('off', 'local') THEN 'on'
                                             ELSE current_setting('synchronous_commit') END, false),
       -- A commit that did not wait for the standbys is reported by a warning.
       set_config('client_min_messages', CASE current_setting('client_min_messages')
                                              WHEN 'error' THEN 'warning'
                                              ELSE current_setting('client_min_messages') END, false),
       -- The service's statements take a few ms. While a table has no statistics, PostgreSQL estimates some of them as
       -- expensive and would compile them, 0.2 s each time.
       set_config('jit', 'off', false),
       -- What the service reads is in the cache. With the costs of a disk that turns, a batch of many vouchers would read
       -- the whole tables of vouchers instead of their indexes.
       set_config('random_page_cost', '1.1', false),
       set_config('client_encoding', 'UTF8', false),
       set_config('application_name', $2, false), -- which of the service's links it is
       misfit, beat -- whether this is the shard that the service takes it for
  FROM shard_fits($3::integer, $4::integer)
