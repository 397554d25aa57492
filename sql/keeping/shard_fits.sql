-- What is wrong if the database is taken for shard $1 of $2; NULL: nothing.
SELECT misfit FROM shard_fits($1::integer, $2::integer)
