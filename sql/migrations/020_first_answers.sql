-- A purchase that is repeated under its Idempotency-Key gets its first answer again: 201 if the order has a row. The row
-- of an order whose commit did not wait for the synchronous standbys can be read (018_repeats_wait.sql), so this call
-- waits for them by an empty message of its own, which comes after the order's commit in the log.
--
-- While no standby is there, such a wait keeps its server process. The lock leaves one of them for each slot: the others
-- end by their lock_timeout.
CREATE FUNCTION find_replicated_order(p_slot integer, p_id uuid, p_user text) RETURNS SETOF json
LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY SELECT f FROM find_order(p_slot, p_id, p_user) AS f;
    IF FOUND AND current_setting('synchronous_standby_names') <> '' THEN
        PERFORM pg_advisory_xact_lock(hashtext('seckill_first_answer'), p_slot);
        PERFORM pg_logical_emit_message(true, 'seckill', '');
    END IF;
END
$$;

REVOKE EXECUTE ON FUNCTION find_replicated_order(integer, uuid, text) FROM PUBLIC;
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION find_replicated_order(integer, uuid, text) SECURITY DEFINER SET search_path = %I, pg_temp',
                   current_schema());
END
$$;
GRANT EXECUTE ON FUNCTION find_replicated_order(integer, uuid, text) TO seckill_service;
