-- The value that applies to the service's session.
SELECT current_setting('synchronous_commit')
