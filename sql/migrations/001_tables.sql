-- Vouchers on sale and the orders for them. PostgreSQL decides last: the CHECK on stock, the unique index on live
-- orders and the epoch carry the promises, whatever Redis or a lock may have said.
--
-- A voucher's stock lives in segments (one by default). A segment is wholly in one slot of Redis Cluster, and the same
-- number routes in PostgreSQL: orders and dead letters carry the slot of their segment, and a segment is named by
-- (slot, voucher). Orders touch seckill_segment and voucher_order, never the catalogue.

-- The number of the newest change of the catalogue. Each change of a voucher locks this one row until it commits, so
-- numbers commit in their order, and a reader that has seen n has missed nothing before it.
CREATE TABLE seckill_catalogue (
    one    boolean PRIMARY KEY DEFAULT true CHECK (one),
    change bigint NOT NULL DEFAULT 0
);
INSERT INTO seckill_catalogue DEFAULT VALUES;

CREATE TABLE seckill_voucher (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    title        text        NOT NULL,
    price_cents  bigint      NOT NULL CHECK (price_cents >= 0),
    begin_at     timestamptz NOT NULL,
    end_at       timestamptz NOT NULL,
    state        text        NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'paused', 'closed', 'retired')),
    segments     smallint    NOT NULL DEFAULT 1 CHECK (segments BETWEEN 1 AND 1024),
    change       bigint      NOT NULL UNIQUE, -- set by a trigger
    created_at   timestamptz NOT NULL DEFAULT now(),
    create_key   text COLLATE "C" UNIQUE, -- the Idempotency-Key; NULL: inserted by other means
    create_terms bytea,                   -- SHA-256 of the terms as asked for: the voucher's own may change later
    CHECK (begin_at < end_at),
    CHECK ((create_key IS NULL) = (create_terms IS NULL))
);

CREATE TABLE seckill_segment (
    voucher_id  bigint   NOT NULL REFERENCES seckill_voucher ON DELETE CASCADE,
    segment     smallint NOT NULL CHECK (segment >= 0),
    tag         text     NOT NULL UNIQUE COLLATE "C", -- stands between the braces of the segment's keys in Redis
    slot        smallint NOT NULL CHECK (slot BETWEEN 0 AND 16383), -- slot_of(tag)
    units       integer  NOT NULL CHECK (units >= 0),           -- ever offered
    stock       integer  NOT NULL CHECK (stock >= 0),           -- units not in a live order
    live        integer  NOT NULL DEFAULT 0 CHECK (live >= 0),  -- live orders, counted by the functions
    epoch       bigint   NOT NULL DEFAULT 0,                    -- fencing token: who may write orders
    -- The newest journal entry of which an order was written, under this epoch. A Redis that knows only older ones has
    -- lost data.
    journal_ms  bigint   NOT NULL DEFAULT 0,
    journal_seq bigint   NOT NULL DEFAULT 0,
    PRIMARY KEY (voucher_id, segment),
    UNIQUE (voucher_id, slot),
    CHECK (stock <= units)
);

-- Which sales were in a slot: asked for an order that is not known.
CREATE INDEX seckill_segment_slot ON seckill_segment (slot);

CREATE TYPE order_status AS ENUM ('unpaid', 'paid', 'cancelled', 'refused');

-- No foreign key: place_orders() holds the segment's row lock while it inserts, so the segment exists, and a check of
-- every row would be work that cannot fail.
CREATE TABLE voucher_order (
    id         uuid         NOT NULL, -- UUIDv7, made by the service; carries the slot
    slot       smallint     NOT NULL,
    user_id    text         NOT NULL COLLATE "C",
    voucher_id bigint       NOT NULL,
    status     order_status NOT NULL DEFAULT 'unpaid',
    reason     text, -- why a refused order was refused
    created_at timestamptz  NOT NULL DEFAULT now(),
    updated_at timestamptz  NOT NULL DEFAULT now(),
    -- One index for two uses: an order is found by its id, for the id's slot leads to its segment; and rebuilding walks
    -- along a segment's orders. Ids grow with time, so each segment's inserts stay at its right edge.
    PRIMARY KEY (slot, voucher_id, id),
    CHECK ((status = 'refused') = (reason IS NOT NULL))
);

-- One live order per user and voucher: a user belongs to one segment of a voucher, always the same. The user stands
-- first, because this index serves GET /orders, too.
CREATE UNIQUE INDEX voucher_order_live ON voucher_order (user_id, voucher_id, slot)
    WHERE status IN ('unpaid', 'paid');
-- The rest of a user's orders; the two indexes together serve GET /orders.
CREATE INDEX voucher_order_ended ON voucher_order (user_id)
    WHERE status IN ('cancelled', 'refused');

-- Journal entries that could not be settled, as they were. They are never deleted.
CREATE TABLE dead_letter (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    slot       smallint    NOT NULL,
    voucher_id bigint      NOT NULL,
    journal_id text        NOT NULL,
    raw        bytea       NOT NULL, -- the entry's fields and values, each as <length>:<bytes>,
    orders     text,                 -- 'id user,id user,...'; NULL: it cannot be read
    reason     text        NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    ended_at   timestamptz           -- written off, or all its orders are known or wait in an older letter
);
CREATE UNIQUE INDEX dead_letter_once ON dead_letter (voucher_id, slot, journal_id, md5(raw));
CREATE INDEX dead_letter_open ON dead_letter (voucher_id, slot) WHERE ended_at IS NULL;
