-- What an administrator sees of a letter is bounded: the first 4096 bytes of its raw text, and how long that is.
CREATE OR REPLACE FUNCTION dead_letter_json(d dead_letter) RETURNS json
LANGUAGE sql STABLE AS $$
    SELECT json_strip_nulls(json_build_object(
        'id', d.id::text, 'voucher_id', d.voucher_id::text, 'journal_id', d.journal_id,
        'raw', encode(substr(d.raw, 1, 4096), 'hex'), 'raw_bytes', octet_length(d.raw),
        'orders', (SELECT json_agg(json_build_object('id', split_part(o, ' ', 1), 'user_id', split_part(o, ' ', 2)))
                     FROM unnest(string_to_array(d.orders, ',')) AS o),
        'reason', d.reason, 'created_at', rfc3339(d.created_at)))
$$;

COMMENT ON COLUMN dead_letter.ended_at IS 'written off, or all its orders are known or wait in an older letter';
