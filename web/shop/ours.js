// Answers of the service, told from those of a gateway, which may also come as JSON with 200.
import { Problem } from '../client/index.js';
import { isOrder } from './orders.js';

const hasList = (name) => (body) => Array.isArray(body?.[name]);
const EXPECTED = [
    [/^\/vouchers(\?|$)/, hasList('vouchers')],
    [/^\/orders\?/, hasList('orders')],
    [/^\/(seckill|orders)\//, isOrder],
];

// `api` as of createApi(). An answer without what the page needs is none of the service's.
export function onlyOurs(api) {
    return {
        ...api,
        async call(path, options) {
            const answer = await api.call(path, options);
            if (EXPECTED.some(([asked, isOurs]) => asked.test(path) && !isOurs(answer.body))) {
                throw new Problem('NOT_OURS', { status: answer.status });
            }
            return answer;
        },
    };
}
