-- As in 005_returns.sql, but it does not wait for the row of `voucher_stock`: a later walk moves `due_after`. One statement
-- walks along 16 vouchers. If one of their rows was locked for long, it failed for all of them, and while it waited it kept
-- the rows of the others from their buyers.
CREATE OR REPLACE FUNCTION due_orders(p_slot integer, p_voucher bigint, p_from uuid, p_most integer)
RETURNS TABLE (due uuid[], walked_to uuid, next_ms bigint, now_ms bigint)
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    v_within interval;
    v_after  uuid;
    v_order  record;
    v_first  uuid;        -- the first that is unpaid
    v_last   uuid;
    v_next   timestamptz;
    v_at     timestamptz;
    v_rows   integer := 0;
    v_young  uuid;         -- ids from this one on are too new, but for the clocks
    v_newer  integer := 0; -- so many of them
BEGIN
    due := '{}';
    now_ms := unix_ms(clock_timestamp());
    SELECT make_interval(secs => v.pay_within_s), s.due_after INTO v_within, v_after
      FROM voucher_stock s JOIN seckill_voucher v ON v.id = s.voucher_id
     WHERE s.voucher_id = p_voucher AND s.slot = p_slot;
    IF v_within > interval '0' THEN
        v_young := uuid_at(now() - v_within);
        FOR v_order IN SELECT o.id, o.status, o.created_at FROM voucher_order o
                        WHERE o.slot = p_slot AND o.voucher_id = p_voucher AND o.id >= coalesce(p_from, v_after)
                          AND o.id IS DISTINCT FROM p_from
                        ORDER BY o.slot, o.voucher_id, o.id LIMIT 2000 LOOP
            v_rows := v_rows + 1;
            v_last := v_order.id;
            v_newer := v_newer + (v_order.id >= v_young)::integer;
            IF v_order.status = 'unpaid' THEN
                v_first := coalesce(v_first, v_order.id);
                v_at := v_order.created_at + v_within;
                IF v_at <= now() THEN
                    due := due || v_order.id;
                ELSE
                    v_next := least(v_next, v_at);
                END IF;
            END IF;
            EXIT WHEN v_newer >= 500 OR cardinality(due) >= p_most;
        END LOOP;
        IF v_newer >= 500 THEN
            v_next := least(v_next, v_within + to_timestamp(
                ('x' || translate(left(v_last::text, 13), '-', ''))::bit(48)::bigint / 1000.0)); -- uuid_at(), backwards
        ELSIF v_rows = 2000 OR cardinality(due) >= p_most THEN
            walked_to := v_last;
        END IF;
        -- Only where it saves much: buyers need this row, too.
        IF coalesce(p_from = v_after, true) AND v_rows >= 500 AND coalesce(v_first, v_last) > v_after THEN
            -- What was settled late has come in before the lock, or will see due_after.
            PERFORM FROM voucher_stock s WHERE s.voucher_id = p_voucher AND s.slot = p_slot FOR UPDATE SKIP LOCKED;
            IF FOUND THEN
                PERFORM FROM voucher_order o
                  WHERE o.slot = p_slot AND o.voucher_id = p_voucher AND o.id >= v_after
                    AND o.id < coalesce(v_first, v_last) AND o.status = 'unpaid'
                  ORDER BY o.slot, o.voucher_id, o.id LIMIT 1;
                IF NOT FOUND THEN
                    UPDATE voucher_stock s SET due_after = coalesce(v_first, v_last)
                     WHERE s.voucher_id = p_voucher AND s.slot = p_slot AND s.due_after = v_after;
                END IF;
            END IF;
        END IF;
    END IF;
    next_ms := unix_ms(v_next);
    RETURN NEXT;
END
$$;

DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION due_orders(integer, bigint, uuid, integer) SECURITY DEFINER SET search_path = %I, pg_temp',
                   current_schema());
END
$$;
