SELECT epoch, archived FROM retired_epoch($1::integer, $2::uuid)
