-- Several databases share the vouchers: each is a shard, and has those of some slots. A database that is alone is the one
-- shard of one, with all slots.

-- Which shard this database is. It changes only while there is no voucher (set_shard()), and by deploy/split_shard.sql.
--
-- `beat` is when instances last wrote here, in Unix ms; only several shards have it. What an instance has seen here is
-- committed, so a database with an older beat has been restored from an older copy, and lacks orders (shard_beat()).
CREATE TABLE seckill_shard (
    one    boolean  PRIMARY KEY DEFAULT true CHECK (one),
    number smallint NOT NULL DEFAULT 0,
    shards smallint NOT NULL DEFAULT 1 CHECK (shards BETWEEN 1 AND 16),
    beat   bigint   NOT NULL DEFAULT 0,
    CHECK (number >= 0 AND number < shards)
);
INSERT INTO seckill_shard DEFAULT VALUES;

-- The newest beats of other shards that instances have seen.
CREATE TABLE shard_seen (
    number smallint PRIMARY KEY,
    beat   bigint   NOT NULL
);

-- Which of p_shards shards has a slot: its last bits. src/store/shards.c is the same in C, and says why.
CREATE FUNCTION shard_of_slot(p_slot integer, p_shards integer) RETURNS integer
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
    v_most integer := 1;
BEGIN
    WHILE v_most < p_shards LOOP
        v_most := v_most * 2;
    END LOOP;
    RETURN (p_slot & (v_most - 1)) - CASE WHEN p_slot & (v_most - 1) < p_shards THEN 0 ELSE v_most / 2 END;
END
$$;

-- ---- which shard it is ----

-- What is wrong if instances take this database for shard p_number of p_shards; NULL: nothing. And its beat.
CREATE FUNCTION shard_fits(p_number integer, p_shards integer) RETURNS TABLE (misfit text, beat bigint)
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN (s.number, s.shards) <> (p_number, p_shards)
                THEN format('the database is shard %s of %s, not %s of %s', s.number, s.shards, p_number, p_shards) END,
           s.beat
      FROM seckill_shard s
$$;

-- Makes an empty database shard p_number of p_shards, unless instances are connected: they have checked its number, and
-- would create vouchers of other shards here. Beats belong to a number. Returns what shard_fits() says of it then.
CREATE FUNCTION set_shard(p_number integer, p_shards integer) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM seckill_catalogue FOR UPDATE; -- no voucher is created meanwhile
    UPDATE seckill_shard s SET number = p_number, shards = p_shards, beat = 0
     WHERE (s.number, s.shards) <> (p_number, p_shards) AND NOT EXISTS (SELECT FROM seckill_voucher)
       AND NOT EXISTS (SELECT FROM pg_stat_activity a
                        WHERE a.datname = current_database() AND a.application_name LIKE 'seckill-%');
    IF FOUND THEN
        DELETE FROM shard_seen;
    END IF;
    RETURN (SELECT f.misfit FROM shard_fits(p_number, p_shards) f);
END
$$;

-- ---- a voucher is where its slot leads ----

CREATE FUNCTION check_voucher_shard() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM seckill_shard s WHERE shard_of_slot(NEW.slot, s.shards) = s.number) THEN
        RAISE EXCEPTION 'voucher % has slot %, which belongs to another shard', NEW.voucher_id, NEW.slot;
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER voucher_stock_shard BEFORE INSERT ON voucher_stock FOR EACH ROW EXECUTE FUNCTION check_voucher_shard();

-- As in 003_catalogue.sql; only the id is new. Each shard draws ids until one has a slot of its own, so no two shards
-- have the same id, and an id leads to its shard even when the voucher is not known.
CREATE OR REPLACE FUNCTION create_voucher(p_key text, p_title text, p_price_cents bigint, p_stock integer,
                                          p_begin_ms bigint, p_end_ms bigint, p_user_limit smallint DEFAULT 1,
                                          p_pay_within_s integer DEFAULT 900, p_currency text DEFAULT 'CNY',
                                          p_by text DEFAULT 'admin', p_ticket boolean DEFAULT false,
                                          p_work_bits smallint DEFAULT 0)
RETURNS TABLE (outcome text, id bigint, epoch bigint, document json, loading json, change bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_terms   bytea := sha256(convert_to(
        concat_ws(' ', p_price_cents, p_currency, p_stock, p_begin_ms, p_end_ms, p_user_limit, p_pay_within_s, p_ticket,
                  p_work_bits, p_title), 'UTF8'));
    v_shard   seckill_shard;
    v_id      bigint;
    v_voucher seckill_voucher;
BEGIN
    -- Before the id is taken, so that ids commit in their order. It waits for a call with the same key, too; the
    -- statement after it has a snapshot of its own, so that it sees what that call did.
    PERFORM FROM seckill_catalogue FOR UPDATE;
    SELECT v.* INTO v_voucher FROM seckill_voucher v WHERE v.create_key = p_key;
    IF NOT FOUND THEN
        SELECT s.* INTO v_shard FROM seckill_shard s;
        LOOP
            v_id := nextval(pg_get_serial_sequence('seckill_voucher', 'id'));
            EXIT WHEN shard_of_slot(slot_of(v_id::text), v_shard.shards) = v_shard.number;
        END LOOP;
        INSERT INTO seckill_voucher AS v (id, title, price_cents, currency, user_limit, pay_within_s, ticket, work_bits,
                                          begin_at, end_at, create_key, create_terms)
        OVERRIDING SYSTEM VALUE
        VALUES (v_id, p_title, p_price_cents, p_currency, p_user_limit, p_pay_within_s, p_ticket, p_work_bits,
                to_timestamp(p_begin_ms / 1000.0), to_timestamp(p_end_ms / 1000.0), p_key, v_terms)
        RETURNING v.* INTO v_voucher;
        INSERT INTO voucher_stock (voucher_id, tag, slot, units, stock)
        VALUES (v_voucher.id, v_voucher.id::text, slot_of(v_voucher.id::text), p_stock, p_stock);
        INSERT INTO admin_event (by_whom, what, voucher_id, change, detail)
        VALUES (p_by, 'created', v_voucher.id, v_voucher.change,
                jsonb_build_object('title', p_title, 'price_cents', p_price_cents, 'currency', p_currency, 'stock', p_stock,
                                   'limit', p_user_limit, 'pay_within_s', p_pay_within_s,
                                   'ticket', p_ticket, 'work_bits', p_work_bits,
                                   'begin_at', rfc3339(v_voucher.begin_at), 'end_at', rfc3339(v_voucher.end_at)));
    END IF;
    outcome := CASE WHEN v_voucher.create_terms = v_terms THEN 'created' ELSE 'reused' END;
    id := v_voucher.id;
    epoch := (SELECT s.epoch FROM voucher_stock s WHERE s.voucher_id = v_voucher.id);
    document := voucher_json(v_voucher);
    v_voucher.state := 'loading';
    loading := voucher_json(v_voucher);
    change := v_voucher.change;
    RETURN NEXT;
END
$$;

-- ---- a database that was restored ----

-- Returns this shard's beat, and what it knows of the others'. p_seen are the newest ones that the caller has seen, by
-- their shards' numbers. p_raise: raises the own one, and keeps the others. A database with an older beat than has been
-- seen does not raise it, so that all instances notice.
CREATE FUNCTION shard_beat(p_seen bigint[], p_raise boolean) RETURNS TABLE (number smallint, beat bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    IF p_raise THEN
        UPDATE seckill_shard s SET beat = greatest(s.beat + 1, unix_ms(clock_timestamp()))
         WHERE s.beat >= p_seen[s.number + 1];
        INSERT INTO shard_seen AS k (number, beat)
        SELECT o.n - 1, o.beat
          FROM unnest(p_seen) WITH ORDINALITY AS o (beat, n)
          JOIN seckill_shard s ON s.number <> o.n - 1
         WHERE o.beat > 0
        ON CONFLICT (number) DO UPDATE SET beat = EXCLUDED.beat WHERE k.beat < EXCLUDED.beat;
    END IF;
    RETURN QUERY
    SELECT s.number, s.beat FROM seckill_shard s
     UNION ALL
    SELECT k.number, k.beat FROM shard_seen k;
END
$$;

-- The owner's word that a database that was restored is to be used as it is: what it lacks is lost. p_seen is the newest
-- beat that instances have seen, by the clock of a server that may be gone.
CREATE FUNCTION accept_shard(p_seen bigint) RETURNS bigint
LANGUAGE sql AS $$
    UPDATE seckill_shard s SET beat = greatest(s.beat + 1, unix_ms(clock_timestamp()), p_seen + 1) RETURNING s.beat
$$;

-- ---- rights ----

REVOKE EXECUTE ON FUNCTION set_shard(integer, integer) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION accept_shard(bigint) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION shard_fits(integer, integer) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION shard_beat(bigint[], boolean) FROM PUBLIC;
DO $$
DECLARE
    v_function text;
BEGIN
    FOREACH v_function IN ARRAY ARRAY[
        'shard_fits(integer, integer)', 'shard_beat(bigint[], boolean)',
        'create_voucher(text, text, bigint, integer, bigint, bigint, smallint, integer, text, text, boolean,'
        ' smallint)'] LOOP
        EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER SET search_path = %I, pg_temp', v_function, current_schema());
    END LOOP;
END
$$;
GRANT EXECUTE ON FUNCTION shard_fits(integer, integer) TO seckill_service, seckill_keeper;
GRANT EXECUTE ON FUNCTION shard_beat(bigint[], boolean) TO seckill_service;
