// Instances from the rows of GET /admin/instances, which has a row for each reactor. Pure.

// A session is renewed once a second: one that was not for so long, by its own TTL, stands still or is cut off.
const LATE_SHARE = 0.5;

// processes: when those that have answered this page began, in ms since 1970. Gives [{id, name, version, age_s, reactors,
// renewed_ms, late, self}], the oldest instance first; what has not been told is undefined.
export function instancesOf({ instances, server_time }, processes = []) {
    const now_ms = Date.parse(server_time);
    const groups = new Map();
    for (const row of instances) {
        const key = row.name === undefined ? row.id : `${row.name} ${row.started_at}`;
        groups.set(key, [...(groups.get(key) ?? []), row]);
    }
    return [...groups.values()].map((rows) => instanceOf(rows, now_ms, processes)).sort((a, b) => (b.age_s ?? 0) - (a.age_s ?? 0));
}

function instanceOf(rows, now_ms, processes) {
    const [{ id, name, version, started_at }] = rows;
    const started_ms = Date.parse(started_at);
    const renewed = rows.map((row) => row.renewed_ago_ms).filter((ms) => ms !== undefined);
    return {
        id: name ?? id,
        name,
        version,
        age_s: Number.isNaN(started_ms) ? undefined : Math.max(0, (now_ms - started_ms) / 1000),
        reactors: rows.length,
        renewed_ms: renewed.length === 0 ? undefined : Math.max(...renewed),
        late: rows.some((row) => row.renewed_ago_ms > LATE_SHARE * row.ttl_ms),
        self: processes.some((began_ms) => Math.abs(began_ms - started_ms) < 1),
    };
}
