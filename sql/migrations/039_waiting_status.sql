-- The status of an order that waits for a unit (040_waiting.sql). PostgreSQL uses a new value only once it is committed, so
-- it has a migration of its own.
ALTER TYPE order_status ADD VALUE 'waiting' BEFORE 'unpaid';
