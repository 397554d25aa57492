INSERT INTO seckill_migration AS m (name, text_sha256) VALUES ($1, sha256(convert_to($2, 'UTF8')))
    ON CONFLICT (name) DO UPDATE SET text_sha256 = EXCLUDED.text_sha256 WHERE m.text_sha256 IS NULL
