UPDATE approaches.stock SET stock = $1::int, version = 0
