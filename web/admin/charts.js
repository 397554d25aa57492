// Charts of what the page has read since it was opened (frame.js), with the newest values as text beside each. A chart is
// a picture for those who see it: it is hidden from screen readers, which have the text.
import { element, setText } from '../common/dom.js';
import { LEG_NAMES, OUTCOMES, SHARES } from './frame.js';
import { createPlot } from './plot.js';
import { createSeries } from './series.js';

const HOLE_MS = 5000; // between two points: a gap, not a line

const PERCENTILES = Object.keys(SHARES);
const timesOf = (name, more) => ({ title: `chart_${name}`, lines: PERCENTILES, unit: 'ms', of: name, ...more });
const SPECS = {
    answers: { title: 'chart_answers', lines: OUTCOMES, unit: 'rate' },
    committed: { title: 'chart_committed', lines: ['committed'], unit: 'rate' },
    answer: timesOf('answer'),
    durable: timesOf('durable'),
    left: { title: 'chart_left_none', lines: ['left'], unit: 'units' },
    ...Object.fromEntries(LEG_NAMES.map((leg) => [leg, timesOf(leg, { leg: true })])),
};

// root: of the charts; legs: of those of the legs.
export function createCharts({ root, legs, template, speech }) {
    const charts = Object.entries(SPECS).map(([name, spec]) => createChart({ name, spec, template, speech }));
    const byName = Object.fromEntries(charts.map((chart) => [chart.name, chart]));
    charts.forEach(({ figure, spec }) => (spec.leg ? legs : root).append(figure));
    let pushed_ms = null;

    return {
        // What happened until now (frame.js; null: not known yet), and the units left of the voucher that is shown.
        push(now, left) {
            const now_ms = Date.now();
            if (pushed_ms !== null && now_ms - pushed_ms > HOLE_MS) {
                charts.forEach((chart) => chart.gap(now_ms / 1000 - 0.5));
            }
            pushed_ms = now_ms;
            charts.forEach(({ spec, push }) => push(now_ms / 1000, spec.of === undefined ? { ...now?.rates, left } : now?.times[spec.of] ?? {}));
        },
        // Whose units are followed from now on; null: no voucher's.
        follow: (voucher) => byName.left.follow(voucher),
        say: () => charts.forEach((chart) => chart.say()),
        close: () => charts.forEach((chart) => chart.close()),
    };
}

function createChart({ name, spec, template, speech }) {
    const figure = template.content.firstElementChild.cloneNode(true);
    figure.dataset.chart = name;
    const heading = figure.querySelector('[data-chart-title]');
    const legend = figure.querySelector('[data-legend]');
    const series = createSeries(spec.lines);
    const values = spec.lines.map((line, i) => legendRow(legend, spec, line, i));
    const tickOf = (value) => speech.tick(spec.unit, value);
    const plot = createPlot({ svg: figure.querySelector('[data-plot]'), tickOf, whole: spec.unit === 'units' });
    let of = null, latest = {};

    function say() {
        setText(heading, of === null ? speech.say(spec.title) : speech.say('chart_left', { title: of.title }));
        spec.lines.forEach((line, i) => {
            setText(values[i].label, speech.say(line));
            setText(values[i].value, speech[spec.unit](latest[line] ?? null));
        });
        figure.dataset.points = series.columns()[0].length;
        plot.draw(series.columns());
    }

    return {
        name,
        spec,
        figure,
        say,
        push(at, now) {
            latest = now;
            series.push(at, now);
            say();
        },
        gap: (at) => series.gap(at),
        follow(voucher) {
            if (voucher?.id !== of?.id) {
                series.clear();
            }
            of = voucher;
        },
        close() {
            plot.close();
            figure.remove();
        },
    };
}

function legendRow(legend, spec, line, i) {
    const label = element('span');
    const metric = spec.of === undefined ? line : `${spec.of}-${line}`;
    const value = element('dd', { data: { metric } });
    legend.append(element('div', {}, element('dt', {}, element('span', { class: `swatch s${i + 1}` }), label), value));
    return { label, value };
}
