SELECT may_retire($1::bigint, $2::bigint)
