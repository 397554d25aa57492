// If Redis comes back empty, all vouchers need a rebuild. Run side by side, each step of each would wait for the same
// step of all others, until every answer is too late. So a few of each shard run at a time, and the others wait in two
// queues. A shard that hangs holds its own few, and none of another's.
#include "rebuilds.h"

#include <inttypes.h>
#include <stdlib.h>

#include "list.h"
#include "log.h"
#include "maintenance.h"
#include "timer.h"

enum {
    ACTIVE_MAX = 4,  // of a shard
    TRIED_MAX = 256, // vouchers of a queue whose node may be away, or whose shard has its share
    TICK_MS = 50,    // retries when a store has come back
    FAILED_PAUSE_MS = 500,
    FAILED_PAUSE_MOST_MS = 2000,
    RETIRE_PAUSE_MS =
        60000, // between attempts: what could not be retired has something open, whether Redis was closed or not
};

struct sk_rebuilds {
    const struct sk_sale *sale;
    struct sk_timer *timer;        // owned
    struct sk_list urgent, others; // vouchers, by their maintenance state
    size_t active;
    unsigned active_of[SK_SHARDS_MAX];
};

static void rebuilds_on_done(void *arg, enum sk_rebuild_end end);

// ---- queues ----

static void rebuilds_move(struct sk_rebuilding *rebuilding, enum sk_rebuilding_state state)
{
#define TO(name) (1U << SK_REBUILDING_##name)
    static const unsigned allowed[SK_REBUILDING_STATES] = {
        [SK_REBUILDING_NOT] = TO(QUEUED) | TO(URGENT),
        [SK_REBUILDING_QUEUED] = TO(URGENT) | TO(ACTIVE) | TO(NOT),
        [SK_REBUILDING_URGENT] = TO(ACTIVE) | TO(NOT),
        [SK_REBUILDING_ACTIVE] = TO(NOT) | TO(QUEUED) | TO(URGENT), // back to its queue: it could not begin
    };
#undef TO
    SK_ASSERT((allowed[rebuilding->state] & 1U << state) != 0);
    rebuilding->state = state;
}

// A rebuild with a callback is urgent.
static void rebuilds_enqueue(struct sk_rebuilds *rebuilds, struct sk_voucher *voucher)
{
    struct sk_rebuilding *rebuilding = &voucher->maintenance->rebuilding;
    bool urgent = rebuilding->done != NULL;
    rebuilds_move(rebuilding, urgent ? SK_REBUILDING_URGENT : SK_REBUILDING_QUEUED);
    rebuilding->voucher = voucher;
    sk_list_add_last(&rebuilding->list, urgent ? &rebuilds->urgent : &rebuilds->others);
}

// NULL: none waits.
static struct sk_voucher *rebuilds_dequeue(struct sk_rebuilds *rebuilds)
{
    struct sk_rebuilding *next = sk_list_first(&rebuilds->urgent);
    if (next == NULL)
        next = sk_list_first(&rebuilds->others);
    if (next == NULL)
        return NULL;
    sk_list_remove(&next->list);
    return next->voucher;
}

// The first whose shard has room, and whose shard and node (both links) are ready. The others go behind: they delay no
// voucher of another one.
static struct sk_voucher *rebuilds_take_ready(const struct sk_rebuilds *rebuilds, struct sk_list *queue)
{
    const struct sk_sale *sale = rebuilds->sale;
    const struct sk_rebuilding *tried = NULL; // the first one
    for (int i = 0; i < TRIED_MAX && sk_list_first(queue) != tried; i++) {
        struct sk_rebuilding *next = sk_list_first(queue);
        sk_list_remove(&next->list);
        if (rebuilds->active_of[next->voucher->shard] < ACTIVE_MAX &&
            sk_redis_ready(sk_sale_ask_redis(sale, next->voucher)) &&
            sk_redis_ready(sk_sale_redis(sale, next->voucher)) && // its lock
            sk_pg_ready(sk_sale_shard(sale, next->voucher)->queries))
            return next->voucher;
        sk_list_add_last(&next->list, queue);
        tried = tried == NULL ? next : tried;
    }
    return NULL;
}

static struct sk_voucher *rebuilds_dequeue_ready(struct sk_rebuilds *rebuilds)
{
    struct sk_voucher *voucher = rebuilds_take_ready(rebuilds, &rebuilds->urgent);
    return voucher != NULL ? voucher : rebuilds_take_ready(rebuilds, &rebuilds->others);
}

// ---- running ----

// The pause before the next one. Each failure doubles it. A missed lock is no failure: its owner may have died.
static uint64_t rebuilds_pause(const struct sk_rebuilding *ended, enum sk_rebuild_end end)
{
    if (end == SK_REBUILD_OPENED || end == SK_REBUILD_KEPT)
        return 0;
    if (end == SK_REBUILD_MISSED || ended->pause_ms == 0)
        return FAILED_PAUSE_MS;
    return ended->pause_ms * 2 < FAILED_PAUSE_MOST_MS ? ended->pause_ms * 2 : FAILED_PAUSE_MOST_MS;
}

static void rebuilds_end(struct sk_voucher *voucher, enum sk_rebuild_end end)
{
    struct sk_rebuilding *rebuilding = &voucher->maintenance->rebuilding;
    const struct sk_rebuilding ended = *rebuilding;
    uint64_t now = ended.rebuilds == NULL ? 0 : uv_now(ended.rebuilds->sale->loop);
    uint64_t pause_ms = rebuilds_pause(&ended, end);
    bool ok = end == SK_REBUILD_OPENED;
    if (ended.rebuilds != NULL)
        sk_metrics_add(ended.rebuilds->sale->metrics, SK_METRIC_REBUILDS_FAILED, end == SK_REBUILD_FAILED);
    rebuilds_move(rebuilding, SK_REBUILDING_NOT);
    *rebuilding = (struct sk_rebuilding){
        .state = rebuilding->state,
        .pause_ms = end == SK_REBUILD_MISSED ? ended.pause_ms : pause_ms,
        .not_before_ms = ok ? 0 : now + pause_ms,
    };
    // If this rebuild left a difference, the next one would leave it as well.
    if (ok && ended.why == SK_REBUILD_ORDERED && ended.done == NULL)
        voucher->maintenance->audited.rebuilt_at_ms = now;
    if (ended.why == SK_REBUILD_RETIRE)
        voucher->maintenance->retire_at_ms = now + RETIRE_PAUSE_MS;
    if (ended.done != NULL)
        ended.done(ended.arg, ok);
    sk_voucher_unpin(voucher);
}

static void rebuilds_count(struct sk_rebuilds *rebuilds, const struct sk_voucher *voucher, int more)
{
    rebuilds->active += (size_t)more;
    rebuilds->active_of[voucher->shard] += (unsigned)more;
}

static void rebuilds_start(void *arg)
{
    struct sk_rebuilds *rebuilds = arg;
    const struct sk_sale *sale = rebuilds->sale;
    struct sk_voucher *voucher;
    while (rebuilds->active < ACTIVE_MAX * sale->shard_count && (voucher = rebuilds_dequeue_ready(rebuilds)) != NULL) {
        struct sk_rebuilding *rebuilding = &voucher->maintenance->rebuilding;
        rebuilds_move(rebuilding, SK_REBUILDING_ACTIVE);
        rebuilding->rebuilds = rebuilds;
        rebuilds_count(rebuilds, voucher, 1);
        if (sk_rebuild_run(sale, voucher, rebuilding->why, rebuilds_on_done, voucher) == SK_OK)
            continue;
        rebuilds_count(rebuilds, voucher, -1); // a store is down, or memory is short: the tick retries
        rebuilds_enqueue(rebuilds, voucher);
        break;
    }
}

static void rebuilds_on_done(void *arg, enum sk_rebuild_end end)
{
    struct sk_voucher *voucher = arg;
    struct sk_rebuilds *rebuilds = voucher->maintenance->rebuilding.rebuilds;
    rebuilds_count(rebuilds, voucher, -1);
    rebuilds_end(voucher, end);
    rebuilds_start(rebuilds);
}

// ---- asking ----

enum sk_status sk_rebuild(struct sk_rebuilds *rebuilds, struct sk_voucher *voucher, enum sk_rebuild_why why,
                          sk_rebuild_cb *done, void *arg)
{
    const struct sk_sale *sale = rebuilds->sale;
    struct sk_rebuilding *rebuilding = &voucher->maintenance->rebuilding;
    bool active = rebuilding->state == SK_REBUILDING_ACTIVE, urgent = done != NULL;
    bool can_join = rebuilding->why == SK_REBUILD_DOUBT && why == SK_REBUILD_DOUBT && urgent;
    if ((active && !can_join) || rebuilding->done != NULL || uv_now(sale->loop) < rebuilding->not_before_ms ||
        voucher->left)
        return SK_FULL;
    if (!sk_redis_ready(sk_sale_ask_redis(sale, voucher)) || !sk_pg_ready(sk_sale_shard(sale, voucher)->queries))
        return SK_DOWN;
    if (active) { // in doubt, and without a callback so far
        rebuilding->done = done;
        rebuilding->arg = arg;
        return SK_OK;
    }
    if (rebuilding->state == SK_REBUILDING_QUEUED && !urgent)
        return SK_FULL;
    if (rebuilding->state == SK_REBUILDING_QUEUED)
        sk_list_remove(&rebuilding->list);
    else
        sk_voucher_pin(voucher);
    rebuilding->why = why;
    rebuilding->done = done;
    rebuilding->arg = arg;
    rebuilds_enqueue(rebuilds, voucher);
    rebuilds_start(rebuilds);
    return SK_OK;
}

static void rebuilds_on_ignored(void *arg, bool ok)
{
    (void)arg;
    (void)ok;
}

void sk_rebuild_soon(struct sk_rebuilds *rebuilds, struct sk_voucher *voucher, enum sk_doubt doubt)
{
    static const enum sk_rebuild_why whys[] = {
        [SK_DOUBT_CLOSED] = SK_REBUILD_DOUBT,
        [SK_DOUBT_BEHIND] = SK_REBUILD_BEHIND,
        [SK_DOUBT_DAMAGED] = SK_REBUILD_ORDERED,
    };
    if (sk_rebuild(rebuilds, voucher, whys[doubt], rebuilds_on_ignored, NULL) != SK_OK)
        sk_log(SK_LOG_DEBUG, "not rebuilt now", "voucher=%" PRId64, voucher->id);
}

// ---- opening and closing ----

struct sk_rebuilds *sk_rebuilds_open(const struct sk_sale *sale)
{
    struct sk_rebuilds *rebuilds = calloc(1, sizeof *rebuilds);
    if (rebuilds == NULL)
        return NULL;
    rebuilds->sale = sale;
    sk_list_begin(&rebuilds->urgent);
    sk_list_begin(&rebuilds->others);
    rebuilds->timer = sk_timer_open(sale->loop, TICK_MS, rebuilds_start, rebuilds);
    if (rebuilds->timer == NULL) {
        free(rebuilds);
        return NULL;
    }
    return rebuilds;
}

void sk_rebuilds_close(struct sk_rebuilds *rebuilds)
{
    struct sk_voucher *voucher;
    if (rebuilds == NULL)
        return;
    SK_ASSERT(rebuilds->active == 0); // the links' last callbacks have ended them
    while ((voucher = rebuilds_dequeue(rebuilds)) != NULL)
        rebuilds_end(voucher, SK_REBUILD_FAILED);
    sk_timer_close(rebuilds->timer);
    free(rebuilds);
}
