SELECT 1 FROM seckill_migration WHERE name = $1
