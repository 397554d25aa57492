// What a client does with the generated code. Compiled by check.js, never run.
import type { components, paths } from './types/openapi';
import { buy, createVoucher, followSale, listVouchers } from './client';
import type { BuyErrors, Phase, ProblemCode, SaleEvent, Voucher } from './client';

// ---- openapi-typescript ----

type Answers = paths['/seckill/{voucher}']['post']['responses'];
type Conflict = Answers[409]['content']['application/problem+json'];

export function told(problem: Conflict): string {
    switch (problem.code) {
        case 'SOLD_OUT':
            return `sold out: ${problem.status satisfies 409}`;
        case 'ALREADY_ORDERED':
            return problem.order_id ?? '';
        // @ts-expect-error: no code of this status
        case 'UNKNOWN_VOUCHER':
            return '';
        default:
            return problem.title;
    }
}

const codes: components['schemas']['ProblemCode'][] = ['SOLD_OUT', 'INTERNAL'];
// @ts-expect-error: no code at all
codes.push('SOLD_AUT');

type Streamed = paths['/vouchers/{voucher}/events']['get']['responses'][200]['content']['text/event-stream'];
export const left = (event: Streamed): number | null => (event.phase === 'ended' ? 0 : event.remaining);

// ---- @hey-api/openapi-ts ----

export const shown: Record<Phase, string> = { upcoming: 'soon', on_sale: 'buy', sold_out: 'gone', paused: 'wait', ended: 'over' };
export const isFinal = (code: ProblemCode): boolean => code === 'SOLD_OUT' || code === 'ENDED';
export const reasons: BuyErrors[409]['code'][] = ['SOLD_OUT'];
// @ts-expect-error: no code of this status
reasons.push('UNKNOWN_VOUCHER');

export async function sell(): Promise<Voucher | undefined> {
    const created = await createVoucher({
        body: { title: 'Tea', stock: 1, price_cents: 990, begin_at: '2030-01-01T00:00:00Z', end_at: '2030-01-02T00:00:00Z' },
    });
    // @ts-expect-error: `stock` is required
    await createVoucher({ body: { title: 'Tea', price_cents: 990, begin_at: '', end_at: '' } });
    return created.data;
}

export async function rush(voucher: string): Promise<string> {
    const { data: page } = await listVouchers({ query: { limit: 10 } });
    const phase: Phase | undefined = page?.vouchers[0]?.phase;
    const { data: order, error } = await buy({ path: { voucher }, body: { quantity: 1 } });
    return order?.id ?? error?.code ?? phase ?? '';
}

export async function follow(voucher: string): Promise<SaleEvent | undefined> {
    const { stream } = await followSale({ path: { voucher } });
    for await (const event of stream) {
        const seen: SaleEvent | void = event; // nothing: the sale is over
        if (seen && seen.phase !== 'upcoming') {
            return seen;
        }
    }
    return undefined;
}
