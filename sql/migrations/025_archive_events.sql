-- The archive's files of events get what 024_money.sql added to events: the type, which old_event_type() finds for rows
-- from before, and the reference of the payment. Both are at the end of a line.

-- As in 014_archive.sql, with these two. It keeps its rights: only archive_part() and archive_drop() call it.
CREATE OR REPLACE FUNCTION archive_lines(p_voucher bigint, p_most integer, p_locked boolean)
RETURNS TABLE (part integer, slot smallint, ids uuid[], orders text, events text, payments text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    slot := (SELECT s.slot FROM voucher_stock s WHERE s.voucher_id = p_voucher);
    ids := ARRAY(SELECT o.id FROM voucher_order o
                  WHERE o.slot = archive_lines.slot AND o.voucher_id = p_voucher
                    AND NOT EXISTS (SELECT FROM payment p
                                     WHERE p.order_id = o.id AND p.state = 'to_refund' OFFSET 0)
                  ORDER BY o.id LIMIT p_most);
    IF ids = '{}' THEN
        RETURN;
    END IF;
    IF p_locked THEN
        PERFORM FROM voucher_order o
          WHERE o.slot = archive_lines.slot AND o.voucher_id = p_voucher AND o.id = ANY (ids) ORDER BY o.id FOR UPDATE;
    END IF;
    part := (SELECT count(*) + 1 FROM archived_part a WHERE a.voucher_id = p_voucher);
    SELECT E'id,slot,voucher_id,user_id,quantity,status,reason,created_at,updated_at,request_key,offer,price_cents,currency\n' ||
           coalesce(string_agg(concat_ws(',', o.id, o.slot, o.voucher_id, csv_field(o.user_id), o.quantity, o.status,
                                         csv_field(o.reason), csv_time(o.created_at), csv_time(o.updated_at),
                                         csv_field(o.request_key), o.offer, coalesce(f.price_cents::text, ''),
                                         csv_field(f.currency)) || E'\n', '' ORDER BY o.id), '')
      INTO orders
      FROM unnest(ids) AS moved (id)
     CROSS JOIN LATERAL (SELECT * FROM voucher_order w
                          WHERE w.slot = archive_lines.slot AND w.voucher_id = p_voucher AND w.id = moved.id
                         OFFSET 0) o
      LEFT JOIN LATERAL order_offer(p_voucher, o.offer) f ON true;
    SELECT E'tx,seq,order_id,voucher_id,at,status,by,why,journal,type,reference\n' ||
           coalesce(string_agg(concat_ws(',', e.tx, e.seq, e.order_id, e.voucher_id, csv_time(e.at), e.status,
                                         csv_field(e.by_whom), csv_field(e.why), csv_field(e.journal), e.known_type,
                                         csv_field(e.reference)) || E'\n', '' ORDER BY e.tx, e.seq), '')
      INTO events
      FROM unnest(ids) AS moved (id)
     CROSS JOIN LATERAL (SELECT w.*, coalesce(w.type, old_event_type(w)) AS known_type
                           FROM order_event w
                          WHERE w.order_id = moved.id AND w.slot = archive_lines.slot AND w.voucher_id = p_voucher
                         OFFSET 0) e;
    SELECT E'reference,order_id,voucher_id,amount_cents,currency,state,by,at\n' ||
           coalesce(string_agg(concat_ws(',', csv_field(p.reference), p.order_id, p.voucher_id, p.amount_cents, p.currency,
                                         p.state, csv_field(p.by_whom), csv_time(p.at)) || E'\n', ''
                               ORDER BY p.order_id, p.reference), '')
      INTO payments
      FROM unnest(ids) AS moved (id)
     CROSS JOIN LATERAL (SELECT * FROM payment w
                          WHERE w.order_id = moved.id AND w.slot = archive_lines.slot AND w.voucher_id = p_voucher
                         OFFSET 0) p;
    RETURN NEXT;
END
$$;
