-- A commit waits for the synchronous standbys only if its transaction has written something. When such a wait was
-- cancelled, or its answer was lost, the call is repeated (store/pg_link.c), and the repeat must not be answered before
-- the first commit is replicated. Calls that lock a row first (FOR UPDATE) do write: place_orders(), return_batches(),
-- pay_order(), and all operators' calls. Their commit comes after the first one in the log, so a standby that has it has
-- both. These two find their rows and change nothing: now they write an empty message, which no server replays.
CREATE OR REPLACE FUNCTION refuse_orders(p_slot integer, p_voucher bigint, p_ids uuid[], p_users text[],
                                         p_reasons text[], p_quantities smallint[], p_offers integer[] DEFAULT NULL)
RETURNS TABLE (n integer, outcome text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    INSERT INTO voucher_order (id, slot, user_id, voucher_id, quantity, offer, status, reason)
    SELECT o.id, p_slot, o.user_id, p_voucher, o.quantity, coalesce(o.offer, 0), 'refused', o.reason
      FROM unnest(p_ids, p_users, p_reasons, p_quantities, p_offers) AS o (id, user_id, reason, quantity, offer)
     WHERE NOT EXISTS (SELECT FROM archived_voucher a WHERE a.voucher_id = p_voucher)
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        PERFORM pg_logical_emit_message(true, 'seckill', '');
    END IF;
    RETURN QUERY
    SELECT o.n::integer, CASE WHEN own.status IN ('unpaid', 'paid') THEN 'already_placed' ELSE 'ended' END
      FROM unnest(p_ids) WITH ORDINALITY AS o (id, n)
      LEFT JOIN LATERAL (SELECT w.status FROM voucher_order w
                          WHERE w.slot = p_slot AND w.voucher_id = p_voucher AND w.id = o.id OFFSET 0) own ON true
     ORDER BY o.n;
END
$$;

CREATE OR REPLACE FUNCTION set_aside(p_slot integer, p_voucher bigint, p_journal text, p_raw bytea, p_orders text,
                                     p_reason text, p_offer integer DEFAULT 0)
RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_added boolean;
BEGIN
    INSERT INTO dead_letter (slot, voucher_id, journal_id, raw, orders, reason, offer)
    SELECT p_slot, p_voucher, p_journal, p_raw, p_orders, p_reason, p_offer
     WHERE p_orders IS NULL
        OR EXISTS (SELECT unnest(string_to_array(p_orders, ','))
                   EXCEPT
                   SELECT unnest(string_to_array(d.orders, ','))
                     FROM dead_letter d
                    WHERE d.voucher_id = p_voucher AND d.slot = p_slot AND d.ended_at IS NULL)
    ON CONFLICT DO NOTHING;
    v_added := FOUND;
    IF NOT v_added THEN
        PERFORM pg_logical_emit_message(true, 'seckill', '');
    END IF;
    RETURN v_added;
END
$$;

DO $$
DECLARE
    v_function text;
BEGIN
    FOREACH v_function IN ARRAY ARRAY[
        'refuse_orders(integer, bigint, uuid[], text[], text[], smallint[], integer[])',
        'set_aside(integer, bigint, text, bytea, text, text, integer)'] LOOP
        EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER SET search_path = %I, pg_temp', v_function, current_schema());
    END LOOP;
END
$$;
