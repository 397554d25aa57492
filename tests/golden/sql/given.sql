-- What transcripts begin with, in a schema of its own.
CREATE SCHEMA golden;
GRANT USAGE ON SCHEMA golden TO PUBLIC;

-- A voucher on sale under epoch 3. The first one of a case is 1.
CREATE FUNCTION golden.voucher(p_units integer) RETURNS void
LANGUAGE sql SECURITY DEFINER AS $$
    SELECT create_voucher((SELECT 'key-' || count(*) FROM seckill_voucher), 'Title', 100, p_units,
                          unix_ms(now() - interval '1 h'), unix_ms(now() + interval '1 h'));
    UPDATE voucher_stock SET epoch = 3 WHERE epoch = 0;
$$;

-- How many rows of orders, payments and events this session has read so far.
CREATE FUNCTION golden.rows_read() RETURNS bigint
LANGUAGE sql VOLATILE AS $$
    SELECT sum(seq_tup_read + idx_tup_fetch)::bigint FROM pg_stat_xact_user_tables
     WHERE relname IN ('voucher_order', 'payment', 'order_event', 'order_placed')
$$;

-- Orders #FIRST to #LAST of the users u<n>, of the newest voucher.
CREATE FUNCTION golden.orders(p_first integer, p_last integer, p_quantity integer) RETURNS void
LANGUAGE sql SECURITY DEFINER AS $$
    INSERT INTO voucher_order (id, slot, user_id, voucher_id, quantity)
    SELECT ('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, slot_of(v.id::text), 'u' || n, v.id, p_quantity
      FROM generate_series(p_first, p_last) n, (SELECT max(id) AS id FROM seckill_voucher) v;
    UPDATE voucher_stock
       SET live = live + p_last - p_first + 1, stock = greatest(stock - (p_last - p_first + 1) * p_quantity, 0),
           units = greatest(units, units + (p_last - p_first + 1) * p_quantity - stock)
     WHERE voucher_id = (SELECT max(id) FROM seckill_voucher);
$$;

-- Sets the time in the ids that have none.
CREATE FUNCTION golden.date_ids(p_at timestamptz) RETURNS void
LANGUAGE sql SECURITY DEFINER AS $$
    UPDATE voucher_order SET id = (left(uuid_at(p_at)::text, 13) || right(id::text, 23))::uuid
     WHERE id < '00000001-0000-0000-0000-000000000000';
$$;

-- Walks along all orders of voucher 1 that may be due. How many rows that reads.
CREATE FUNCTION golden.walk() RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_before bigint := golden.rows_read();
    v_from   uuid;
BEGIN
    LOOP
        SELECT walked_to INTO v_from FROM due_orders(slot_of('1'), 1, v_from, 128);
        EXIT WHEN v_from IS NULL;
    END LOOP;
    RETURN golden.rows_read() - v_before;
END
$$;

-- The ids #FIRST, #(FIRST + STEP) ...
CREATE FUNCTION golden.ids(p_first integer, p_step integer, p_count integer) RETURNS uuid[]
LANGUAGE sql AS $$
    SELECT array_agg(('00000000-0000-7000-8000-' || lpad((p_first + p_step * n)::text, 12, '0'))::uuid ORDER BY n)
      FROM generate_series(0, p_count - 1) n
$$;

-- Reads the buyers of a voucher as a rebuild does: how many live orders, calls, and rows.
CREATE FUNCTION golden.rebuild(p_voucher bigint, OUT live integer, OUT calls integer, OUT rows bigint)
LANGUAGE plpgsql AS $$
DECLARE
    v_before bigint := golden.rows_read();
    v_after  uuid   := '00000000-0000-0000-0000-000000000000';
    v_count  integer;
    v_live   integer;
    v_last   uuid;
BEGIN
    live := 0;
    calls := 0;
    LOOP
        SELECT count(*), count(*) FILTER (WHERE kind = 'live'), max(id::text)::uuid INTO v_count, v_live, v_last
          FROM rebuild_buyers(slot_of(p_voucher::text), p_voucher, v_after, 500, 20);
        live := live + v_live;
        calls := calls + 1;
        EXIT WHEN v_count < 500;
        v_after := v_last;
    END LOOP;
    rows := golden.rows_read() - v_before;
END
$$;

-- All pages of a voucher's orders, each from where the one before it ended: how many, and whose orders.
CREATE FUNCTION golden.pages(p_voucher bigint, p_status order_status, p_limit integer, OUT pages integer, OUT users text)
LANGUAGE plpgsql AS $$
DECLARE
    v_row    record;
    v_before uuid;
    v_shown  integer;
BEGIN
    pages := 0;
    LOOP
        pages := pages + 1;
        v_shown := 0;
        FOR v_row IN SELECT * FROM list_all_orders(p_voucher, p_status, NULL, NULL, v_before, p_limit + 1) LOOP
            EXIT WHEN v_shown = p_limit;
            v_before := v_row.id;
            EXIT WHEN v_row.document IS NULL;
            v_shown := v_shown + 1;
            users := concat_ws(' ', users, v_row.document->>'user_id');
        END LOOP;
        EXIT WHEN NOT FOUND OR (v_shown < p_limit AND v_row.document IS NOT NULL);
    END LOOP;
END
$$;

-- An order with what became of it, which only the service's functions may show.
CREATE FUNCTION golden.details(p_id uuid) RETURNS json
LANGUAGE sql SECURITY DEFINER AS $$
    SELECT order_details_json(o) FROM voucher_order o WHERE o.id = p_id
$$;
