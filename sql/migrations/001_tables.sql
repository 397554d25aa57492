-- Vouchers on sale and the orders for them. PostgreSQL decides last: the CHECK on stock, the unique index on live
-- orders and the epoch carry the promises, whatever Redis or a lock may have said.
--
-- A voucher is wholly in one slot of Redis Cluster, and the same number routes in PostgreSQL: orders and dead letters
-- carry the slot of their voucher. Orders touch voucher_stock and voucher_order, never the catalogue.

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
    price_cents  bigint      NOT NULL CHECK (price_cents >= 0), -- of one unit
    currency     text        NOT NULL DEFAULT 'CNY' CHECK (currency ~ '^[A-Z]{3}$'),
    user_limit   smallint    NOT NULL DEFAULT 1 CHECK (user_limit BETWEEN 1 AND 1000), -- units in a user's one order
    pay_within_s integer     NOT NULL DEFAULT 900 CHECK (pay_within_s >= 0), -- an unpaid order expires; 0: never
    ticket       boolean     NOT NULL DEFAULT false, -- a purchase needs a ticket
    work_bits    smallint    NOT NULL DEFAULT 0 CHECK (work_bits BETWEEN 0 AND 24), -- of the work for one; 0: none
    offer        integer     NOT NULL DEFAULT 1, -- which price, limit and tickets: counted up by a trigger
    begin_at     timestamptz NOT NULL,
    end_at       timestamptz NOT NULL,
    state        text        NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'paused', 'closed', 'retired')),
    change       bigint      NOT NULL UNIQUE, -- set by a trigger
    created_at   timestamptz NOT NULL DEFAULT now(),
    create_key   text COLLATE "C" UNIQUE, -- the Idempotency-Key; NULL: inserted by other means
    create_terms bytea,                   -- SHA-256 of the terms as asked for: the voucher's own may change later
    recalled_at  timestamptz,             -- after it was retired; NULL: never
    CHECK (begin_at < end_at),
    CHECK ((create_key IS NULL) = (create_terms IS NULL))
);

-- The newest vouchers of one state: list_vouchers().
CREATE INDEX seckill_voucher_state ON seckill_voucher (state, id);

-- Offers: numbered versions of what a buyer agrees to.
--
-- An instance checks limit, ticket and price of an order in memory, and names the offer by which it did. Redis grants
-- under the voucher's offer only (place_orders.lua), and the order keeps its number. So terms that change cost no buyer
-- another price than the one that was seen, and no instance sells under terms that are over. The window is not part of
-- it, because place_orders.lua checks the window itself.
CREATE TABLE seckill_offer (
    voucher_id  bigint   NOT NULL,
    offer       integer  NOT NULL,
    price_cents bigint   NOT NULL, -- of one unit
    currency    text     NOT NULL,
    user_limit  smallint NOT NULL,
    ticket      boolean  NOT NULL,
    work_bits   smallint NOT NULL,
    PRIMARY KEY (voucher_id, offer)
);

-- What orders count, a row for each voucher. It is a table of its own because every batch locks its row and writes it
-- anew; the terms must not be in it.
CREATE TABLE voucher_stock (
    voucher_id  bigint   PRIMARY KEY REFERENCES seckill_voucher ON DELETE CASCADE,
    tag         text     NOT NULL UNIQUE COLLATE "C", -- stands between the braces of the voucher's keys in Redis
    slot        smallint NOT NULL CHECK (slot BETWEEN 0 AND 16383), -- slot_of(tag)
    units       integer  NOT NULL CHECK (units >= 0),           -- ever offered
    stock       integer  NOT NULL CHECK (stock >= 0),           -- units not in a live order
    live        integer  NOT NULL DEFAULT 0 CHECK (live >= 0),  -- live orders, counted by the functions
    epoch       bigint   NOT NULL DEFAULT 0,                    -- fencing token: who may write orders
    -- The newest journal entry of which an order was written, under this epoch. A Redis that knows only older ones has
    -- lost data.
    journal_ms  bigint   NOT NULL DEFAULT 0,
    journal_seq bigint   NOT NULL DEFAULT 0,
    -- No order before this id is unpaid: where the search for orders that are due begins (due_orders()).
    due_after   uuid     NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    -- How long instances may cache a refusal, in ms: the most under which the voucher was ever loaded. 0: it never was.
    cache_ms    integer  NOT NULL DEFAULT 0 CHECK (cache_ms >= 0),
    CHECK (stock <= units)
);

-- Which sales were in a slot: asked for an order that is not known.
CREATE INDEX voucher_stock_slot ON voucher_stock (slot);

CREATE TYPE order_status AS ENUM ('unpaid', 'paid', 'cancelled', 'expired', 'refused', 'refunded');

-- Which moves there are, beside placing and refusing: docs/internals.md has the same table.
CREATE TABLE order_move (
    from_status order_status NOT NULL,
    to_status   order_status NOT NULL,
    moved_by    text NOT NULL, -- who may ask for it
    PRIMARY KEY (from_status, to_status)
);
INSERT INTO order_move VALUES
    ('unpaid', 'paid',      'payments'),
    ('unpaid', 'cancelled', 'user'),
    ('unpaid', 'expired',   'expiry'),
    ('paid',   'refunded',  'operate');

-- No foreign key: place_orders() holds the lock on the voucher's row while it inserts, so the voucher exists, and a check
-- of every row would be work that cannot fail.
CREATE TABLE voucher_order (
    id         uuid         NOT NULL, -- UUIDv7, made by the service; carries the slot
    slot       smallint     NOT NULL,
    quantity   smallint     NOT NULL DEFAULT 1 CHECK (quantity > 0), -- units
    user_id    text         NOT NULL COLLATE "C",
    voucher_id bigint       NOT NULL,
    status     order_status NOT NULL DEFAULT 'unpaid',
    reason     text, -- why a refused order was refused; of a refunded one: RESTOCKED, or KEPT, then its units are gone
    created_at timestamptz  NOT NULL DEFAULT now(),
    updated_at timestamptz  NOT NULL DEFAULT now(),
    request_key text COLLATE "C", -- fingerprint of the Idempotency-Key, 16 hex digits
    -- The user's n-th order of this voucher that ended: cancelled, expired and refunded ones count. NULL: it is live or
    -- refused. A user has at most one live order, so it is enough to count those that ended.
    ended_nth  smallint,
    -- Under which terms it was placed (order_offer()). 0: it is not known.
    offer      integer      NOT NULL DEFAULT 0,
    -- One index for two uses: an order is found by its id, for the id's slot leads to its voucher; and rebuilding walks
    -- along a voucher's orders. Ids grow with time, so each voucher's inserts stay at its right edge.
    PRIMARY KEY (slot, voucher_id, id),
    CHECK ((status IN ('refused', 'refunded')) = (reason IS NOT NULL))
);

-- One live order per user and voucher. The user stands first, because this index serves GET /orders, too.
CREATE UNIQUE INDEX voucher_order_live ON voucher_order (user_id, voucher_id, slot)
    WHERE status IN ('unpaid', 'paid');
-- The rest of a user's orders, in the order in which they are listed: there may be any number of them. The two indexes
-- together serve GET /orders.
CREATE INDEX voucher_order_ended ON voucher_order (user_id, id)
    WHERE status IN ('cancelled', 'expired', 'refused', 'refunded');
-- The first order under an Idempotency-Key, live or ended; a refused one has lost its key. Orders without one cost
-- nothing here.
CREATE UNIQUE INDEX voucher_order_key ON voucher_order (user_id, voucher_id, request_key)
    WHERE request_key IS NOT NULL;
-- Finds the newest number in one step, for the bound of a user's orders of one voucher (SECKILL_ORDERS_PER_USER):
-- Redis decides (lua/place_orders.lua) by what is counted here. The index of a user's ended orders would do it with a
-- walk along those of all vouchers, under the lock on the voucher's row. A purchase does not touch this one.
CREATE INDEX voucher_order_nth ON voucher_order (user_id, voucher_id, ended_nth) WHERE ended_nth IS NOT NULL;

-- What became of orders after they were placed: each move is a row, made in the transaction of the move.
--
-- (tx, seq) is the order of the feed (order_events()): a reader that takes only rows of transactions older than all
-- that still run has missed nothing before them. No row is ever changed; those of a retired voucher are moved out with
-- its orders.
CREATE TABLE order_event (
    tx         xid8         NOT NULL DEFAULT pg_current_xact_id(),
    seq        bigint       GENERATED ALWAYS AS IDENTITY,
    slot       smallint     NOT NULL,
    voucher_id bigint       NOT NULL,
    order_id   uuid         NOT NULL,
    at         timestamptz  NOT NULL DEFAULT now(),
    status     order_status NOT NULL, -- what it became; the same as before where only a payment was noted
    by_whom    text         NOT NULL, -- 'user', 'expiry', 'payment callback', or the name of an admin's token
    why        text,
    journal    text COLLATE "C", -- of a refund that keeps the units: its journal entry
    PRIMARY KEY (tx, seq)
);
CREATE INDEX order_event_order ON order_event (order_id);

-- Money that the shop's payment side told of, by its reference. What came for an order that had ended is to be refunded.
CREATE TABLE payment (
    reference    text COLLATE "C" PRIMARY KEY,
    slot         smallint    NOT NULL,
    voucher_id   bigint      NOT NULL,
    order_id     uuid        NOT NULL,
    amount_cents bigint      NOT NULL,
    currency     text        NOT NULL,
    state        text        NOT NULL CHECK (state IN ('accepted', 'to_refund', 'refunded')),
    by_whom      text        NOT NULL,
    at           timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX payment_order ON payment (order_id);

-- What operators did: each row with the change number that it got, if it changed a voucher.
CREATE TABLE admin_event (
    tx         xid8        NOT NULL DEFAULT pg_current_xact_id(),
    seq        bigint      GENERATED ALWAYS AS IDENTITY,
    at         timestamptz NOT NULL DEFAULT now(),
    by_whom    text        NOT NULL,
    what       text        NOT NULL, -- 'created', 'changed', 'paused', 'resumed', 'closed', 'stock' ...
    voucher_id bigint      NOT NULL,
    change     bigint,
    detail     jsonb       NOT NULL DEFAULT '{}',
    PRIMARY KEY (tx, seq)
);
CREATE INDEX admin_event_voucher ON admin_event (voucher_id, tx, seq);

-- Units that were added to a voucher (below 0: taken away) under a change number. Redis is brought up to date by these
-- rows, once for each change number; what is taken away has left Redis before.
CREATE TABLE stock_change (
    voucher_id bigint   NOT NULL,
    change     bigint   NOT NULL,
    units      integer  NOT NULL CHECK (units <> 0),
    PRIMARY KEY (voucher_id, change)
);

-- The answers of admin calls that were sent with an Idempotency-Key, but for creating a voucher, which keeps its own.
CREATE TABLE admin_request (
    key     text COLLATE "C" PRIMARY KEY,
    request bytea       NOT NULL, -- SHA-256 of what was asked
    change  bigint,               -- what it made
    at      timestamptz NOT NULL DEFAULT now()
);

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
    ended_at   timestamptz,          -- written off, or all its orders are known or wait in an older letter
    offer      integer     NOT NULL DEFAULT 0 -- of its orders; 0: it is not known
);
CREATE UNIQUE INDEX dead_letter_once ON dead_letter (voucher_id, slot, journal_id, md5(raw));
CREATE INDEX dead_letter_open ON dead_letter (voucher_id, slot) WHERE ended_at IS NULL;

-- Retired vouchers whose orders were moved out to files, or are being moved (archive_next()). They are never recalled.
CREATE TABLE archived_voucher (
    voucher_id bigint PRIMARY KEY,
    duplicates bigint      NOT NULL, -- live orders beyond the first of their user, as settlement() counts them
    began_at   timestamptz NOT NULL DEFAULT now(),
    ended_at   timestamptz -- all that was there is moved
);

-- One row for each part that was moved: three files, what is in them, and their SHA-256.
CREATE TABLE archived_part (
    voucher_id      bigint      NOT NULL,
    part            integer     NOT NULL,
    orders          integer     NOT NULL,
    events          integer     NOT NULL,
    payments        integer     NOT NULL,
    orders_sha256   bytea       NOT NULL,
    events_sha256   bytea       NOT NULL,
    payments_sha256 bytea       NOT NULL,
    at              timestamptz NOT NULL DEFAULT now(),
    orders_sha256_before bytea, -- of the orders' file before a user was last erased in it; NULL: none was
    PRIMARY KEY (voucher_id, part)
);

-- How many orders of a voucher were moved out, so that reports count them; and the first and the last of their ids, so
-- that an id between them is not taken for one that never was.
CREATE TABLE archived_orders (
    slot       smallint     NOT NULL,
    voucher_id bigint       NOT NULL,
    status     order_status NOT NULL,
    reason     text         NOT NULL, -- '': none
    orders     bigint       NOT NULL,
    units      bigint       NOT NULL,
    first_id   uuid         NOT NULL,
    last_id    uuid         NOT NULL,
    offer      integer      NOT NULL DEFAULT 0,
    PRIMARY KEY (slot, voucher_id, status, reason, offer)
);
CREATE INDEX archived_orders_voucher ON archived_orders (voucher_id);
