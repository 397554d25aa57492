-- Creating a voucher is repeatable: whoever asks again under the same key is given the voucher of the first time,
-- never a second one.

ALTER TABLE seckill_voucher
    ADD COLUMN create_key   text COLLATE "C", -- the Idempotency-Key; NULL: inserted by other means
    ADD COLUMN create_terms bytea,            -- SHA-256 of the terms as asked for: the voucher's own may change later
    ADD CONSTRAINT seckill_voucher_create_key UNIQUE (create_key),
    ADD CONSTRAINT seckill_voucher_create_terms CHECK ((create_key IS NULL) = (create_terms IS NULL));

-- Creates a voucher, or finds the one that was created under this key.
--
--   created  the voucher is committed, by this call or an earlier one; it is shown as it is now
--   reused   the key belongs to a voucher of other terms: nothing is done
--
-- `epoch` is 0 as long as nobody has loaded the voucher into Redis. `loading` is the same document for a voucher that
-- cannot sell yet. Times are Unix ms.
CREATE FUNCTION create_voucher(p_key text, p_title text, p_price_cents bigint, p_stock integer, p_begin_ms bigint,
                               p_end_ms bigint)
RETURNS TABLE (outcome text, id bigint, epoch bigint, document json, loading json)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_terms   bytea := sha256(convert_to(
        concat_ws(' ', p_price_cents, p_stock, p_begin_ms, p_end_ms, p_title), 'UTF8'));
    v_voucher seckill_voucher;
BEGIN
    -- Waits for a call with the same key that has not ended yet.
    INSERT INTO seckill_voucher AS v (title, price_cents, initial_stock, stock, begin_at, end_at,
                                      create_key, create_terms)
    VALUES (p_title, p_price_cents, p_stock, p_stock, to_timestamp(p_begin_ms / 1000.0),
            to_timestamp(p_end_ms / 1000.0), p_key, v_terms)
    ON CONFLICT (create_key) DO NOTHING
    RETURNING v.* INTO v_voucher;
    -- A statement of its own has a snapshot of its own, so that it sees what the INSERT met.
    IF NOT FOUND THEN
        SELECT v.* INTO v_voucher FROM seckill_voucher v WHERE v.create_key = p_key;
    END IF;
    IF NOT FOUND THEN
        RETURN; -- deleted in between
    END IF;
    outcome := CASE WHEN v_voucher.create_terms = v_terms THEN 'created' ELSE 'reused' END;
    id := v_voucher.id;
    epoch := v_voucher.epoch;
    document := voucher_json(v_voucher);
    v_voucher.state := 'loading';
    loading := voucher_json(v_voucher);
    RETURN NEXT;
END
$$;

REVOKE EXECUTE ON FUNCTION create_voucher(text, text, bigint, integer, bigint, bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION create_voucher(text, text, bigint, integer, bigint, bigint) TO seckill_service;
