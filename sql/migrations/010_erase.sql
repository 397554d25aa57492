-- Erasing a user: the id gives way to a pseudonym that nothing leads back from, the same in all places, so that counts and
-- one order per user stay what they are.

-- A text of journal fields with a user's id in it, as bytes: each byte of the id becomes '*', so that the lengths before the
-- fields stay right. An id stands behind a blank, before a blank, a comma or the end.
CREATE FUNCTION erase_in_bytes(p_raw bytea, p_user text) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_raw  bytea   := p_raw;
    v_word bytea   := convert_to(' ' || p_user, 'UTF8');
    v_size integer := octet_length(v_word);
    v_from integer := 1;
    v_at   integer;
BEGIN
    LOOP
        v_at := position(v_word IN substr(v_raw, v_from));
        EXIT WHEN v_at = 0;
        v_at := v_at + v_from - 1;
        IF v_at + v_size > octet_length(v_raw) OR get_byte(v_raw, v_at + v_size - 1) IN (32, 44) THEN
            v_raw := overlay(v_raw PLACING convert_to(' ' || repeat('*', v_size - 1), 'UTF8') FROM v_at);
        END IF;
        v_from := v_at + 1;
    END LOOP;
    RETURN v_raw;
END
$$;

-- The same in a letter's orders, 'id user[ quantity[ key]],...': there the pseudonym takes its place.
CREATE FUNCTION erase_in_orders(p_orders text, p_user text, p_pseudonym text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT string_agg(CASE WHEN split_part(o.text, ' ', 2) = p_user
                           THEN concat_ws(' ', split_part(o.text, ' ', 1), p_pseudonym,
                                          nullif(split_part(o.text, ' ', 3), ''))
                           ELSE o.text END, ',' ORDER BY o.n)
      FROM unnest(string_to_array(p_orders, ',')) WITH ORDINALITY AS o (text, n)
$$;

-- Erases a user.
--
--   erased   so many orders and dead letters have the pseudonym now; none: the user was not known, or is erased
--   refused  the user has orders of vouchers that are not retired, or of open dead letters, `vouchers` are some of them:
--            Redis knows the user there, and one order per user holds by that. Nothing is done
--
-- An order that Redis has granted and PostgreSQL does not have yet is not seen. It is of a sale that runs: erase again
-- when that is over.
CREATE FUNCTION erase_user(p_user text)
RETURNS TABLE (outcome text, pseudonym text, orders bigint, letters bigint, vouchers text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_orders  bigint[]; -- the voucher of each
    v_letters bigint[];
    v_word    text := '(^|,)[^ ,]* ' || regexp_replace(p_user, '([.])', '\\\1', 'g') || '( |,|$)';
BEGIN
    PERFORM FROM seckill_catalogue FOR UPDATE; -- no voucher is recalled meanwhile
    SELECT string_agg(open.id::text, ',' ORDER BY open.id) INTO vouchers
      FROM (SELECT v.id FROM seckill_voucher v
             WHERE v.id IN (SELECT live.voucher_id FROM voucher_order live
                             WHERE live.user_id = p_user AND live.status IN ('unpaid', 'paid')
                             UNION ALL
                            SELECT ended.voucher_id FROM voucher_order ended
                             WHERE ended.user_id = p_user
                               AND ended.status IN ('cancelled', 'expired', 'refused', 'refunded'))
               AND v.state <> 'retired'
             UNION
            SELECT h.voucher_id FROM held_order h WHERE h.user_id = p_user
             LIMIT 20) open;
    orders := 0;
    letters := 0;
    IF vouchers IS NOT NULL THEN
        outcome := 'refused';
        RETURN NEXT;
        RETURN;
    END IF;
    outcome := 'erased';
    pseudonym := 'erased-' || replace(gen_random_uuid()::text, '-', '');

    WITH own AS (
        SELECT o.slot, o.voucher_id, o.id FROM voucher_order o
         WHERE o.user_id = p_user AND o.status IN ('unpaid', 'paid')
         UNION ALL
        SELECT o.slot, o.voucher_id, o.id FROM voucher_order o
         WHERE o.user_id = p_user AND o.status IN ('cancelled', 'expired', 'refused', 'refunded')),
    renamed AS (
        UPDATE voucher_order o SET user_id = erase_user.pseudonym, request_key = NULL
          FROM own
         WHERE o.slot = own.slot AND o.voucher_id = own.voucher_id AND o.id = own.id
        RETURNING o.voucher_id)
    SELECT coalesce(array_agg(r.voucher_id), '{}') INTO v_orders FROM renamed r;
    WITH renamed AS (
        UPDATE dead_letter d
           SET orders = erase_in_orders(d.orders, p_user, erase_user.pseudonym), raw = erase_in_bytes(d.raw, p_user)
         WHERE d.orders ~ v_word OR erase_in_bytes(d.raw, p_user) <> d.raw
        RETURNING d.voucher_id)
    SELECT coalesce(array_agg(r.voucher_id), '{}') INTO v_letters FROM renamed r;
    INSERT INTO admin_event (by_whom, what, voucher_id, detail)
    SELECT session_user, 'erased', w.voucher_id,
           jsonb_build_object('pseudonym', erase_user.pseudonym, 'orders', sum(w.orders), 'letters', sum(w.letters))
      FROM (SELECT id, 1, 0 FROM unnest(v_orders) AS o (id)
             UNION ALL
            SELECT id, 0, 1 FROM unnest(v_letters) AS d (id)) AS w (voucher_id, orders, letters)
     GROUP BY w.voucher_id;
    orders := cardinality(v_orders);
    letters := cardinality(v_letters);
    RETURN NEXT;
END
$$;
