-- The events after a position. `type` is a member from before events had names (docs/http.md), which nobody reads here.
SELECT tx, seq, document->>'event', document->>'at', document::jsonb - 'type'
  FROM order_events($1::xid8, $2::bigint, $3::integer, $4::text)
