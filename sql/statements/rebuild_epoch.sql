SELECT epoch, cached_ms, cache_ms FROM rebuild_epoch($1::integer, $2::bigint, $3::bigint, $4::integer)
