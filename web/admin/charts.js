// Moving charts, with the newest values as text beside each. uPlot draws them where the build has it; without it the
// text is all, and nothing else is missing. A chart is a picture of the last minutes for those who see it: it is hidden
// from screen readers, which have the text.
import { element, setAttribute, setText } from '../common/dom.js';
import { LEG_NAMES, OUTCOME_NAMES, SHARES } from './frame.js';
import { createSeries } from './series.js';

const HEIGHT = 140;
const SHORTEST_S = 60; // of the time that a chart shows
const HOLE_MS = 5000; // between two points: a gap, not a line
const UPLOT = '/web/vendor/uPlot.esm.js';
const STYLE = '/web/vendor/uPlot.css';

const PERCENTILES = Object.keys(SHARES);
const SPECS = {
    answers: { title: 'chart_answers', lines: OUTCOME_NAMES, unit: 'rate' },
    committed: { title: 'chart_committed', lines: ['committed'], unit: 'rate' },
    left: { title: 'chart_left_none', lines: ['left'], unit: 'number' },
    ...Object.fromEntries(LEG_NAMES.map((leg) => [leg, { title: `chart_${leg}`, lines: PERCENTILES, unit: 'ms', leg }])),
};

export function createCharts({ root, note, template, speech }) {
    const charts = Object.entries(SPECS).map(([name, spec]) => createChart({ name, spec, template, speech }));
    const byName = Object.fromEntries(charts.map((chart) => [chart.name, chart]));
    root.append(...charts.map((chart) => chart.figure));
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
        // What happened until now (frame.js), and the units left of the voucher that is shown.
        push({ rates, legs }, left) {
            const now_ms = Date.now();
            const at = now_ms / 1000;
            if (pushed_ms !== null && now_ms - pushed_ms > HOLE_MS) {
                charts.forEach((chart) => chart.gap(at - 0.5));
            }
            pushed_ms = now_ms;
            byName.answers.push(at, rates);
            byName.committed.push(at, rates);
            byName.left.push(at, { left });
            LEG_NAMES.forEach((leg) => byName[leg].push(at, legs[leg]));
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
    }

    return {
        name,
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
        gap: (at) => series.gap(at),
        follow(voucher) {
            if (voucher?.id !== of?.id) {
                series.clear();
            }
            of = voucher;
            say();
        },
        redraw: () => plot?.redraw(false),
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
    const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });
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
            { ...axis, size: 26, space: 70, values: (_, splits) => splits.map((s) => clock.format(s * 1000)) },
            { ...axis, size: 46, space: 24, values: (_, splits) => splits.map((v) => speech.short(v)) },
        ],
        series: [{}, ...spec.lines.map((_, i) => lineOf(colour(`--s${i + 1}`), i))],
    };
}

// Dashes tell lines apart without their colours.
function lineOf(stroke, i) {
    const dash = [[], [6, 3], [2, 2], [8, 3, 2, 3], [1, 4], [12, 4]][i];
    return { stroke, width: 1.5, dash, points: { show: false } };
}
