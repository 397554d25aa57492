/** A client of seckill for browsers and Node. README.md shows how to use it. */

export type OrderStatus = 'pending' | 'unpaid' | 'paid' | 'cancelled' | 'expired' | 'refused' | 'refunded';

export interface Order {
    id: string;
    voucher_id: string;
    user_id: string;
    quantity: number;
    status: OrderStatus;
    created_at?: string;
    /** Of a refused or refunded order. */
    reason?: string;
    /** From the commit on. */
    price_cents?: number;
    total_cents?: number;
    currency?: string;
    /** Where the voucher has a time to pay. */
    expires_at?: string;
    events?: { type: 'moved' | 'payment_to_refund' | 'payment_refunded'; at: string; status: OrderStatus; by: string; why?: string }[];
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
    limit?: number;
    pay_within_s?: number;
    currency?: string;
    ticket?: boolean;
    work_bits?: number;
}

/** What state, window and stock mean to a buyer now. */
export type Phase = 'upcoming' | 'on_sale' | 'sold_out' | 'paused' | 'ended';
export type VoucherState = 'loading' | 'open' | 'paused' | 'closed' | 'retired';

export interface Voucher extends Required<Omit<VoucherTerms, 'description' | 'picture'>> {
    id: string;
    description?: string;
    picture?: string;
    state: VoucherState;
    phase: Phase;
    remaining: number;
    offer: number;
    version: number;
    can_sell?: boolean;
    server_time?: string;
}

export interface SaleEvent {
    voucher_id: string;
    state: VoucherState;
    phase: Phase;
    /** null: not known now, as while Redis is away. */
    remaining: number | null;
    /** Units a second; only streams have it. */
    rate?: number;
    server_time?: string;
}

/** The service has said no: nothing was done. `code` is one of docs/http.md. */
export interface Refused {
    outcome: 'refused';
    code: string;
    status?: number;
    retryAfterMs?: number;
    body?: Record<string, unknown>;
    /** Of an order that was accepted first. */
    order?: Order;
    orderId?: string;
}

/** It may have been done or not: show neither success nor failure, and ask again. */
export interface Unknown {
    outcome: 'unknown';
    code: string;
    status?: number;
    retryAfterMs?: number;
    orderId?: string;
}

export interface Won {
    outcome: 'won';
    /** ALREADY_ORDERED: by an earlier purchase. */
    code?: string;
    orderId: string;
    order: Order;
}

/** The purchase was accepted, and then aborted before its end. It will come: follow the order. */
export interface Accepted {
    outcome: 'accepted';
    code: string;
    orderId: string;
    order?: Order;
}

/** A purchase was won, or a payment recorded, but the order has ended: pay a late payment back. */
export interface Ended {
    outcome: 'ended';
    code?: string;
    orderId: string;
    order: Order;
}

/** `key` repeats the same purchase later, with `isDoubtful: true`. */
export type PurchaseResult = (Won | Accepted | Ended | Refused | Unknown) & { key: string };

export type CommandResult<Body> = { outcome: 'done'; status: number; body: Body } | Refused | Unknown;

export interface Options {
    /** AbortSignal.timeout(3000) limits the whole call. */
    signal?: AbortSignal;
}

export interface KeyOptions extends Options {
    /** Idempotency-Key; made up unless given. */
    key?: string;
}

export interface BuyOptions extends KeyOptions {
    quantity?: number;
    /** The same purchase was tried before, and its outcome is not known. */
    isDoubtful?: boolean;
    onStep?(step: { step: 'asking' } | { step: 'waiting'; code: string; retryAfterMs: number }): void;
}

export interface Client {
    /** Buys, and follows an accepted order to its end. Rejects only for mistakes in the program. */
    buy(voucherId: string, options?: BuyOptions): Promise<PurchaseResult>;
    /** The order once its status is not `status` (pending) any more; null: there is none, or it was aborted. */
    follow(orderId: string, options?: Options & { status?: 'pending' | 'unpaid' }): Promise<Order | null>;
    /** Calls `onEvent` until the sale is over (`phase` is `ended`), or until it is aborted. */
    watch(voucherId: string, onEvent: (event: SaleEvent) => void, options?: Options): Promise<void>;

    /** Queries reject with a Problem. */
    order(orderId: string, options?: Options): Promise<Order>;
    orders(options?: Options & Page): Promise<Orders>;
    voucher(voucherId: string, options?: Options): Promise<Voucher>;
    vouchers(options?: Options & Page): Promise<Vouchers>;

    cancel(orderId: string, options?: Options): Promise<CommandResult<Order>>;

    /** For a shop's own servers, with an admin token. */
    pay(orderId: string, payment: Payment, options?: Options): Promise<CommandResult<Order> | Ended>;
    refund(
        orderId: string,
        details?: { restock?: boolean; why?: string; reference?: string },
        options?: Options,
    ): Promise<CommandResult<Order>>;
    createVoucher(terms: VoucherTerms, options?: KeyOptions): Promise<CommandResult<Voucher> & { key: string }>;
    settlement(voucherId: string, options?: Options): Promise<Settlement>;
    /** The feed of changes of orders. Keep `next`: the next `after`. */
    events(options?: Options & { after?: string; limit?: number }): Promise<OrderFeed>;

    /** Any other GET and POST of docs/http.md. All tries of a POST have one key, so it is carried out once. */
    read(path: string, options?: Options): Promise<Record<string, unknown>>;
    command(
        path: string,
        json?: unknown,
        options?: KeyOptions,
    ): Promise<CommandResult<Record<string, unknown>> & { key: string }>;
}

export interface Page {
    limit?: number;
    cursor?: string;
}

export interface Orders {
    orders: Order[];
    complete: boolean;
    next?: string;
}

export interface Vouchers {
    vouchers: Voucher[];
    can_sell: boolean;
    server_time: string;
    /** A shard is away, and its rows are missing. */
    complete?: false;
    next?: string;
}

export interface OrderFeed {
    events: {
        id: string;
        order_id: string;
        type: 'moved' | 'payment_to_refund' | 'payment_refunded';
        voucher_id: string;
        user_id?: string;
        quantity?: number;
        total_cents?: number;
        currency?: string;
        status: OrderStatus;
        at: string;
        by: string;
        why?: string;
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
    /** Without a slash at its end; in a page of the same origin leave it out. */
    url?: string;
    headers?: Record<string, string> | (() => Record<string, string>);
    fetch?: typeof fetch;
}): Client;

/** `code` is the service's, NO_ANSWER, or NOT_OURS where something else has answered. */
export class Problem extends Error {
    readonly code: string;
    readonly status: number;
    readonly retryAfterMs?: number;
    readonly body: Record<string, unknown>;
}
