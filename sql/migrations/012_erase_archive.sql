-- Erasing a user in the files of an archive. A file is rewritten here, as it was made here (010_archive.sql); `seckill erase`
-- writes, syncs and renames it (control/erase_archive.c). What its SHA-256 will be is noted before that, beside what it
-- was: so a crash in between leaves a file that is known, and the next run rewrites it.

-- Of the orders' file before a user was last erased in it; NULL: none was.
ALTER TABLE archived_part ADD COLUMN orders_sha256_before bytea;

-- A file of orders with the pseudonym in the place of the user, whose Idempotency-Keys go; and how many orders that were.
-- A user's id needs no quotes (csv_field()); a reason may have them, and then commas and ends of lines in them.
CREATE FUNCTION erase_in_file(p_text text, p_user text, p_pseudonym text) RETURNS TABLE (orders bigint, rewritten text)
LANGUAGE sql IMMUTABLE AS $$
    SELECT regexp_count(p_text, own.line, 1, 'w'),
           regexp_replace(p_text, own.line, '\1' || p_pseudonym || '\2', 'gw')
      FROM (SELECT '^([0-9a-f-]{36},[0-9]+,[0-9]+,)' || regexp_replace(p_user, '([.])', '\\\1', 'g') ||
                   '(,[0-9]+,[a-z]+,(?:"(?:[^"]|"")*"|[^",\n]*),[^",\n]*,[^",\n]*,)[0-9a-f]*$') AS own (line)
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

-- As in 011_grants.sql: it runs as the owner, and is the keeper's alone.
DO $$
BEGIN
    REVOKE EXECUTE ON FUNCTION erase_in_part FROM PUBLIC;
    EXECUTE format('ALTER FUNCTION erase_in_part SECURITY DEFINER SET search_path = %I, pg_temp', current_schema());
    GRANT EXECUTE ON FUNCTION erase_in_part TO seckill_keeper;
END
$$;
