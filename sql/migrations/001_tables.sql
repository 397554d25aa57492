-- Vouchers on sale and the orders for them. PostgreSQL decides last: the CHECK on stock, the unique
-- index on live orders and the epoch carry the promises, whatever Redis or a lock may have said.

CREATE TABLE seckill_voucher (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    title         text        NOT NULL,
    price_cents   bigint      NOT NULL CHECK (price_cents >= 0),
    initial_stock integer     NOT NULL CHECK (initial_stock >= 0), -- units ever offered
    stock         integer     NOT NULL CHECK (stock >= 0),         -- units not in a live order
    begin_at      timestamptz NOT NULL,
    end_at        timestamptz NOT NULL,
    state         text        NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'closed')),
    epoch         bigint      NOT NULL DEFAULT 0,                  -- fencing token: who may write orders
    created_at    timestamptz NOT NULL DEFAULT now(),
    CHECK (begin_at < end_at),
    CHECK (stock <= initial_stock)
);

CREATE TYPE order_status AS ENUM ('unpaid', 'paid', 'cancelled', 'refused');

-- No foreign key: place_orders() holds the voucher's row lock while it inserts, so the voucher
-- exists, and a check of every row would be work that cannot fail.
CREATE TABLE voucher_order (
    id         uuid PRIMARY KEY, -- UUIDv7, made by the service
    user_id    text         NOT NULL COLLATE "C",
    voucher_id bigint       NOT NULL,
    status     order_status NOT NULL DEFAULT 'unpaid',
    reason     text, -- why a refused order was refused
    created_at timestamptz  NOT NULL DEFAULT now(),
    updated_at timestamptz  NOT NULL DEFAULT now(),
    CHECK ((status = 'refused') = (reason IS NOT NULL))
);

-- One live order per user and voucher.
CREATE UNIQUE INDEX voucher_order_live ON voucher_order (user_id, voucher_id)
    WHERE status IN ('unpaid', 'paid');
-- The rest of a user's orders; the two indexes together serve GET /orders.
CREATE INDEX voucher_order_ended ON voucher_order (user_id)
    WHERE status IN ('cancelled', 'refused');
