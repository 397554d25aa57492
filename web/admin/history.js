// All instances, and what they did in the last hour: GET /admin/history, which any of them answers for all. The page
// keeps what it has read, so each call brings the samples since the last one alone.
import { isGood } from './answer.js';

const KEPT = 720;

export function createHistory({ call }) {
    let last = null, rows = [];

    // After a restart the service has fewer samples than the page; theirs are kept. Those of two instances behind one
    // address differ by less than the time between two.
    async function ask() {
        const since = rows.length === 0 ? 0 : rows[rows.length - 1].at_ms;
        const answer = await call(`/admin/history${since === 0 ? '' : `?since=${since}`}`);
        if (!isGood(answer)) {
            return false;
        }
        const { columns, samples, sample_ms, ...rest } = answer.body;
        last = { ...rest, sample_ms };
        const read = samples.map((sample) => Object.fromEntries(columns.map((name, i) => [name, sample[i]])));
        const least_ms = since === 0 ? 0 : since + sample_ms / 2;
        rows = [...rows, ...read.filter(({ at_ms }) => at_ms > least_ms)].slice(-KEPT);
        return true;
    }

    return {
        ask,
        last: () => last, // null: not read yet
        rows: () => rows,
    };
}
