// Reads what GET /metrics says: Prometheus's text format 0.0.4, as far as the service writes it (docs/metrics.md). Pure.
// A line that cannot be read is left out: a page of another version still shows what both know.

const LINE = /^([A-Za-z_:][\w:]*)(?:\{(.*)\})?[ \t]+(\S+)(?:[ \t]+-?\d+)?[ \t]*$/;
const LABEL = /([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"/g;
const ESCAPED = { n: '\n', '\\': '\\', '"': '"' };

// Gives a Map: the name of a metric -> its samples, each {labels, value}.
export function parseMetrics(text) {
    const metrics = new Map();
    for (const line of text.split('\n')) {
        const sample = line.startsWith('#') ? null : parseLine(line);
        if (sample === null) {
            continue;
        }
        if (!metrics.has(sample.name)) {
            metrics.set(sample.name, []);
        }
        metrics.get(sample.name).push({ labels: sample.labels, value: sample.value });
    }
    return metrics;
}

function parseLine(line) {
    const found = LINE.exec(line);
    if (found === null) {
        return null;
    }
    const value = parseValue(found[3]);
    return Number.isNaN(value) ? null : { name: found[1], labels: parseLabels(found[2] ?? ''), value };
}

// Number() knows neither spelling of infinity.
export function parseValue(text) {
    if (text === '+Inf') {
        return Infinity;
    }
    return text === '-Inf' ? -Infinity : Number(text);
}

function parseLabels(text) {
    const labels = {};
    for (const [, name, value] of text.matchAll(LABEL)) {
        labels[name] = value.replace(/\\(.)/g, (whole, c) => ESCAPED[c] ?? whole);
    }
    return labels;
}

// The samples of `name` that have all labels of `where`.
export function samplesOf(metrics, name, where = {}) {
    const wanted = Object.entries(where);
    return (metrics.get(name) ?? []).filter(({ labels }) => wanted.every(([label, value]) => labels[label] === value));
}

// Their sum. null: there are none, which is not the same as 0.
export function sumOf(metrics, name, where) {
    const samples = samplesOf(metrics, name, where);
    return samples.length === 0 ? null : samples.reduce((sum, { value }) => sum + value, 0);
}

// The histogram `name`: its bounds with the count up to each, as [[bound, count], ...], the least bound first. Those of
// several label sets are added up; all histograms of one name have the same bounds.
export function bucketsOf(metrics, name, where) {
    const counts = new Map();
    for (const { labels, value } of samplesOf(metrics, `${name}_bucket`, where)) {
        const bound = parseValue(labels.le ?? '');
        if (!Number.isNaN(bound)) {
            counts.set(bound, (counts.get(bound) ?? 0) + value);
        }
    }
    return [...counts].sort((a, b) => a[0] - b[0]);
}
