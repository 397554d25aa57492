-- The catalogue: which vouchers there are, where their segments are, and what of it changed since a reader looked last.

-- ---- where a segment is ----

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

-- The tag of a voucher's segment: '7' where there is one, else '7.2', '7.2.1', '7.2.2' ...: the first of them whose slot
-- lies in the segment's part of the slots. So K segments stand one in each K-th of the cluster.
CREATE FUNCTION segment_tag(p_voucher bigint, p_segment integer, p_segments integer) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
    v_tag    text    := p_voucher || '.' || p_segment;
    v_suffix integer := 0;
BEGIN
    IF p_segments = 1 THEN
        RETURN p_voucher::text;
    END IF;
    WHILE slot_of(v_tag)::integer * p_segments / 16384 <> p_segment LOOP
        v_suffix := v_suffix + 1;
        v_tag := p_voucher || '.' || p_segment || '.' || v_suffix;
    END LOOP;
    RETURN v_tag;
END
$$;

-- ---- changes ----

-- A new offer makes tickets of the one before it void. What leaves the offer as it is: the title, the state, the stock,
-- a rebuild, which does not touch the voucher's row at all.
CREATE FUNCTION number_voucher_change() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE seckill_catalogue SET change = change + 1 RETURNING change INTO NEW.change;
    IF TG_OP = 'UPDATE'
       AND (NEW.price_cents, NEW.currency, NEW.begin_at, NEW.end_at, NEW.user_limit, NEW.ticket, NEW.work_bits)
           <> (OLD.price_cents, OLD.currency, OLD.begin_at, OLD.end_at, OLD.user_limit, OLD.ticket, OLD.work_bits) THEN
        NEW.offer := OLD.offer + 1;
    END IF;
    PERFORM pg_notify('seckill_catalogue', '');
    RETURN NEW;
END
$$;

CREATE TRIGGER number_change BEFORE INSERT OR UPDATE ON seckill_voucher
    FOR EACH ROW EXECUTE FUNCTION number_voucher_change();

-- The next vouchers that changed after p_after, at most p_most of them, in the order of their changes: a row for each
-- segment. Each row carries the newest change number and the newest voucher's id of the same moment; if no voucher
-- changed, one row has nothing else.
--
-- From p_after = 0 on a reader knows no voucher yet, and retired ones are left out. If that takes several pages, the
-- later ones tell in p_first the newest change of the first page: what was retired up to then is left out as well.
CREATE FUNCTION catalogue_changes(p_after bigint, p_most integer, p_first bigint DEFAULT 0)
RETURNS TABLE (newest_change bigint, newest_voucher bigint, change bigint, voucher_id bigint, state text,
               begin_ms bigint, end_ms bigint, segments smallint, segment smallint, tag text, slot smallint,
               user_limit smallint, pay_within_s integer, ticket integer, work_bits smallint, offer integer)
LANGUAGE sql STABLE AS $$
    SELECT c.change, coalesce((SELECT max(id) FROM seckill_voucher), 0), v.change, v.id, v.state,
           unix_ms(v.begin_at), unix_ms(v.end_at), v.segments, s.segment, s.tag, s.slot,
           v.user_limit, v.pay_within_s, v.ticket::integer, v.work_bits, v.offer
      FROM seckill_catalogue c
      LEFT JOIN ((SELECT * FROM seckill_voucher changed
                   WHERE changed.change > p_after
                     AND (changed.state <> 'retired' OR (p_after > 0 AND changed.change > p_first))
                   ORDER BY changed.change
                   LIMIT p_most) v
                 JOIN seckill_segment s ON s.voucher_id = v.id) ON true
     ORDER BY v.change, s.segment
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
        INSERT INTO seckill_segment (voucher_id, segment, tag, slot, units, stock)
        SELECT v_voucher.id, s.segment, s.tag, slot_of(s.tag), s.units, s.units
          FROM (SELECT n AS segment, segment_tag(v_voucher.id, n, v_voucher.segments) AS tag,
                       p_stock / v_voucher.segments + (n < p_stock % v_voucher.segments)::integer AS units
                  FROM generate_series(0, v_voucher.segments - 1) AS n) s;
        INSERT INTO admin_event (by_whom, what, voucher_id, change, detail)
        VALUES (p_by, 'created', v_voucher.id, v_voucher.change,
                jsonb_build_object('title', p_title, 'price_cents', p_price_cents, 'currency', p_currency, 'stock', p_stock,
                                   'limit', p_user_limit, 'pay_within_s', p_pay_within_s,
                                   'ticket', p_ticket, 'work_bits', p_work_bits,
                                   'begin_at', rfc3339(v_voucher.begin_at), 'end_at', rfc3339(v_voucher.end_at)));
    END IF;
    outcome := CASE WHEN v_voucher.create_terms = v_terms THEN 'created' ELSE 'reused' END;
    id := v_voucher.id;
    epoch := (SELECT s.epoch FROM seckill_segment s WHERE s.voucher_id = v_voucher.id AND s.segment = 0);
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

-- ---- the end of a sale ----

-- Retires a voucher whose sale has ended and of which nothing is open, no order that is still to expire either, if the segment is still under the epoch that the
-- caller saw. All its segments get a new epoch, so an instance that still holds an order of it is fenced off.
CREATE FUNCTION retire_voucher(p_voucher bigint, p_slot integer, p_epoch bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM seckill_catalogue FOR UPDATE; -- as everything that changes a voucher: before its own row
    PERFORM FROM seckill_segment s WHERE s.voucher_id = p_voucher ORDER BY s.segment FOR UPDATE;
    IF NOT EXISTS (SELECT FROM seckill_segment s
                    WHERE s.voucher_id = p_voucher AND s.slot = p_slot AND s.epoch = p_epoch)
       OR EXISTS (SELECT FROM dead_letter d WHERE d.voucher_id = p_voucher AND d.ended_at IS NULL)
       OR EXISTS (SELECT FROM seckill_voucher v
                    JOIN seckill_segment s ON s.voucher_id = v.id
                   CROSS JOIN LATERAL (SELECT FROM voucher_order o
                                        WHERE o.slot = s.slot AND o.voucher_id = s.voucher_id AND o.id >= s.due_after
                                          AND o.status = 'unpaid' LIMIT 1 OFFSET 0) unpaid
                   WHERE v.id = p_voucher AND v.pay_within_s > 0) THEN
        RETURN false;
    END IF;
    UPDATE seckill_voucher v SET state = 'retired'
     WHERE v.id = p_voucher AND v.end_at <= now() AND v.state <> 'retired';
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE seckill_segment s SET epoch = s.epoch + 1, journal_ms = 0, journal_seq = 0 WHERE s.voucher_id = p_voucher;
    RETURN true;
END
$$;

-- What is to be known of an order that no sale of the catalogue has: the newest epoch at which a sale in its slot was
-- retired (0: none was), and whether the order may be one that was moved out to a file.
CREATE FUNCTION retired_epoch(p_slot integer, p_id uuid) RETURNS TABLE (epoch bigint, archived boolean)
LANGUAGE sql STABLE AS $$
    SELECT (SELECT coalesce(max(s.epoch), 0)
              FROM seckill_segment s
              JOIN seckill_voucher v ON v.id = s.voucher_id
             WHERE s.slot = p_slot AND v.state = 'retired'),
           EXISTS (SELECT FROM archived_orders a
                    WHERE a.slot = p_slot AND p_id BETWEEN a.first_id AND a.last_id)
$$;

-- Makes a retired voucher one of the catalogue again, closed: 'recalled'; or 'archived': its orders are not all here;
-- or 'none': it is not retired.
CREATE FUNCTION recall_voucher(p_voucher bigint) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM seckill_catalogue FOR UPDATE;
    IF EXISTS (SELECT FROM archived_voucher a WHERE a.voucher_id = p_voucher) THEN
        RETURN 'archived';
    END IF;
    UPDATE seckill_voucher v SET state = 'closed' WHERE v.id = p_voucher AND v.state = 'retired';
    RETURN CASE WHEN FOUND THEN 'recalled' ELSE 'none' END;
END
$$;

-- A voucher that is not in the catalogue: its state (NULL: there is none; 'archived': retired, and orders of it are in
-- files), and the live order that the user has of it.
CREATE FUNCTION find_retired(p_voucher bigint, p_user text) RETURNS TABLE (state text, live_id uuid)
LANGUAGE sql STABLE AS $$
    SELECT (SELECT CASE WHEN EXISTS (SELECT FROM archived_orders a WHERE a.voucher_id = p_voucher) THEN 'archived'
                        ELSE v.state END
              FROM seckill_voucher v WHERE v.id = p_voucher),
           (SELECT o.id FROM voucher_order o
             WHERE o.user_id = p_user AND o.voucher_id = p_voucher AND o.status IN ('unpaid', 'paid')
             LIMIT 1)
$$;
