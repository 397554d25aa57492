-- Each new connection says this first: no statement may outlive the service's patience with it.
SELECT set_config('statement_timeout', $1, false), set_config('idle_in_transaction_session_timeout', $1, false)
