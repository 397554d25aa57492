// Draws a chart's lines and axes as SVG, at each change anew. Colours, dashes and fonts are in admin.css, so a dark page
// needs no word from here.
import { setAttribute } from '../common/dom.js';

const LEFT = 62, RIGHT = 10, TOP = 8, BOTTOM = 20; // px around the lines
const POINT_PX = 2; // points that are nearer to each other become one
const SHORTEST_S = 120; // of the time that a chart shows
const LABEL_PX = [60, 28]; // room for a time, for a value
const TIMES_S = [60, 120, 300, 600, 900, 1800, 3600];

const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' });
const rounded = (px) => Math.round(px * 10) / 10;

// svg: empty. tickOf(value): its text at the axis. whole: values are whole numbers.
export function createPlot({ svg, tickOf, whole }) {
    let columns = [[]], size = '';
    const watch = new ResizeObserver(() => size !== sizeOf() && draw());
    watch.observe(svg);

    const sizeOf = () => `${svg.clientWidth}x${svg.clientHeight}`;

    function make(name, attributes, text = '') {
        const made = document.createElementNS(svg.namespaceURI, name);
        Object.entries(attributes).forEach(([attribute, value]) => setAttribute(made, attribute, value));
        made.textContent = text;
        return made;
    }

    function draw() {
        const width = svg.clientWidth, height = svg.clientHeight, [times, ...lines] = columns;
        size = sizeOf();
        if (width <= LEFT + RIGHT || times.length === 0) {
            svg.replaceChildren();
            return;
        }
        const to = times[times.length - 1], from = Math.min(times[0], to - SHORTEST_S);
        const most = lines.reduce((a, line) => line.reduce((b, value) => Math.max(a, b, value ?? 0), a), 0) || 1;
        const right = width - RIGHT, bottom = height - BOTTOM;
        const x = (at) => rounded(LEFT + ((at - from) / (to - from)) * (right - LEFT));
        const y = (value) => rounded(bottom - (value / (most * 1.05)) * (bottom - TOP));
        const values = ticksOf(0, most, stepOf(most, (bottom - TOP) / LABEL_PX[1], whole));
        const moments = ticksOf(from, to, timeStepOf(to - from, (right - LEFT) / LABEL_PX[0]));
        svg.replaceChildren(
            make('path', { class: 'grid', d: [...values.map((v) => `M${LEFT},${y(v)}H${right}`), ...moments.map((at) => `M${x(at)},${TOP}V${bottom}`)].join('') }),
            ...values.map((v) => make('text', { x: LEFT - 6, y: y(v) + 4, 'text-anchor': 'end' }, tickOf(v))),
            ...moments.map((at) => make('text', { x: x(at), y: height - 5, 'text-anchor': 'middle' }, clock.format(at * 1000))),
            ...lines.map((line, i) => make('path', { class: `line s${i + 1}`, d: pathOf(thinned(times.map(x), line, POINT_PX).map(([px, value]) => [px, value === null ? null : y(value)])) })),
        );
    }

    return {
        // columns: of series.js; borrowed.
        draw(taken = columns) {
            columns = taken;
            draw();
        },
        close: () => watch.disconnect(),
    };
}

// Of an hour of points there are more than pixels, and a browser needs a second for as many dashes. Of those that fall
// together the highest stays, and each gap. Gives [[x, value], ...].
export function thinned(xs, values, apart) {
    const kept = [];
    values.forEach((value, i) => {
        const last = kept[kept.length - 1];
        if (value !== null && last !== undefined && last[1] !== null && xs[i] - last[0] < apart) {
            last[1] = Math.max(last[1], value);
        } else if (value !== null || last?.[1] !== null) {
            kept.push([xs[i], value]);
        }
    });
    return kept;
}

// A line through the points, broken where one has no value. One between two gaps is a short line by itself.
export function pathOf(points) {
    const has = (i) => points[i] !== undefined && points[i][1] !== null;
    return points.map(([x, y], i) => {
        if (y === null) {
            return '';
        }
        return has(i - 1) ? `L${x},${y}` : has(i + 1) ? `M${x},${y}` : `M${x - 2},${y}h4`;
    }).join('');
}

// The least of 1, 2 and 5 with zeros that has at most `count` steps up to `most`.
export function stepOf(most, count, whole = false) {
    const least = Math.max(most / Math.max(count, 1), whole ? 1 : 0);
    const power = 10 ** Math.floor(Math.log10(least));
    return [1, 2, 5, 10].map((n) => n * power).find((step) => step >= least * 0.999);
}

const timeStepOf = (seconds, count) => TIMES_S.find((step) => seconds / step <= count) ?? 2 * TIMES_S[TIMES_S.length - 1];

// The multiples of `step` from `from` to `to`.
function ticksOf(from, to, step) {
    const first = Math.ceil(from / step);
    return Array.from({ length: Math.floor(to / step) - first + 1 }, (_, i) => (first + i) * step);
}
