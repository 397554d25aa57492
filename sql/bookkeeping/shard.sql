-- Makes the database shard $1 of $2, if it has no voucher. Returns what is wrong if it is another shard and has some.
SELECT set_shard($1::integer, $2::integer)
