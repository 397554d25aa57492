// Percentiles from cumulative buckets: [[bound, count up to it], ...], the least bound first, the last one Infinity.
// Pure.

// What was added between two readings of one histogram. null: they cannot be compared, because counts went backwards or
// the bounds are others, as after a restart.
export function bucketsBetween(before, now) {
    if (before.length !== now.length) {
        return null;
    }
    const between = now.map(([bound, count], i) => [bound, count - before[i][1]]);
    const same = now.every(([bound], i) => bound === before[i][0]);
    return same && between.every(([, count]) => count >= 0) ? between : null;
}

// Adds up histograms of the same bounds; one of others is left out.
export function addBuckets(list) {
    const filled = list.filter((buckets) => buckets !== null && buckets.length > 0);
    if (filled.length === 0) {
        return [];
    }
    return filled[0].map(([bound, count], i) => {
        const others = filled.slice(1).filter((buckets) => buckets[i]?.[0] === bound);
        return [bound, others.reduce((sum, buckets) => sum + buckets[i][1], count)];
    });
}

// The value that `share` (0 to 1) of all did not exceed, taking them to be spread evenly within a bucket, as Prometheus
// does; so it is right to within its bucket. Of what is past the last bound only that bound is known. null: there are
// none.
export function quantile(buckets, share) {
    const total = buckets.length === 0 ? 0 : buckets[buckets.length - 1][1];
    if (total <= 0) {
        return null;
    }
    const rank = share * total;
    const at = buckets.findIndex(([, count]) => count >= rank && count > 0);
    const [bound, count] = buckets[at];
    const [below, counted] = at === 0 ? [0, 0] : buckets[at - 1];
    if (bound === Infinity) {
        return below;
    }
    return below + (bound - below) * Math.max(0, (rank - counted) / (count - counted));
}
