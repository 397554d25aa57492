// A node of Redis that this session lacks takes it out of all lists after a second: it can do nothing for the vouchers
// of that node, and may have any. Unless no other session is in a list: then the node is away for all of them. Sessions
// that leave at the same moment do so one after the other, since Redis carries out one renewal at a time. The last one
// finds an empty list, and stays.
#include "assignment.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "hash.h"
#include "log.h"
#include "maintenance.h"
#include "timer.h"

enum { TICK_MS = 100, LACKS_MS = 1000, ALONE_MS = 3000 };

struct assignment_shard {
    uint64_t well_since_ms;  // 0: it is not well
    uint64_t alone_since_ms; // 0: it is not alone
    bool alone;
};

struct sk_assignments {
    const struct sk_sale *sale;
    struct sk_catalogue_sync *const *syncs;
    void (*changed)(void *arg);
    void *arg;
    struct sk_timer *timer; // owned
    struct assignment_shard shards[SK_SHARDS_MAX];
    uint64_t lacks_since_ms; // a link to a node of Redis; 0: none
    uint64_t lists;          // their version as of the last check
    bool stopped;
};

static void assignment_on_time(void *arg)
{
    sk_assignments_check(arg);
}

struct sk_assignments *sk_assignments_open(const struct sk_sale *sale, struct sk_catalogue_sync *const *syncs,
                                           void (*changed)(void *arg), void *arg)
{
    struct sk_assignments *assignments = calloc(1, sizeof *assignments);
    if (assignments == NULL)
        return NULL;
    *assignments = (struct sk_assignments){.sale = sale, .syncs = syncs, .changed = changed, .arg = arg};
    assignments->timer = sk_timer_open(sale->loop, TICK_MS, assignment_on_time, assignments);
    if (assignments->timer == NULL) {
        free(assignments);
        return NULL;
    }
    return assignments;
}

void sk_assignments_close(struct sk_assignments *assignments)
{
    if (assignments == NULL)
        return;
    sk_timer_close(assignments->timer);
    free(assignments);
}

void sk_assignments_stop(struct sk_assignments *assignments)
{
    assignments->stopped = true;
    sk_assignments_check(assignments);
}

// ---- ability ----

static bool assignment_shard_is_well(const struct sk_assignments *assignments, size_t shard)
{
    const struct sk_shard *links = &assignments->sale->shards[shard];
    return sk_pg_ready(links->orders) && !sk_pg_lags(links->orders) && sk_pg_ready(links->queries) &&
           !sk_pg_lags(links->queries) && sk_catalogue_sync_complete(assignments->syncs[shard]);
}

// Whether it has had no link to a node of Redis for so long that others had better do the work.
static bool assignment_lacks_a_node(struct sk_assignments *assignments, uint64_t now)
{
    struct sk_nodes_state nodes = sk_nodes_state(assignments->sale->nodes);
    if (nodes.nodes > 0 && nodes.orders == nodes.nodes && nodes.queries == nodes.nodes)
        assignments->lacks_since_ms = 0;
    else if (assignments->lacks_since_ms == 0)
        assignments->lacks_since_ms = now;
    return assignments->lacks_since_ms != 0 && now >= assignments->lacks_since_ms + LACKS_MS;
}

// A session that is not held does not know who is able.
static void assignment_note_alone(struct sk_assignments *assignments, size_t shard, bool well, uint64_t now)
{
    struct assignment_shard *of = &assignments->shards[shard];
    const struct sk_session *session = assignments->sale->session;
    bool now_alone = !well && sk_session_held(session) && sk_session_able_elsewhere(session, shard);
    if (!now_alone)
        of->alone_since_ms = 0;
    else if (of->alone_since_ms == 0)
        of->alone_since_ms = now;
    bool alone = now_alone && now >= of->alone_since_ms + ALONE_MS;
    if (alone && !of->alone)
        sk_log(SK_LOG_WARN, "not ready: another instance has this PostgreSQL, and this one has not", "shard=%zu",
               shard);
    else if (!alone && of->alone)
        sk_log(SK_LOG_INFO, "ready again", "shard=%zu", shard);
    of->alone = alone;
}

static void assignment_check_shard(struct sk_assignments *assignments, size_t shard, bool lacks, uint64_t now)
{
    struct assignment_shard *of = &assignments->shards[shard];
    struct sk_session *session = assignments->sale->session;
    size_t others = 0;
    bool well = assignment_shard_is_well(assignments, shard);
    if (!well && of->well_since_ms != 0)
        sk_named_locks_yield(assignments->sale->locks, shard, assignments->sale->shard_count);
    if (!well)
        of->well_since_ms = 0;
    else if (of->well_since_ms == 0)
        of->well_since_ms = now;
    (void)sk_session_others_able(session, shard, &others);
    bool able = well && now >= of->well_since_ms + SK_ABLE_AFTER_MS && (!lacks || others == 0);
    sk_session_set_able(session, shard, able && !assignments->stopped);
    assignment_note_alone(assignments, shard, well, now);
}

void sk_assignments_check(struct sk_assignments *assignments)
{
    const struct sk_sale *sale = assignments->sale;
    uint64_t now = uv_now(sale->loop);
    bool lacks = assignment_lacks_a_node(assignments, now);
    for (size_t i = 0; i < sale->shard_count; i++)
        assignment_check_shard(assignments, i, lacks, now);
    uint64_t lists = sk_session_lists(sale->session);
    bool changed = lists != assignments->lists;
    assignments->lists = lists;
    if (changed)
        assignments->changed(assignments->arg);
}

bool sk_assignments_is_alone(const struct sk_assignments *assignments)
{
    bool alone = false;
    for (size_t i = 0; i < assignments->sale->shard_count; i++)
        alone = alone || assignments->shards[i].alone;
    return alone;
}

// ---- owners ----

static uint64_t assignment_hash(const char *session, const char *name)
{
    uint64_t words[2] = {sk_hash(name, strlen(name)), sk_hash(session, SK_UUID_CHARS)};
    return sk_hash((const char *)words, sizeof words);
}

// The owner is the session with the highest hash of session and name.
bool sk_assignment_has(const struct sk_session *session, size_t shard, const char *name)
{
    size_t count = 0;
    const char(*others)[SK_UUID_SIZE] = sk_session_others_able(session, shard, &count);
    if (!sk_session_is_able(session, shard)) {
        if (count > 0)
            return false;
        others = sk_session_living(session, &count); // with this one
    }
    uint64_t own = assignment_hash(sk_session_id(session), name);
    for (size_t i = 0; i < count; i++) {
        if (assignment_hash(others[i], name) > own)
            return false;
    }
    return true;
}

bool sk_assignment_has_voucher(const struct sk_session *session, struct sk_voucher *voucher)
{
    struct sk_assignment *assignment = &voucher->maintenance->assignment;
    uint64_t version = sk_session_lists(session);
    if (assignment->version != version)
        *assignment = (struct sk_assignment){version, sk_assignment_has(session, voucher->shard, voucher->tag)};
    return assignment->mine;
}
