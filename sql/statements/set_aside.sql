-- Keeps a journal entry that cannot be settled. Saying it again changes nothing.
INSERT INTO dead_letter (voucher_id, journal_id, raw, orders, reason)
VALUES ($1::bigint, $2, $3::bytea, $4, $5)
ON CONFLICT DO NOTHING
