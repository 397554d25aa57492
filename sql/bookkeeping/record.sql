INSERT INTO seckill_migration (name) VALUES ($1)
