UPDATE approaches.stock SET stock = stock - 1 WHERE stock = $1::int
