// A run walks along one voucher's orders and ends those that are due, a batch at a time:
//
//   LOCKING -> CLOCK -> ASKING -> SCANNING -> PACING -> RETURNING -> PACING -> ASKING ... -> ended
//
// One scan of a shard is in progress at a time. Runs that want one meanwhile share the next.
//
// All runs of the reactor are paced together, so that buyers do not notice a million orders that are due at once: a
// batch locks the voucher's row for a few ms. A run that has found due orders waits for its turn. The last batch of a
// walk waits for a tick at least, so that those of many vouchers share a commit.
//
// Each tick goes through the catalogue once for vouchers that are due. At RUNS_MAX runs it stops there, and the end of
// each run continues it: thousands of vouchers may have one order due at the same moment. Several shards have a bound
// each, since the runs of a shard that is away do not end before it is back: its further vouchers are left out.
#include "expiry.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "assignment.h"
#include "catalogue.h"
#include "failpoint.h"
#include "list.h"
#include "log.h"
#include "maintenance.h"
#include "params.h"
#include "timer.h"

enum {
    TICK_MS = 100,
    PACE = SK_RETURNS_MAX, // orders in a tick: 1,280 a second
    RUNS_MAX = 144,        // at a time, of vouchers of one shard
    TOGETHER_MAX = 16,     // runs in one statement: each reads 2,000 rows at most, some ms
    APART_MOST_MS = 5000,
    AGAIN_MS = 1000,       // after a failure
    SELDOM_MS = 60 * 1000, // a voucher with live orders is checked no less often
    EARLY_MS = 60 * 1000,  // one without any is checked so long before an order could be due
};

enum { COLUMN_DUE, COLUMN_WALKED_TO, COLUMN_NEXT_MS, COLUMN_NOW_MS }; // of due_orders.sql and due_batches.sql

enum expiry_state {
    EXPIRY_LOCKING,
    EXPIRY_CLOCK,
    EXPIRY_ASKING, // it wants a query
    EXPIRY_SCANNING,
    EXPIRY_RETURNING,
    EXPIRY_PACING,
    EXPIRY_STATES
};

struct expiry_run {
    struct sk_list list; // must be first
    struct sk_expiry *expiry;
    struct sk_voucher *voucher; // pinned
    struct sk_named_lock *lock;
    enum expiry_state state;
    uint64_t redis_ahead_ms; // what Redis's clock showed, less our monotonic one when it was asked
    uint64_t next_ms;        // when the next order is due, as far as this walk has seen, by our clock
    char from[SK_UUID_SIZE]; // empty: the walk begins
    bool goes_on;
    uint64_t turn;                                      // PACING: the lowest is next
    char due[SK_RETURNS_MAX * (SK_UUID_CHARS + 1) + 1]; // due orders to end: "id,id,..."
};

// A scan of a shard.
struct expiry_scan {
    struct sk_expiry *expiry;
    size_t shard;
    struct expiry_run *runs[TOGETHER_MAX]; // in the statement in progress
    size_t count;
    size_t run_count; // of its vouchers
    bool apart;       // its clock and Redis's differ too much
};

struct sk_expiry {
    const struct sk_sale *sale;
    struct sk_timer *timer; // owned
    struct sk_list runs;    // newest first
    size_t run_count;
    struct expiry_scan scans[SK_SHARDS_MAX];
    int budget;     // orders that may still end in this tick; negative: so many too many have ended
    uint64_t turns; // turns given out so far
    size_t at;      // in the catalogue: the next voucher to check
    size_t left;    // vouchers still to check in this tick
    bool stopped;
};

static void expiry_on_locked(void *arg, bool held);
static void expiry_on_clock(void *arg, const struct sk_reply *reply);
static void expiry_scan(struct expiry_scan *scan);
static void expiry_on_due(void *arg, const struct sk_result *result);
static void expiry_go_on(struct expiry_run *run);

static void expiry_move(struct expiry_run *run, enum expiry_state state)
{
#define TO(name) (1U << EXPIRY_##name)
    static const unsigned allowed[EXPIRY_STATES] = {
        [EXPIRY_LOCKING] = TO(CLOCK),   [EXPIRY_CLOCK] = TO(ASKING),     [EXPIRY_ASKING] = TO(SCANNING),
        [EXPIRY_SCANNING] = TO(PACING), [EXPIRY_RETURNING] = TO(PACING), [EXPIRY_PACING] = TO(RETURNING) | TO(ASKING),
    };
#undef TO
    SK_ASSERT((allowed[run->state] & 1U << state) != 0);
    run->state = state;
}

static void expiry_drop(struct expiry_run *run, uint64_t next_ms)
{
    struct sk_expiry *expiry = run->expiry;
    struct sk_expiring *expiring = &run->voucher->maintenance->expiring;
    uint64_t soonest = uv_now(expiry->sale->loop) + TICK_MS;
    expiring->active = false;
    expiring->next_ms = next_ms > soonest ? next_ms : soonest;
    sk_named_lock_release(run->lock);
    sk_list_remove(&run->list);
    SK_ASSERT(expiry->run_count > 0 && expiry->scans[run->voucher->shard].run_count > 0);
    expiry->run_count--;
    expiry->scans[run->voucher->shard].run_count--;
    sk_voucher_unpin(run->voucher);
    free(run);
}

// ---- which vouchers ----

// No order can be due before the time that this returns. There was none when the audit asked PostgreSQL, and one that
// was committed after that is due a whole `pay_within_s` after its transaction began. The transaction may have begun
// earlier and waited for a lock, hence the margin. A shop may have thousands of vouchers of which nothing has been
// sold: they cost no statement of their own.
static uint64_t expiry_empty_until(const struct sk_voucher *voucher)
{
    uint64_t empty_at_ms = voucher->maintenance->audited.empty_at_ms,
             within_ms = (uint64_t)voucher->pay_within_s * 1000;
    return empty_at_ms == 0 ? 0 : empty_at_ms + within_ms - (within_ms / 2 < EARLY_MS ? within_ms / 2 : EARLY_MS);
}

static bool expiry_is_due(const struct sk_expiry *expiry, struct sk_voucher *voucher)
{
    struct sk_expiring *expiring = &voucher->maintenance->expiring;
    uint64_t now = uv_now(expiry->sale->loop);
    if (expiring->change != voucher->change)
        *expiring = (struct sk_expiring){.change = voucher->change, .active = expiring->active};
    return voucher->pay_within_s > 0 && !expiring->active && now >= expiring->next_ms &&
           now >= expiry_empty_until(voucher) && sk_session_sells(expiry->sale->session, voucher->slot) &&
           sk_redis_ready(sk_sale_redis(expiry->sale, voucher)) &&     // for its lock, and its returns
           sk_redis_ready(sk_sale_ask_redis(expiry->sale, voucher)) && // for its clock
           sk_pg_ready(sk_sale_shard(expiry->sale, voucher)->queries) &&
           sk_assignment_has_voucher(expiry->sale->session, voucher);
}

static void expiry_start(struct sk_expiry *expiry, struct sk_voucher *voucher)
{
    char key[SK_KEY_SIZE];
    struct expiry_run *run = calloc(1, sizeof *run);
    if (run == NULL)
        return;
    run->expiry = expiry;
    run->voucher = voucher;
    sk_list_add_behind(&run->list, &expiry->runs);
    expiry->run_count++;
    expiry->scans[voucher->shard].run_count++;
    sk_voucher_pin(voucher);
    voucher->maintenance->expiring.active = true;
    sk_key_of_lock("expire", voucher->id, voucher->tag, key);
    run->lock = sk_named_lock_take(expiry->sale->locks, key, expiry_on_locked, run);
    if (run->lock == NULL)
        expiry_drop(run, uv_now(expiry->sale->loop) + AGAIN_MS);
}

// Starts as many as may run at a time, of the vouchers not yet checked in this tick.
static void expiry_start_due(struct sk_expiry *expiry)
{
    const struct sk_sale *sale = expiry->sale;
    size_t count = sk_catalogue_count(sale->catalogue);
    if (expiry->stopped)
        return;
    for (; count > 0 && expiry->left > 0 && expiry->run_count < RUNS_MAX * sale->shard_count; expiry->left--) {
        struct sk_voucher *voucher = sk_catalogue_at(sale->catalogue, expiry->at++ % count);
        if (expiry->scans[voucher->shard].run_count < RUNS_MAX && expiry_is_due(expiry, voucher))
            expiry_start(expiry, voucher);
    }
}

static void expiry_end(struct expiry_run *run, uint64_t next_ms)
{
    struct sk_expiry *expiry = run->expiry;
    expiry_drop(run, next_ms);
    expiry_start_due(expiry);
}

static void expiry_fail(struct expiry_run *run)
{
    expiry_end(run, uv_now(run->expiry->sale->loop) + AGAIN_MS);
}

// ---- a run ----

static void expiry_on_locked(void *arg, bool held)
{
    struct expiry_run *run = arg;
    const char *argv[] = {"TIME"};
    if (!held) { // another has it
        expiry_fail(run);
        return;
    }
    expiry_move(run, EXPIRY_CLOCK);
    if (sk_redis_command(sk_sale_ask_redis(run->expiry->sale, run->voucher), 1, argv, NULL, expiry_on_clock, run) !=
        SK_OK)
        expiry_fail(run);
}

static void expiry_want_scan(struct expiry_run *run)
{
    expiry_move(run, EXPIRY_ASKING);
    expiry_scan(&run->expiry->scans[run->voucher->shard]);
}

static void expiry_on_clock(void *arg, const struct sk_reply *reply)
{
    struct expiry_run *run = arg;
    int64_t seconds;
    if (!sk_reply_number(sk_reply_at(reply, 0), &seconds) || seconds < 0) {
        expiry_fail(run);
        return;
    }
    run->redis_ahead_ms = (uint64_t)seconds * 1000 - uv_now(run->expiry->sale->loop);
    run->next_ms = UINT64_MAX;
    expiry_want_scan(run);
}

static enum sk_status expiry_scan_one(struct expiry_scan *scan)
{
    const struct expiry_run *run = scan->runs[0];
    char slot[SK_PARAM_NUMBER_SIZE], voucher[SK_PARAM_NUMBER_SIZE], most[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {sk_params_number(slot, run->voucher->slot), sk_params_number(voucher, run->voucher->id),
                            run->from[0] == '\0' ? NULL : run->from, sk_params_number(most, SK_RETURNS_MAX)};
    return sk_pg_call(scan->expiry->sale->shards[scan->shard].queries, SK_STATEMENT_DUE_ORDERS, 4, params,
                      expiry_on_due, scan);
}

static enum sk_status expiry_scan_many(struct expiry_scan *scan)
{
    struct sk_buf slots = {0}, vouchers = {0}, from = {0};
    char number[SK_PARAM_NUMBER_SIZE];
    enum sk_status status = SK_NO_MEM;
    sk_params_begin(&slots);
    sk_params_begin(&vouchers);
    sk_params_begin(&from);
    for (size_t i = 0; i < scan->count; i++) {
        const struct expiry_run *run = scan->runs[i];
        sk_params_add(&slots, sk_params_number(number, run->voucher->slot));
        sk_params_add(&vouchers, sk_params_number(number, run->voucher->id));
        sk_params_add(&from, run->from[0] == '\0' ? "null" : run->from);
    }
    const char *params[] = {sk_params_end(&slots), sk_params_end(&vouchers), sk_params_end(&from),
                            sk_params_number(number, SK_RETURNS_MAX)};
    if (params[0] != NULL && params[1] != NULL && params[2] != NULL)
        status = sk_pg_call(scan->expiry->sale->shards[scan->shard].queries, SK_STATEMENT_DUE_BATCHES, 4, params,
                            expiry_on_due, scan);
    sk_buf_free(&slots);
    sk_buf_free(&vouchers);
    sk_buf_free(&from);
    return status;
}

// Scans for all runs of the shard that want it, unless a scan of it is in progress.
static void expiry_scan(struct expiry_scan *scan)
{
    const struct sk_list *runs = &scan->expiry->runs;
    if (scan->count > 0)
        return;
    for (struct expiry_run *run = sk_list_first(runs); run != NULL && scan->count < TOGETHER_MAX;
         run = sk_list_next(runs, &run->list)) {
        if (run->state != EXPIRY_ASKING || run->voucher->shard != scan->shard)
            continue;
        expiry_move(run, EXPIRY_SCANNING);
        scan->runs[scan->count++] = run;
    }
    if (scan->count > 0 && (scan->count == 1 ? expiry_scan_one(scan) : expiry_scan_many(scan)) != SK_OK)
        expiry_on_due(scan, &(struct sk_result){.kind = SK_RESULT_FAILED});
}

// Only Redis's seconds are read, and the two clocks were asked some ms apart.
static bool expiry_clocks_agree(struct expiry_run *run, uint64_t pg_ms)
{
    struct expiry_scan *scan = &run->expiry->scans[run->voucher->shard];
    uint64_t redis_ms = run->redis_ahead_ms + uv_now(run->expiry->sale->loop);
    uint64_t apart_ms = redis_ms > pg_ms ? redis_ms - pg_ms : pg_ms - redis_ms;
    bool apart = apart_ms > APART_MOST_MS;
    if (apart && !scan->apart)
        sk_log(SK_LOG_WARN, "expiry pauses: the clocks of PostgreSQL and Redis differ", "apart_ms=%" PRIu64, apart_ms);
    else if (!apart && scan->apart)
        sk_log(SK_LOG_INFO, "expiry goes on: the clocks of PostgreSQL and Redis agree", "apart_ms=%" PRIu64, apart_ms);
    scan->apart = apart;
    return !apart;
}

static void expiry_pace(struct expiry_run *run)
{
    expiry_move(run, EXPIRY_PACING);
    run->turn = ++run->expiry->turns;
    if (run->expiry->budget > 0 && (run->due[0] == '\0' || run->goes_on))
        expiry_go_on(run);
}

static void expiry_take_due(struct expiry_run *run, const struct sk_rows *rows, size_t row)
{
    struct sk_expiry *expiry = run->expiry;
    uint64_t now = uv_now(expiry->sale->loop), pg_ms = (uint64_t)sk_rows_number(rows, row, COLUMN_NOW_MS);
    const char *walked_to = sk_rows_text(rows, row, COLUMN_WALKED_TO), *next = sk_rows_text(rows, row, COLUMN_NEXT_MS);
    if (!expiry_clocks_agree(run, pg_ms)) {
        expiry_fail(run);
        return;
    }
    if (next != NULL) {
        uint64_t next_ms = (uint64_t)sk_rows_number(rows, row, COLUMN_NEXT_MS);
        uint64_t due_ms = now + (next_ms > pg_ms ? next_ms - pg_ms : 0);
        run->next_ms = due_ms < run->next_ms ? due_ms : run->next_ms;
    }
    run->goes_on = walked_to != NULL;
    memcpy(run->from, walked_to == NULL ? "" : walked_to, walked_to == NULL ? 1 : SK_UUID_SIZE);
    const char *due = sk_rows_text(rows, row, COLUMN_DUE); // {id,id,...}
    size_t len = strlen(due);
    SK_ASSERT(len >= 2 && len - 2 < sizeof run->due);
    memcpy(run->due, due + 1, len - 2);
    run->due[len - 2] = '\0';
    expiry_pace(run);
}

static void expiry_on_due(void *arg, const struct sk_result *result)
{
    struct expiry_scan *scan = arg;
    struct expiry_run *runs[TOGETHER_MAX];
    size_t count = scan->count;
    for (size_t i = 0; i < count; i++)
        runs[i] = scan->runs[i];
    scan->count = 0;
    bool found = result->rows != NULL && sk_rows_count(result->rows) == count;
    for (size_t i = 0; i < count; i++) {
        if (found)
            expiry_take_due(runs[i], result->rows, i);
        else
            expiry_fail(runs[i]);
    }
    expiry_scan(scan);
}

static void expiry_on_returned(void *arg, enum sk_return_end end, size_t ended)
{
    struct expiry_run *run = arg;
    sk_metrics_add(run->expiry->sale->metrics, SK_METRIC_ORDERS_EXPIRED, ended);
    if (end != SK_RETURN_DONE) {
        expiry_fail(run);
        return;
    }
    run->due[0] = '\0';
    expiry_pace(run);
}

// The run's turn: ends the orders that were found, then reads the next part of the walk, or ends the walk. The orders
// found were due, so the walk is repeated soon: more may have become due meanwhile.
static void expiry_go_on(struct expiry_run *run)
{
    struct sk_expiry *expiry = run->expiry;
    if (run->due[0] != '\0' && !expiry->stopped) {
        SK_FAILPOINT("expiry.found");
        expiry->budget -= (int)((strlen(run->due) + 1) / (SK_UUID_CHARS + 1));
        expiry_move(run, EXPIRY_RETURNING);
        if (sk_return_orders(sk_sale_shard(expiry->sale, run->voucher)->returns, run->voucher, run->due,
                             SK_RETURN_EXPIRED, "expiry", expiry_on_returned, run) != SK_OK)
            expiry_fail(run);
        return;
    }
    if (run->goes_on && !expiry->stopped) {
        expiry_want_scan(run);
        return;
    }
    // Orders placed from now on are due no sooner than this. The walk may have missed orders that were settled late.
    uint64_t now = uv_now(expiry->sale->loop), within_ms = (uint64_t)run->voucher->pay_within_s * 1000;
    uint64_t latest = now + (within_ms < SELDOM_MS ? within_ms : SELDOM_MS);
    expiry_end(run, run->next_ms < latest ? run->next_ms : latest);
}

// ---- ticks ----

// NULL: none waits.
static struct expiry_run *expiry_longest_waiting(const struct sk_expiry *expiry)
{
    struct expiry_run *longest = NULL;
    for (struct expiry_run *run = sk_list_first(&expiry->runs); run != NULL;
         run = sk_list_next(&expiry->runs, &run->list)) {
        if (run->state == EXPIRY_PACING && (longest == NULL || run->turn < longest->turn))
            longest = run;
    }
    return longest;
}

static void expiry_on_tick(void *arg)
{
    struct sk_expiry *expiry = arg;
    expiry->left = sk_catalogue_count(expiry->sale->catalogue);
    expiry->budget = expiry->budget < 0 ? expiry->budget + PACE : PACE;
    for (struct expiry_run *run; expiry->budget > 0 && (run = expiry_longest_waiting(expiry)) != NULL;)
        expiry_go_on(run);
    expiry_start_due(expiry);
}

struct sk_expiry *sk_expiry_open(const struct sk_sale *sale)
{
    struct sk_expiry *expiry = calloc(1, sizeof *expiry);
    if (expiry == NULL)
        return NULL;
    expiry->sale = sale;
    for (size_t i = 0; i < SK_SHARDS_MAX; i++)
        expiry->scans[i] = (struct expiry_scan){.expiry = expiry, .shard = i};
    sk_list_begin(&expiry->runs);
    expiry->timer = sk_timer_open(sale->loop, TICK_MS, expiry_on_tick, expiry);
    if (expiry->timer == NULL) {
        free(expiry);
        return NULL;
    }
    return expiry;
}

void sk_expiry_stop(struct sk_expiry *expiry)
{
    expiry->stopped = true;
}

void sk_expiry_close(struct sk_expiry *expiry)
{
    if (expiry == NULL)
        return;
    for (struct expiry_run *run; (run = sk_list_first(&expiry->runs)) != NULL;)
        expiry_drop(run, 0);
    sk_timer_close(expiry->timer);
    free(expiry);
}
