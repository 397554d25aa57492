-- Each new connection says this first, so that no promise hangs on how a role, a database or a server is configured:
-- no statement may outlive the service's patience with it; each statement of a function sees what was committed
-- before it (under REPEATABLE READ batches that wait for a voucher's row fail instead); a commit that is told is on disk,
-- or more where the server asks for more; and texts are UTF-8, as JSON is.
--
-- Left to the operator: default_transaction_read_only, which stops the service on purpose, and search_path, since any
-- schema may hold the tables. Time zone and date style do not matter to what the service asks.
SELECT set_config('statement_timeout', $1, false), set_config('idle_in_transaction_session_timeout', $1, false),
       set_config('lock_timeout', '100', false), -- ms; a voucher whose row is held must not hold up the others
       set_config('default_transaction_isolation', 'read committed', false),
       set_config('synchronous_commit', CASE WHEN current_setting('synchronous_commit') IN ('off', 'local') THEN 'on'
                                             ELSE current_setting('synchronous_commit') END, false),
       -- A statement of ours takes a few ms. While a table has no statistics PostgreSQL takes some for large ones, and would
       -- compile them, 0.2 s each time.
       set_config('jit', 'off', false),
       set_config('client_encoding', 'UTF8', false),
       set_config('application_name', $2, false) -- which of the service's links it is
