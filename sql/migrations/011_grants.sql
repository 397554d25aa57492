-- The service's role: reads and writes rows, owns nothing, defines nothing, deletes nothing. Give it to the login that
-- the service uses (GRANT seckill_service TO ...). Roles belong to the whole server, so it may exist. The functions run
-- with the caller's rights.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'seckill_service') THEN
        CREATE ROLE seckill_service NOLOGIN;
    END IF;
END
$$;

GRANT SELECT, INSERT, UPDATE ON seckill_voucher, seckill_segment, voucher_order, dead_letter, payment TO seckill_service;
GRANT SELECT, UPDATE ON seckill_catalogue TO seckill_service;
GRANT SELECT, INSERT ON order_event, admin_event, stock_change, admin_request TO seckill_service;
GRANT SELECT ON held_order, order_move TO seckill_service;

-- What only reads or computes does so with the caller's rights, too; still, nothing is for everyone.
DO $$
DECLARE
    v_functions text := 'catalogue_changes(bigint, integer, bigint),'
        'create_voucher(text, text, bigint, integer, bigint, bigint, smallint, integer, text, text, boolean,'
        'smallint),'
        'find_voucher(bigint),'
        'retire_voucher(bigint, integer, bigint), recall_voucher(bigint), find_retired(bigint, text),'
        'retired_epoch(integer),'
        'place_orders(integer, bigint, bigint, uuid[], text[], text, smallint[], text[]),'
        'place_batches(integer[], bigint[], bigint[], integer[], uuid[], text[], text[], smallint[], text[]),'
        'refuse_orders(integer, bigint, uuid[], text[], text[], smallint[]),'
        'return_orders(integer, bigint, bigint, uuid[], text, text, text, text), due_orders(integer, bigint, uuid, integer),'
        'find_order(integer, uuid, text),'
        'orders_moved(text), orders_changed(integer[], uuid[], text[], text[]),'
        'find_any_order(integer, uuid), find_for_move(integer, uuid, text, order_status),'
        'voucher_of_order(integer, uuid), pay_order(integer, uuid, text, bigint, text, text),'
        'note_refunds(integer, uuid, text, text), return_retired(integer, bigint, uuid, text, text, text),'
        'set_aside(integer, bigint, text, bytea, text, text),'
        'find_dead_letter(integer, bigint, bigint),'
        'write_off(integer, bigint, bigint), end_settled_letters(),'
        'segment_accounts(integer[], bigint[]), settlement(bigint), rebuild_epoch(integer, bigint, bigint),'
        'rebuild_stock(integer, bigint, bigint), rebuild_buyers(integer, bigint, uuid, integer),'
        'begin_operation(bigint, bigint, text, bytea), end_operation(text, bigint, text, bytea, bigint),'
        'change_voucher(bigint, bigint, text, text, text, bigint, text, bigint, bigint, smallint, integer, boolean,'
        'smallint),'
        'set_voucher_state(bigint, bigint, text, text, text), add_units(bigint, bigint, text, text, integer),'
        'may_remove_units(bigint, bigint, text, integer),'
        'remove_units(integer, bigint, bigint, bigint, text, text, integer), segment_changes(integer, bigint, bigint),'
        'list_vouchers(text, bigint, integer), list_orders(text, uuid, integer, uuid[], bigint[]),'
        'list_all_orders(bigint, order_status, timestamptz, timestamptz, integer, uuid, integer),'
        'list_dead_letters(integer, bigint, bigint, integer), list_admin_events(bigint, xid8, bigint, integer),'
        'order_events(xid8, bigint, integer)';
BEGIN
    EXECUTE 'REVOKE EXECUTE ON FUNCTION ' || v_functions || ' FROM PUBLIC';
    EXECUTE 'GRANT EXECUTE ON FUNCTION ' || v_functions || ' TO seckill_service';
END
$$;
