SELECT retired_epoch($1::integer)
