SELECT number, beat FROM shard_beat($1::bigint[], $2::integer::boolean)
