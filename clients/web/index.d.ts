/** A client of seckill for browsers and Node. README.md shows how to use it. */

/** Of docs/http.md. A newer service may have more of them: keep a text for those that you do not know. */
export type ServiceCode =
    | 'SOLD_OUT'
    | 'ENDED'
    | 'PAUSED'
    | 'WAITLIST_FULL'
    | 'NOT_ENOUGH'
    | 'OFFER_CHANGED'
    | 'TOO_MANY_ORDERS'
    | 'NOT_STARTED'
    | 'ALREADY_ORDERED'
    | 'PENDING'
    | 'WRONG_STATE'
    | 'UNREADABLE'
    | 'ALREADY_PAID'
    | 'REFERENCE_USED'
    | 'ALREADY_EXTENDED'
    | 'EXTENSION_OFF'
    | 'UNKNOWN_PAYMENT'
    | 'WRONG_AMOUNT'
    | 'STARTED'
    | 'BELOW_SOLD'
    | 'VERSION_CHANGED'
    | 'UNAVAILABLE'
    | 'LOADING'
    | 'OVERLOADED'
    | 'SHUTTING_DOWN'
    | 'TICKET_REQUIRED'
    | 'TICKET_INVALID'
    | 'WORK_REQUIRED'
    | 'WORK_INVALID'
    | 'TICKETS_OFF'
    | 'SCOPES_OFF'
    | 'RATE_LIMITED'
    | 'ARCHIVED'
    | 'UNKNOWN_VOUCHER'
    | 'NOT_FOUND'
    | 'BAD_VOUCHER_ID'
    | 'BAD_ORDER_ID'
    | 'BAD_REQUEST'
    | 'BAD_JSON'
    | 'INVALID'
    | 'BAD_IDEMPOTENCY_KEY'
    | 'IDEMPOTENCY_KEY_REUSED'
    | 'UNAUTHENTICATED'
    | 'FORBIDDEN'
    | 'ADMIN_OFF'
    | 'CROSS_SITE'
    | 'BAD_SIGNATURE'
    | 'BAD_PARAMETER'
    | 'METHOD_NOT_ALLOWED'
    | 'NOT_IMPLEMENTED'
    | 'BODY_TOO_LARGE'
    | 'UNSUPPORTED_MEDIA_TYPE'
    | 'UNSUPPORTED_ENCODING'
    | 'INTERNAL';
/** Why an order was refused or refunded. LEFT: it was cancelled while it waited in the line. */
export type Reason =
    | 'SOLD_OUT'
    | 'ALREADY_ORDERED'
    | 'GRANT_LOST'
    | 'REPEATED'
    | 'WRITTEN_OFF'
    | 'RESTOCKED'
    | 'KEPT'
    | 'LEFT';
/**
 * NO_ANSWER: nothing came, as without a network, and where the browser blocks the call (CORS). NOT_OURS: something else
 * has answered, as a gateway. NO_LOGIN: nothing was sent, because `headers` has failed; `cause` is what it has thrown.
 * ABORTED: `signal` has ended it; `cause` is the last try's.
 */
export type ClientCode = 'NO_ANSWER' | 'NOT_OURS' | 'NO_LOGIN' | 'ABORTED';
export type Code = ServiceCode | Reason | ClientCode;

/** An answer that is an error. Empty if the service did not write it. */
export interface ProblemBody {
    type?: string;
    title?: string;
    status?: number;
    code?: ServiceCode;
    trace_id?: string;
    /** ALREADY_ORDERED */
    order_id?: string;
    /** ALREADY_ORDERED: of that order. It may be another voucher of the scope. */
    voucher_id?: string;
    /** NOT_ENOUGH, BELOW_SOLD: units. */
    left?: number;
    /** WRONG_STATE */
    state?: OrderStatus | VoucherState;
    /** OVERLOADED: the setting whose limit was reached. */
    limit?: string;
    /** BAD_JSON, INVALID, BAD_PARAMETER, UNKNOWN_VOUCHER: where in the request. */
    errors?: { pointer?: string; parameter?: string; detail: string }[];
}

export type OrderStatus =
    | 'pending'
    | 'waiting'
    | 'unpaid'
    | 'paid'
    | 'cancelled'
    | 'expired'
    | 'refused'
    | 'refunded';

export interface Order {
    id: string;
    voucher_id: string;
    user_id: string;
    quantity: number;
    status: OrderStatus;
    created_at?: string;
    /** Of a refused or refunded order, and of one that left the line. */
    reason?: Reason;
    /** Of one that waits in the line: so many wait before it. 0: it is the first; 10000, of `order()`: or more. */
    place?: number;
    /** From the commit on. */
    price_cents?: number;
    total_cents?: number;
    currency?: string;
    /** Where the voucher has a time to pay. It moves on once, if the order is extended. */
    expires_at?: string;
    events?: {
        type: 'moved' | 'extended' | 'payment_to_refund' | 'payment_refunded';
        at: string;
        status: OrderStatus;
        by: string;
        why?: string;
    }[];
    payments?: (Payment & { state: 'accepted' | 'to_refund' | 'refunded'; at: string })[];
}

export interface Payment {
    reference: string;
    amount_cents: number;
    currency: string;
}

export interface VoucherTerms {
    title: string;
    description?: string;
    /** A URL of an origin that SECKILL_PICTURE_ORIGINS lists. */
    picture?: string;
    stock: number;
    price_cents: number;
    begin_at: string;
    end_at: string;
    /** When more units come: only pages show it. An empty text removes it. */
    more_at?: string;
    limit?: number;
    /**
     * The id of a voucher whose scope it joins: a user has one live order of all vouchers in a scope. Without it the
     * voucher is a scope of its own. A voucher has the id of its scope's first voucher here.
     */
    scope?: string;
    /** Orders that a user may have of it, ended ones included. */
    orders_per_user?: number;
    /** So many may wait in its line for a unit; true: twice the units; false or 0: nobody joins it. */
    waitlist?: boolean | number;
    pay_within_s?: number;
    /** A payment in progress may extend an unpaid order by so many seconds, once; 0: it may not. */
    extend_s?: number;
    currency?: string;
    ticket?: boolean;
    work_bits?: number;
}

/** What state, window and stock mean to a buyer now. */
export type Phase = 'upcoming' | 'on_sale' | 'sold_out' | 'paused' | 'ended';
export type VoucherState = 'loading' | 'open' | 'paused' | 'closed' | 'retired';

export interface Voucher extends Required<Omit<VoucherTerms, 'description' | 'picture' | 'more_at' | 'waitlist'>> {
    id: string;
    description?: string;
    picture?: string;
    more_at?: string;
    /** Of a voucher that has or had a line: so many may wait, and so many do. */
    waitlist?: number;
    waiting?: number;
    state: VoucherState;
    phase: Phase;
    /** null: not known now; only with `stale`. */
    remaining: number | null;
    offer: number;
    version: number;
    can_sell?: boolean;
    /** PostgreSQL is away: the terms are those that the instance has read last. */
    stale?: true;
    server_time?: string;
}

export interface SaleEvent {
    voucher_id: string;
    /** unknown: there is no such voucher, so its `phase` is `ended`. */
    state: VoucherState | 'unknown';
    phase: Phase;
    /** null: not known now, as while Redis is away. */
    remaining: number | null;
    /** Units a second; only streams have it. */
    rate?: number;
    server_time?: string;
}

/** The last answer, if it was an error: also of a purchase that is won, because an earlier one has won it. */
export interface LastError {
    status?: number;
    retryAfterMs?: number;
    body?: ProblemBody;
    /** What your own `headers` or `fetch` has thrown. */
    cause?: unknown;
}

/** Nothing was done. `code` is the service's, or an accepted order's `reason`. */
export interface Refused extends LastError {
    outcome: 'refused';
    code: Code;
    /** Of an order that was accepted first. */
    order?: Order;
    orderId?: string;
}

/** It may have been done or not: show neither success nor failure, and ask again. */
export interface Unknown extends LastError {
    outcome: 'unknown';
    code: Code;
    orderId?: string;
}

export interface Won extends LastError {
    outcome: 'won';
    /** ALREADY_ORDERED: by an earlier purchase. Its order may be of another voucher of the scope: see `voucher_id`. */
    code?: Code;
    orderId: string;
    order: Order;
}

/** The purchase was accepted, and then aborted before its end. It will come: follow the order. */
export interface Accepted extends LastError {
    outcome: 'accepted';
    code: Code;
    orderId: string;
    order?: Order;
}

/** Nothing was bought: the buyer has a place in the voucher's line, which is an order of the status `waiting`. */
export interface Waiting extends LastError {
    outcome: 'waiting';
    /** ALREADY_ORDERED: by an earlier purchase. */
    code?: Code;
    orderId: string;
    order: Order;
}

/**
 * A purchase was won, but the order has ended, or it has left the line; or a payment came after that, and is to be paid
 * back.
 */
export interface Ended extends LastError {
    outcome: 'ended';
    code?: Code;
    orderId: string;
    order: Order;
}

/** `key` repeats the same purchase later, with `isDoubtful: true`. */
export type PurchaseResult = (Won | Waiting | Accepted | Ended | Refused | Unknown) & { key: string };

export type CommandResult<Body> = { outcome: 'done'; status: number; body: Body } | Refused | Unknown;

export interface Options {
    /** AbortSignal.timeout(3000) limits the whole call, with all its tries; without a network those take 45 s. */
    signal?: AbortSignal | undefined;
}

/** Of what goes on until it ends. */
export interface FollowOptions extends Options {
    /** Called after each try that failed and is repeated: what you show may be old, until the next event or order. */
    onTrouble?: ((problem: Problem) => void) | undefined;
}

export interface KeyOptions extends Options {
    /** Idempotency-Key; made up unless given. */
    key?: string | undefined;
}

export interface BuyOptions extends KeyOptions {
    quantity?: number | undefined;
    /** If no unit is left, the buyer joins the voucher's line, if it has one. `quantity` must be 1. */
    wait?: boolean | undefined;
    /** The same purchase was tried before, and its outcome is not known. */
    isDoubtful?: boolean | undefined;
    onStep?(step: { step: 'asking' } | { step: 'waiting'; code: Code; retryAfterMs: number; cause?: unknown }): void;
}

export interface Client {
    /** Buys, and follows an accepted order to its end. Rejects only for mistakes in the program. */
    buy(voucherId: string, options?: BuyOptions): Promise<PurchaseResult>;
    /**
     * The order once its status is not `status` (pending) any more; null: there is none, or it was aborted. Rejects with
     * a Problem that asking again does not change, such as UNAUTHENTICATED when the login has expired: log in, and
     * follow again.
     */
    follow(
        orderId: string,
        options?: FollowOptions & { status?: 'pending' | 'waiting' | 'unpaid' },
    ): Promise<Order | null>;
    /**
     * Calls `onEvent` with each state of a voucher, or of a list of up to 96, at once and at each change, until all
     * their sales are over (`phase` is `ended`), or until it is aborted. Of a list, an id that does not exist is an
     * event with `state: 'unknown'`, and the others go on. Rejects with a Problem, such as UNKNOWN_VOUCHER of a single
     * id, and with a RangeError for an empty or longer list: then watch those on screen.
     */
    watch(
        vouchers: string | readonly string[],
        onEvent: (event: SaleEvent) => void,
        options?: FollowOptions,
    ): Promise<void>;
    /** The service's time in ms, as Date.now() has the browser's; undefined until an answer had it: read a voucher first. */
    now(): number | undefined;

    /** Queries reject with a Problem. */
    order(orderId: string, options?: Options): Promise<Order>;
    orders(options?: Options & Page): Promise<Orders>;
    voucher(voucherId: string, options?: Options): Promise<Voucher>;
    vouchers(options?: Options & Page): Promise<Vouchers>;

    cancel(orderId: string, options?: Options): Promise<CommandResult<Order>>;

    /** For a shop's own servers, with an admin token. */
    /** `done`: the payment is `accepted`, or `refunded`, if it was given back since. */
    pay(orderId: string, payment: Payment, options?: Options): Promise<CommandResult<Order> | Ended>;
    refund(
        orderId: string,
        details?: { restock?: boolean; why?: string; reference?: string },
        options?: Options,
    ): Promise<CommandResult<Order>>;
    createVoucher(terms: VoucherTerms, options?: KeyOptions): Promise<CommandResult<Voucher> & { key: string }>;
    settlement(voucherId: string, options?: Options): Promise<Settlement>;
    /** The feed of what happens to orders, payments and sales. Keep `next`: the next `after`. `wait`: in seconds. */
    events(
        options?: Options & { after?: string; limit?: number; wait?: number; only?: 'placed' | 'moves' | 'sales' },
    ): Promise<OrderFeed>;

    /** Any other GET and POST of docs/http.md. All tries of a POST have one key, so it is carried out once. */
    read(path: string, options?: Options): Promise<Record<string, unknown>>;
    command(
        path: string,
        json?: unknown,
        options?: KeyOptions,
    ): Promise<CommandResult<Record<string, unknown>> & { key: string }>;
}

export interface Page {
    limit?: number | undefined;
    cursor?: string | undefined;
}

export interface Orders {
    orders: Order[];
    complete: boolean;
    next?: string;
}

export interface Vouchers {
    vouchers: Voucher[];
    can_sell: boolean;
    /** PostgreSQL, or a shard, is away: as of a voucher. */
    stale?: true;
    server_time: string;
    /** Some vouchers are missing: the instance has not read them yet, as while a shard is away. */
    complete?: false;
    next?: string;
}

export interface OrderFeed {
    events: {
        id: string;
        event:
            | 'order.placed'
            | 'order.waiting'
            | 'order.promoted'
            | 'order.refused'
            | 'order.extended'
            | 'order.paid'
            | 'order.cancelled'
            | 'order.expired'
            | 'order.refunded'
            | 'payment.to_refund'
            | 'payment.refunded'
            | 'sale.opened'
            | 'sale.sold_out'
            | 'sale.reopened'
            | 'sale.ended';
        /** From before there was `event`; until 1.0. */
        type: 'placed' | 'moved' | 'extended' | 'payment_to_refund' | 'payment_refunded' | 'sale';
        order_id?: string;
        voucher_id: string;
        user_id?: string;
        quantity?: number;
        total_cents?: number;
        currency?: string;
        status?: OrderStatus;
        at: string;
        by: string;
        why?: string;
        /** Of order.extended and order.promoted: the new time. */
        expires_at?: string;
        /** Of order.extended: under which it was extended, of a payment in progress. */
        reference?: string;
        payment?: { reference: string; amount_cents: number; currency: string };
    }[];
    next: string;
    complete?: false;
}

export interface Settlement {
    verdict: 'balanced' | 'open' | 'wrong';
    missing: Partial<Record<'SALE_ON' | 'UNPAID' | 'JOURNAL' | 'PENDING' | 'DEAD_LETTERS' | 'TO_REFUND' | 'REDIS', number>>;
    wrong: Record<string, { is: number; should_be: number }>;
    units: Record<string, number>;
    [member: string]: unknown;
}

export function createClient(settings?: {
    /** In a page of the same origin leave it out. */
    url?: string | undefined;
    /** Who asks. A function is called before each try and each stream, and may fetch or renew a token first. */
    headers?: Record<string, string> | (() => Record<string, string> | Promise<Record<string, string>>);
    fetch?: typeof fetch;
}): Client;

/**
 * `cents` of an ISO 4217 currency as people read them, such as 990 of CNY as 9.90. Intl alone takes other digits: those
 * of CLDR. `locale`: of Intl; the reader's own unless given.
 */
export function formatMoney(cents: number, currency: string, locale?: string | string[]): string;

/** How many digits a currency of ISO 4217 has behind the point: 2 of CNY, 0 of JPY, 3 of KWD. */
export function digitsOf(currency: string): number;

/** The currencies that a voucher may have. */
export const CURRENCIES: readonly string[];

/** A new Idempotency-Key, where crypto.randomUUID() is missing, too, as in pages without TLS. */
export function makeKey(): string;

/** Why a query has failed. */
export class Problem extends Error {
    readonly code: Code;
    readonly status: number;
    readonly retryAfterMs?: number;
    readonly body: ProblemBody;
    /** What your own `headers` or `fetch` has thrown. */
    readonly cause?: unknown;
}
