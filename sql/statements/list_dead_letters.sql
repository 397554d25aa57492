SELECT letters, more FROM list_dead_letters($1::integer, $2::bigint)
