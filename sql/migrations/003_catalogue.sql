-- The catalogue: which vouchers there are, where each is, and what of it changed since a reader looked last.

-- Redis Cluster's slot of a tag: CRC16 (polynomial 0x1021, from 0) modulo 16384. src/base/slot.c is the same in C.
CREATE FUNCTION slot_of(p_tag text) RETURNS smallint
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
    v_bytes bytea   := convert_to(p_tag, 'UTF8');
    v_crc   integer := 0;
BEGIN
    FOR i IN 0 .. octet_length(v_bytes) - 1 LOOP
        v_crc := v_crc # (get_byte(v_bytes, i) << 8);
        FOR bit IN 1 .. 8 LOOP
            v_crc := CASE WHEN v_crc & 32768 <> 0 THEN (v_crc << 1) # 4129 ELSE v_crc << 1 END & 65535;
        END LOOP;
    END LOOP;
    RETURN v_crc & 16383;
END
$$;

-- ---- changes ----

-- A new offer makes tickets of the one before it void.
CREATE FUNCTION number_voucher_change() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE seckill_catalogue SET change = change + 1 RETURNING change INTO NEW.change;
    IF TG_OP = 'UPDATE'
       AND (NEW.price_cents, NEW.currency, NEW.user_limit, NEW.ticket, NEW.work_bits)
           <> (OLD.price_cents, OLD.currency, OLD.user_limit, OLD.ticket, OLD.work_bits) THEN
        NEW.offer := OLD.offer + 1;
    END IF;
    PERFORM pg_notify('seckill_catalogue', '');
    RETURN NEW;
END
$$;

CREATE TRIGGER number_change BEFORE INSERT OR UPDATE ON seckill_voucher
    FOR EACH ROW EXECUTE FUNCTION number_voucher_change();

CREATE FUNCTION keep_offer() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO seckill_offer (voucher_id, offer, price_cents, currency, user_limit, ticket, work_bits)
    VALUES (NEW.id, NEW.offer, NEW.price_cents, NEW.currency, NEW.user_limit, NEW.ticket, NEW.work_bits)
        ON CONFLICT DO NOTHING;
    RETURN NULL;
END
$$;

CREATE TRIGGER keep_offer AFTER INSERT OR UPDATE ON seckill_voucher
    FOR EACH ROW EXECUTE FUNCTION keep_offer();

-- The next vouchers that changed after p_after, at most p_most of them, in the order of their changes. Each row carries
-- the newest change number and the newest voucher's id of the same moment; if no voucher changed, one row has nothing
-- else. The price is among the terms because an instance compares it with the one that an order was checked under.
--
-- From p_after = 0 on a reader knows no voucher yet, and retired ones are left out. If that takes several pages, the
-- later ones pass in p_first the newest change of the first page: what was retired up to then is left out as well.
CREATE FUNCTION catalogue_changes(p_after bigint, p_most integer, p_first bigint DEFAULT 0)
RETURNS TABLE (newest_change bigint, newest_voucher bigint, change bigint, voucher_id bigint, state text,
               begin_ms bigint, end_ms bigint, tag text, slot smallint, user_limit smallint, pay_within_s integer,
               ticket integer, work_bits smallint, offer integer, price_cents bigint, currency text)
LANGUAGE sql STABLE AS $$
    SELECT c.change, coalesce((SELECT max(id) FROM seckill_voucher), 0), v.change, v.id, v.state,
           unix_ms(v.begin_at), unix_ms(v.end_at), s.tag, s.slot, v.user_limit, v.pay_within_s, v.ticket::integer,
           v.work_bits, v.offer, v.price_cents, v.currency
      FROM seckill_catalogue c
      LEFT JOIN ((SELECT * FROM seckill_voucher changed
                   WHERE changed.change > p_after
                     AND (changed.state <> 'retired' OR (p_after > 0 AND changed.change > p_first))
                   ORDER BY changed.change
                   LIMIT p_most) v
                 JOIN voucher_stock s ON s.voucher_id = v.id) ON true
     ORDER BY v.change
$$;

-- ---- vouchers ----

-- Creates a voucher, or finds the one that was created under this key.
--
--   created  the voucher is committed, by this call or an earlier one; it is shown as it is now
--   reused   the key belongs to a voucher of other terms: nothing is done
--
-- `epoch` is 0 as long as the voucher has not been loaded into Redis. `loading` is the same document for a voucher that
-- cannot sell yet. Times are Unix ms.
CREATE FUNCTION create_voucher(p_key text, p_title text, p_price_cents bigint, p_stock integer, p_begin_ms bigint,
                               p_end_ms bigint, p_user_limit smallint DEFAULT 1, p_pay_within_s integer DEFAULT 900,
                               p_currency text DEFAULT 'CNY', p_by text DEFAULT 'admin',
                               p_ticket boolean DEFAULT false, p_work_bits smallint DEFAULT 0)
RETURNS TABLE (outcome text, id bigint, epoch bigint, document json, loading json, change bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_terms   bytea := sha256(convert_to(
        concat_ws(' ', p_price_cents, p_currency, p_stock, p_begin_ms, p_end_ms, p_user_limit, p_pay_within_s, p_ticket,
                  p_work_bits, p_title), 'UTF8'));
    v_voucher seckill_voucher;
BEGIN
    -- Before the id is taken, so that ids commit in their order. It waits for a call with the same key, too; the
    -- statement after it has a snapshot of its own, so that it sees what that call did.
    PERFORM FROM seckill_catalogue FOR UPDATE;
    SELECT v.* INTO v_voucher FROM seckill_voucher v WHERE v.create_key = p_key;
    IF NOT FOUND THEN
        INSERT INTO seckill_voucher AS v (title, price_cents, currency, user_limit, pay_within_s, ticket, work_bits,
                                          begin_at, end_at, create_key, create_terms)
        VALUES (p_title, p_price_cents, p_currency, p_user_limit, p_pay_within_s, p_ticket, p_work_bits,
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

CREATE FUNCTION find_voucher(p_id bigint)
RETURNS TABLE (id bigint, begin_ms bigint, end_ms bigint, document json, change bigint)
LANGUAGE sql STABLE AS $$
    SELECT v.id, unix_ms(v.begin_at), unix_ms(v.end_at), voucher_json(v), v.change FROM seckill_voucher v WHERE v.id = p_id
$$;
