// What a chart shows: a bounded number of points, each with a time and a value of every name. Pure.

export const POINTS_MAX = 3600; // an hour, a point each second

// `names` are those of the lines, `most` how many points are kept.
export function createSeries(names, most = POINTS_MAX) {
    const columns = [[], ...names.map(() => [])];
    const [times, ...lines] = columns;

    // `at` is in seconds and grows: a point that is not later than the last one is left out. What `values` does not
    // have is a gap of that line.
    function push(at, values) {
        if (times.length > 0 && at <= times[times.length - 1]) {
            return;
        }
        times.push(at);
        lines.forEach((line, i) => line.push(values[names[i]] ?? null));
        if (times.length > most) {
            columns.forEach((column) => column.shift());
        }
    }

    return {
        push,
        // Breaks all lines: nothing is known between the last point and the next one.
        gap: (at) => times.length > 0 && push(at, {}),
        clear: () => columns.forEach((column) => column.splice(0)),
        // Times first, then a column for each name. Borrowed: they change with the next point.
        columns: () => columns,
    };
}
