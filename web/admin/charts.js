// Charts of the last hour, of all instances together (history.js), with the newest values as text beside each; and, of
// the process that answers here, units left and the legs of a purchase since the page was opened. uPlot draws them where
// the build has it; without it the text is all, and nothing else is missing. A chart is a picture for those who see it:
// it is hidden from screen readers, which have the text.
import { element, setAttribute, setText } from '../common/dom.js';
import { LEG_NAMES, SHARES } from './frame.js';
import { createSeries } from './series.js';

const HEIGHT = 150;
const SHORTEST_S = 300; // of the time that a chart shows
const HOLE_MS = 5000; // between two live points: a gap, not a line
const HOLES = 3; // samples that may be missing before there is a gap
const UPLOT = '/web/vendor/uPlot.esm.js';
const STYLE = '/web/vendor/uPlot.css';

const WHOLE = [1, 10, 100, 1000, 1e4, 1e5, 1e6, 1e7, 1e8].flatMap((step) => [step, 2 * step, 5 * step]); // of units
export const OUTCOMES = ['placed', 'accepted', 'sold_out', 'limited', 'refused', 'failed'];
const PERCENTILES = Object.keys(SHARES);
const SPECS = {
    answers: { title: 'chart_answers', lines: OUTCOMES, unit: 'rate' },
    committed: { title: 'chart_committed', lines: ['committed'], unit: 'rate' },
    answer: { title: 'chart_answer', lines: ['p50', 'p99'], unit: 'ms', leg: 'answer' },
    durable: { title: 'chart_durable', lines: ['p50', 'p99'], unit: 'ms', leg: 'durable' },
    left: { title: 'chart_left_none', lines: ['left'], unit: 'units', live: true },
    ...Object.fromEntries(LEG_NAMES.map((leg) => [leg, { title: `chart_${leg}`, lines: PERCENTILES, unit: 'ms', leg, live: true, legs: true }])),
};

// root: of the charts of all instances; legs: of the legs.
export function createCharts({ root, legs, note, template, speech }) {
    const charts = Object.entries(SPECS).map(([name, spec]) => createChart({ name, spec, template, speech }));
    const byName = Object.fromEntries(charts.map((chart) => [chart.name, chart]));
    charts.forEach(({ figure, spec }) => (spec.legs ? legs : root).append(figure));
    const dark = matchMedia('(prefers-color-scheme: dark)');
    const redraw = () => charts.forEach((chart) => chart.redraw());
    dark.addEventListener('change', redraw);
    let pushed_ms = null;

    return {
        // `has`: whether the build has uPlot; undefined: try.
        async draw(has) {
            const Plot = has === false ? null : await load();
            setAttribute(note, 'hidden', Plot !== null);
            charts.forEach((chart) => chart.draw(Plot));
        },
        // The samples of the last hour, oldest first.
        history(rows, sample_ms) {
            byName.answers.fill(rows, sample_ms, (row) => perSecond(row, OUTCOMES, sample_ms));
            byName.committed.fill(rows, sample_ms, (row) => perSecond(row, ['committed'], sample_ms));
            byName.answer.fill(rows, sample_ms, (row) => inMs(row, 'answer'));
            byName.durable.fill(rows, sample_ms, (row) => inMs(row, 'durable'));
        },
        // What happened here until now (frame.js), and the units left of the voucher that is shown.
        push(now, left) {
            const now_ms = Date.now();
            const at = now_ms / 1000;
            if (pushed_ms !== null && now_ms - pushed_ms > HOLE_MS) {
                charts.filter(({ spec }) => spec.live).forEach((chart) => chart.gap(at - 0.5));
            }
            pushed_ms = now_ms;
            byName.left.push(at, { left });
            LEG_NAMES.forEach((leg) => byName[leg].push(at, now?.legs[leg] ?? {}));
        },
        // Whose units are followed from now on; null: no voucher's.
        follow: (voucher) => byName.left.follow(voucher),
        say: () => charts.forEach((chart) => chart.say()),
        close() {
            dark.removeEventListener('change', redraw);
            charts.forEach((chart) => chart.close());
        },
    };
}

function perSecond(row, names, sample_ms) {
    return Object.fromEntries(names.map((name) => [name, (row[name] * 1000) / sample_ms]));
}

function inMs(row, of) {
    const ms = (us) => (us === null ? null : us / 1000);
    return { p50: ms(row[`${of}_p50_us`]), p99: ms(row[`${of}_p99_us`]) };
}

// null: the build has none.
async function load() {
    try {
        const { default: Plot } = await import(UPLOT);
        document.head.append(element('link', { rel: 'stylesheet', href: STYLE }));
        return Plot;
    } catch {
        return null;
    }
}

function createChart({ name, spec, template, speech }) {
    const figure = template.content.firstElementChild.cloneNode(true);
    figure.dataset.chart = name;
    const heading = figure.querySelector('[data-chart-title]');
    const place = figure.querySelector('[data-plot]');
    const legend = figure.querySelector('[data-legend]');
    const series = createSeries(spec.lines);
    const values = spec.lines.map((line, i) => legendRow(legend, spec, line, i));
    let of = null, latest = {}, plot = null, watch = null;

    function say() {
        setText(heading, of === null ? speech.say(spec.title) : speech.say('chart_left', { title: of.title }));
        spec.lines.forEach((line, i) => {
            setText(values[i].label, speech.say(line));
            setText(values[i].value, speech[spec.unit](latest[line] ?? null));
        });
        figure.dataset.points = series.columns()[0].length;
    }

    return {
        name,
        spec,
        figure,
        say,
        draw(Plot) {
            setAttribute(place, 'hidden', Plot === null);
            if (Plot !== null) {
                plot = new Plot(optionsOf(spec, place.clientWidth, speech), series.columns(), place);
                watch = new ResizeObserver(() => plot.setSize({ width: Math.max(place.clientWidth, 100), height: HEIGHT }));
                watch.observe(place);
            }
        },
        push(at, now) {
            latest = now;
            series.push(at, now);
            say();
            plot?.setData(series.columns());
        },
        // All points anew.
        fill(rows, sample_ms, valuesOf) {
            let before_ms = null;
            series.clear();
            for (const row of rows) {
                if (before_ms !== null && row.at_ms - before_ms > HOLES * sample_ms) {
                    series.gap((row.at_ms - sample_ms / 2) / 1000);
                }
                before_ms = row.at_ms;
                series.push(row.at_ms / 1000, valuesOf(row));
            }
            latest = rows.length === 0 ? {} : valuesOf(rows[rows.length - 1]);
            say();
            plot?.setData(series.columns());
        },
        gap: (at) => series.gap(at),
        follow(voucher) {
            if (voucher?.id !== of?.id) {
                series.clear();
            }
            of = voucher;
            say();
        },
        redraw: () => plot?.redraw(false, true),
        close() {
            watch?.disconnect();
            plot?.destroy();
            figure.remove();
        },
    };
}

function legendRow(legend, spec, line, i) {
    const label = element('span');
    const metric = spec.leg === undefined ? line : `${spec.leg}-${line}`;
    const value = element('dd', { data: { metric } });
    legend.append(element('div', {}, element('dt', {}, element('span', { class: `swatch s${i + 1}` }), label), value));
    return { label, value };
}

function optionsOf(spec, width, speech) {
    const colour = (name) => () => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    const lines = { stroke: colour('--line'), width: 1 };
    const axis = { stroke: colour('--soft'), grid: lines, ticks: lines, font: '11px system-ui, sans-serif' };
    const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' });
    return {
        width: Math.max(width, 100),
        height: HEIGHT,
        padding: [8, 12, 0, 0],
        legend: { show: false },
        cursor: { show: false },
        scales: {
            x: { range: (_, from, to) => (to === null ? [null, null] : [Math.min(from, to - SHORTEST_S), to]) },
            y: { range: (_, __, most) => [0, most > 0 ? most * 1.05 : 1] },
        },
        axes: [
            { ...axis, size: 26, space: 60, incrs: [60, 120, 300, 600, 900, 1800, 3600], values: (_, splits) => splits.map((s) => clock.format(s * 1000)) },
            { ...axis, size: 66, space: 26, ...(spec.unit === 'units' ? { incrs: WHOLE } : {}), values: (_, splits) => splits.map((v) => speech.tick(spec.unit, v)) },
        ],
        series: [{}, ...spec.lines.map((_, i) => lineOf(colour(`--s${i + 1}`), i))],
    };
}

// Dashes tell lines apart without their colours. A sample between two gaps has no line: it is a point.
function lineOf(stroke, i) {
    const dash = [[], [6, 3], [2, 2], [8, 3, 2, 3], [1, 4], [12, 4]][i];
    return { stroke, width: 1.5, dash, points: { show: false, size: 6, fill: stroke, filter: (plot, of) => lonelyOf(plot.data[of]) } };
}

// The indexes of values whose neighbours are missing; null: there are none.
export function lonelyOf(values) {
    const has = (i) => values[i] !== null && values[i] !== undefined;
    const found = [...values.keys()].filter((i) => has(i) && !has(i - 1) && !has(i + 1));
    return found.length === 0 ? null : found;
}
