-- As in 005_returns.sql, but a refund that keeps the units names its journal entry "<id>@<epoch>". A Redis that has
-- lost data reuses ids if its clock is behind. Older events have the id alone.
CREATE OR REPLACE FUNCTION return_batches(p_slots integer[], p_vouchers bigint[], p_epochs bigint[], p_counts integer[],
                                          p_ids uuid[], p_move text, p_by text, p_why text, p_journals text[])
RETURNS TABLE (n integer, outcome text, user_id text, units integer, nth smallint, batch integer)
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    v_status  order_status := split_part(p_move, '-', 1)::order_status;
    v_reason  text := CASE p_move WHEN 'refunded' THEN 'RESTOCKED' WHEN 'refunded-kept' THEN 'KEPT' END;
    v_from    order_status[] := ARRAY(SELECT m.from_status FROM order_move m WHERE m.to_status = v_status);
    v_slots   integer[]; -- of entries; NULL: stale
    v_batches integer[]; -- of ids
BEGIN
    PERFORM FROM unnest(p_slots, p_vouchers) AS e (slot, voucher)
      JOIN voucher_stock s ON s.voucher_id = e.voucher AND s.slot = e.slot
     ORDER BY s.voucher_id
       FOR UPDATE OF s;
    v_slots := ARRAY(
        SELECT s.slot
          FROM unnest(p_slots, p_vouchers, p_epochs) WITH ORDINALITY AS e (slot, voucher, epoch, batch)
          LEFT JOIN seckill_voucher v ON v.id = e.voucher
          LEFT JOIN voucher_stock s
            ON s.voucher_id = e.voucher AND s.slot = e.slot
           AND e.epoch IS NOT DISTINCT FROM CASE WHEN v.state <> 'retired' THEN s.epoch END
         ORDER BY e.batch);
    v_batches := ARRAY(SELECT e.batch FROM unnest(p_counts) WITH ORDINALITY AS e (count, batch), generate_series(1, e.count)
                        ORDER BY e.batch);
    WITH moved AS (
        UPDATE voucher_order o
           SET status = v_status, reason = v_reason, updated_at = now(),
               ended_nth = 1 + coalesce((SELECT max(w.ended_nth) FROM voucher_order w
                                          WHERE w.user_id = o.user_id AND w.voucher_id = o.voucher_id
                                            AND w.ended_nth IS NOT NULL), 0)
          FROM unnest(p_ids, v_batches) AS a (id, batch), seckill_voucher v
         WHERE o.slot = v_slots[a.batch] AND o.voucher_id = p_vouchers[a.batch] AND o.id = a.id
           AND v.id = p_vouchers[a.batch] AND o.status = ANY (v_from)
           AND (v_status <> 'expired' OR expires_at(o.created_at, v.pay_within_s) <= now())
        RETURNING o.slot, o.voucher_id, o.id, o.quantity, a.batch
    ), noted AS (
        INSERT INTO order_event (slot, voucher_id, order_id, status, by_whom, why, journal)
        SELECT m.slot, m.voucher_id, m.id, v_status, p_by, p_why,
               CASE WHEN v_reason = 'KEPT' THEN p_journals[m.batch] || '@' || p_epochs[m.batch] END
          FROM moved m
    ), given_back AS (
        UPDATE payment p SET state = 'refunded' FROM moved m
         WHERE v_status = 'refunded' AND p.order_id = m.id AND p.state = 'accepted'
    )
    UPDATE voucher_stock s
       SET stock = stock + CASE WHEN v_reason = 'KEPT' THEN 0 ELSE m.units END, live = live - m.orders
      FROM (SELECT slot, voucher_id, sum(quantity) AS units, count(*) AS orders FROM moved GROUP BY slot, voucher_id) m
     WHERE s.voucher_id = m.voucher_id AND s.slot = m.slot;
    RETURN QUERY
    SELECT a.n::integer,
           CASE WHEN own.status IS NULL THEN 'unknown'
                WHEN own.status IN ('cancelled', 'expired', 'refunded') THEN 'returned'
                ELSE 'kept' END,
           own.user_id,
           CASE WHEN own.reason = 'KEPT' THEN
                    (SELECT 0 FROM order_event e
                      WHERE e.order_id = own.id
                        AND e.journal IN (p_journals[a.batch] || '@' || p_epochs[a.batch], p_journals[a.batch]))
                WHEN own.status IN ('cancelled', 'expired', 'refunded') THEN own.quantity
                ELSE 0 END::integer,
           own.ended_nth, a.batch
      FROM (SELECT i.id, i.batch, row_number() OVER (PARTITION BY i.batch ORDER BY i.at) AS n
              FROM unnest(p_ids, v_batches) WITH ORDINALITY AS i (id, batch, at)) a
      LEFT JOIN LATERAL (SELECT w.id, w.user_id, w.status, w.reason, w.quantity, w.ended_nth
                           FROM voucher_order w
                          WHERE w.slot = v_slots[a.batch] AND w.voucher_id = p_vouchers[a.batch] AND w.id = a.id
                         OFFSET 0) own ON true
     WHERE v_slots[a.batch] IS NOT NULL
    UNION ALL
    SELECT NULL, 'stale', NULL, NULL, NULL, e.batch::integer
      FROM unnest(v_slots) WITH ORDINALITY AS e (slot, batch) WHERE e.slot IS NULL
     ORDER BY 6, 1;
END
$$;

DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION return_batches(integer[], bigint[], bigint[], integer[], uuid[], text, text, text, text[])'
                   ' SECURITY DEFINER SET search_path = %I, pg_temp', current_schema());
END
$$;
