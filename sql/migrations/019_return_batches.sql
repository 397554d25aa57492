-- Entries of several segments in one transaction, all of one move: a commit costs the same for one order as for hundreds.
-- Entry i has the next p_counts[i] of p_ids. Segments are locked in the order of place_batches(). Returns the outcomes of
-- return_orders(), and which entry (from 1) they are about.
CREATE FUNCTION return_batches(p_slots integer[], p_vouchers bigint[], p_epochs bigint[], p_counts integer[],
                               p_ids uuid[], p_move text, p_by text, p_why text, p_journals text[])
RETURNS TABLE (n integer, outcome text, user_id text, units integer, nth smallint, batch integer)
LANGUAGE plpgsql AS $$
DECLARE
    v_before integer := 0;
BEGIN
    PERFORM FROM seckill_segment s
      JOIN unnest(p_slots, p_vouchers) AS o (slot, voucher) ON s.voucher_id = o.voucher AND s.slot = o.slot
     ORDER BY s.voucher_id, s.slot
       FOR UPDATE OF s;
    FOR i IN 1 .. cardinality(p_slots) LOOP
        RETURN QUERY SELECT r.n, r.outcome, r.user_id, r.units, r.nth, i
                       FROM return_orders(p_slots[i], p_vouchers[i], p_epochs[i],
                                          p_ids[v_before + 1:v_before + p_counts[i]], p_move, p_by, p_why,
                                          p_journals[i]) r;
        v_before := v_before + p_counts[i];
    END LOOP;
END
$$;

-- Its plans are those of one order, by its key: made again for each call they cost as much as the call itself.
ALTER FUNCTION return_orders(integer, bigint, bigint, uuid[], text, text, text, text)
    SET plan_cache_mode = force_generic_plan;

-- As in 011_grants.sql.
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION return_batches(integer[], bigint[], bigint[], integer[], uuid[], text, text, text, text[])'
                   ' SECURITY DEFINER SET search_path = %I, pg_temp', current_schema());
END
$$;
REVOKE EXECUTE ON FUNCTION return_batches(integer[], bigint[], bigint[], integer[], uuid[], text, text, text, text[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION return_batches(integer[], bigint[], bigint[], integer[], uuid[], text, text, text, text[]) TO seckill_service;
