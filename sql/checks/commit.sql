-- As the service's session has it.
SELECT current_setting('synchronous_commit')
