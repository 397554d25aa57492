-- Who may do what. Tables and functions belong to the login that migrates, which is no superuser. Two roles own nothing,
-- define nothing, and may call functions, which run with the owner's rights; of the tables they see nothing:
--
--   seckill_service  the service
--   seckill_keeper   `seckill archive` and `seckill erase`, which move and change rows that the service may only add
--
-- Give them to logins (GRANT seckill_service TO ...). Roles belong to the whole server, so they may exist.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'seckill_service') THEN
        CREATE ROLE seckill_service NOLOGIN;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'seckill_keeper') THEN
        CREATE ROLE seckill_keeper NOLOGIN;
    END IF;
END
$$;

-- What is called from outside runs as the owner, in the schema that it was made in: no caller's search_path leads it
-- elsewhere. What only these call is for no other role; what only computes, without a table, stays everybody's.
DO $$
DECLARE
    v_service  text[] := ARRAY[
        'catalogue_changes(bigint, integer, bigint)',
        'create_voucher(text, text, bigint, integer, bigint, bigint, smallint, integer, text, text, boolean,'
        ' smallint)',
        'find_voucher(bigint)',
        'place_orders(integer, bigint, bigint, uuid[], text[], text, smallint[], text[], integer)',
        'place_batches(integer[], bigint[], bigint[], integer[], uuid[], text[], text[], smallint[], text[], integer[])',
        'buyer_value(integer, bigint, uuid)',
        'refuse_orders(integer, bigint, uuid[], text[], text[], smallint[], integer[])',
        'find_order(integer, uuid, text)',
        'return_batches(integer[], bigint[], bigint[], integer[], uuid[], text, text, text, text[])',
        'return_orders(integer, bigint, bigint, uuid[], text, text, text, text)',
        'return_retired(integer, bigint, uuid, text, text, text)', 'due_orders(integer, bigint, uuid, integer)',
        'set_aside(integer, bigint, text, bytea, text, text, integer)', 'find_dead_letter(integer, bigint, bigint)',
        'write_off(integer, bigint, bigint)', 'end_settled_letters()',
        'voucher_accounts(integer[], bigint[])', 'voucher_changes(integer, bigint, bigint)',
        'rebuild_epoch(integer, bigint, bigint, integer)', 'rebuild_stock(integer, bigint, bigint)',
        'rebuild_buyers(integer, bigint, uuid, integer, integer)',
        'find_any_order(integer, uuid)', 'find_for_move(integer, uuid, text, order_status)',
        'pay_order(integer, uuid, text, bigint, text, text)', 'note_refunds(integer, uuid, text, text, text)',
        'may_retire(bigint, bigint)', 'retire_voucher(bigint, integer, bigint)', 'recall_voucher(bigint)',
        'find_retired(bigint, text)', 'retired_epoch(integer, uuid)',
        'change_voucher(bigint, bigint, text, text, text, bigint, text, bigint, bigint, smallint, integer, boolean,'
        ' smallint)',
        'set_voucher_state(bigint, bigint, text, text, text)', 'add_units(bigint, bigint, text, text, integer)',
        'may_remove_units(bigint, bigint, text, integer)',
        'remove_units(integer, bigint, bigint, bigint, text, text, integer)',
        'list_vouchers(text, bigint, integer)', 'list_orders(text, uuid, integer, uuid[], bigint[])',
        'list_all_orders(bigint, order_status, timestamptz, timestamptz, uuid, integer)',
        'list_dead_letters(integer, bigint, bigint, integer)', 'list_admin_events(bigint, xid8, bigint, integer)',
        'order_events(xid8, bigint, integer)', 'latest_events(integer, integer)',
        'orders_moved(text)', 'orders_changed(integer[], uuid[], text[], text[])',
        'settlement(bigint)', 'settlement_account(bigint)'];
    -- These by their names alone, so that a list of the service's functions can be read from this file.
    v_keeper   text[] := ARRAY['archive_next', 'archive_part', 'archive_drop', 'archive_end', 'erase_user', 'erase_in_part'];
    v_inner    text[] := ARRAY['order_offer', 'voucher_of_order', 'voucher_is_open', 'begin_operation', 'end_operation',
                                'duplicate_orders', 'archive_lines'];
    v_function text;
BEGIN
    FOREACH v_function IN ARRAY v_service || v_keeper || v_inner LOOP
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', v_function);
    END LOOP;
    FOREACH v_function IN ARRAY v_service || v_keeper LOOP
        EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER SET search_path = %I, pg_temp', v_function, current_schema());
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', v_function,
                       CASE WHEN v_function = ANY (v_keeper) THEN 'seckill_keeper' ELSE 'seckill_service' END);
    END LOOP;
END
$$;
