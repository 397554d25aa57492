UPDATE approaches.stock SET stock = stock - 1, version = version + 1 WHERE version = $1::int
