-- Erasing a user: the id gives way to a pseudonym that nothing leads back from, the same in all places, so that counts
-- and one order per user stay what they are.

-- A text of journal fields with a user's id in it, as bytes: each byte of the id becomes '*', so that the lengths
-- before the fields stay right. An id stands behind a blank, before a blank, a comma or the end.
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

-- ---- in the files of an archive ----
--
-- A file is rewritten here, as it was made here (014_archive.sql); `seckill erase` writes, syncs and renames it
-- (control/erase_archive.c). What its SHA-256 will be is noted before that, beside what it was: so a crash in between
-- leaves a file that is known, and the next run rewrites it.

-- A file of orders with the pseudonym in the place of the user, whose Idempotency-Keys go; and how many orders that
-- were. A user's id needs no quotes (csv_field()); a reason may have them, and then commas and ends of lines in them.
-- Files that are older than offers have no offer and price at the end of a line.
CREATE FUNCTION erase_in_file(p_text text, p_user text, p_pseudonym text) RETURNS TABLE (orders bigint, rewritten text)
LANGUAGE sql IMMUTABLE AS $$
    SELECT regexp_count(p_text, own.line, 1, 'w'),
           regexp_replace(p_text, own.line, '\1' || p_pseudonym || '\2\3', 'gw')
      FROM (SELECT '^([0-9a-f-]{36},[0-9]+,[0-9]+,)' || regexp_replace(p_user, '([.])', '\\\1', 'g') ||
                   '(,[0-9]+,[a-z]+,(?:"(?:[^"]|"")*"|[^",\n]*),[^",\n]*,[^",\n]*,)[0-9a-f]*((?:,[0-9]+,[0-9]*,[A-Z]*)?)$') AS own (line)
$$;

-- Erases a user in the orders' file of a part, whose text this is.
--
--   erased   so many orders have the pseudonym in `rewritten`, which the file must become
--   without  the user has none in it
--   other    this is not the text that was archived, nor what it became: it is not touched
CREATE FUNCTION erase_in_part(p_voucher bigint, p_part integer, p_text text, p_user text, p_pseudonym text)
RETURNS TABLE (outcome text, orders bigint, rewritten text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_sum bytea := sha256(convert_to(p_text, 'UTF8'));
BEGIN
    orders := 0;
    PERFORM FROM archived_part a
      WHERE a.voucher_id = p_voucher AND a.part = p_part AND v_sum IN (a.orders_sha256, a.orders_sha256_before)
        FOR UPDATE;
    IF NOT FOUND THEN
        outcome := 'other';
        RETURN NEXT;
        RETURN;
    END IF;
    SELECT e.orders, e.rewritten INTO orders, rewritten FROM erase_in_file(p_text, p_user, p_pseudonym) e;
    IF erase_in_part.orders = 0 THEN
        outcome := 'without';
        RETURN NEXT;
        RETURN;
    END IF;
    outcome := 'erased';
    UPDATE archived_part a
       SET orders_sha256 = sha256(convert_to(erase_in_part.rewritten, 'UTF8')), orders_sha256_before = v_sum
     WHERE a.voucher_id = p_voucher AND a.part = p_part;
    INSERT INTO admin_event (by_whom, what, voucher_id, detail)
    VALUES (session_user, 'erased', p_voucher,
            jsonb_build_object('pseudonym', p_pseudonym, 'part', p_part, 'orders', erase_in_part.orders));
    RETURN NEXT;
END
$$;
