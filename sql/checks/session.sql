-- The first statement of a check: none may run longer than $1 ms, and none is compiled, which would take longer than it
-- runs.
SELECT set_config('statement_timeout', $1, false), set_config('jit', 'off', false)
