// A round checks the vouchers that are due, in pages. For each page it reads PostgreSQL's side (one statement), then
// Redis's (one write), and audit.c judges. So PostgreSQL's side is always older than Redis's.
//
//   round -> page -> accounts -> snapshots -> judge each -> next page -> ... -> publish -> pause
//
// Each call has the deadline of its link, and the watch waits for nothing that it starts: rebuilds and sweeps run by
// themselves. So one broken voucher delays no other. A shard whose statement fails is left out for the rest of the
// round, so it delays the vouchers of the others by one deadline. Of its vouchers, and of those of a shard that is
// away, only Redis's side is read: the journals are long when PostgreSQL is away. They are not judged.
#include "watch.h"

#include <inttypes.h>
#include <stdlib.h>

#include "assignment.h"
#include "audit.h"
#include "backoff.h"
#include "busy.h"
#include "catalogue.h"
#include "changes.h"
#include "clock.h"
#include "grant.h"
#include "log.h"
#include "maintenance.h"
#include "overview.h"
#include "params.h"
#include "sweep.h"
#include "timer.h"
#include "voucher.h"

enum {
    ROUND_MS = 1000,
    SOON_MS = 100,             // time for whoever changed a voucher to bring the change to Redis
    IDLE_ROUNDS = 4,           // between two checks of an idle voucher: about five seconds
    PAGE = 100,                // vouchers
    LETTERS_ROUNDS = 5,        // settled dead letters are ended, and payments counted, in every fifth round
    TO_REFUND_MOST = 10000,    // so many payments of a shard are counted
    DIFFERING_MAX = 2,         // checks in a row before a difference is believed
    DIFFERING_HOLD_MS = 60000, // if one rebuild did not remove a difference, the next would not either
};

struct watch_check {
    struct sk_watch *watch;
    struct sk_voucher *voucher; // pinned
    struct sk_account account;
    int64_t letters;
    bool known; // PostgreSQL has returned its side
};

struct watch_shard {
    struct sk_watch *watch;
    bool failed;        // it has not returned its accounts in this round: no more is asked of it
    uint64_t to_refund; // payments that are to be given back
};

enum watch_state {
    WATCH_IDLE,      // until the time of the next round
    WATCH_PAGE,      // the vouchers of a page are chosen
    WATCH_ACCOUNTS,  // PostgreSQL is asked
    WATCH_SNAPSHOTS, // Redis is asked
    WATCH_STATES
};

struct sk_watch {
    enum watch_state state;
    const struct sk_sale *sale;
    struct sk_rebuilds *rebuilds;
    struct sk_sweeper *sweeper;
    struct sk_timer *timer; // owned
    struct sk_backoff jitter;
    uint64_t round;
    bool soon;          // the next round begins in a moment
    bool hurry;         // the next round begins at once, and checks all vouchers
    bool all;           // this round checks all vouchers
    uint64_t all_round; // the last one that did
    size_t at;          // in the catalogue: what comes next
    struct watch_check page[PAGE];
    size_t count, answered;
    size_t asking; // shards that have not returned their accounts of this page yet
    struct watch_shard shards[SK_SHARDS_MAX];
    uint64_t asked_at_ms; // when PostgreSQL was asked about this page
    struct sk_busy busy;
    struct sk_overview overview;
    bool missed; // this round has not seen all that was due
    bool unseen; // ... in Redis
};

static void watch_on_time(void *arg);
static void watch_next_page(struct sk_watch *watch);
static void watch_ask_accounts(struct sk_watch *watch);
static void watch_ask_shard(struct sk_watch *watch, size_t shard);
static void watch_note_failed(struct watch_shard *shard);
static void watch_on_accounts(void *arg, const struct sk_result *result);
static void watch_take_accounts(struct sk_watch *watch, const struct sk_result *result);
static void watch_ask_redis(struct sk_watch *watch);
static void watch_on_snapshot(void *arg, const struct sk_reply *reply);
static void watch_note_snapshot(struct watch_check *check, const struct sk_snapshot *seen, int64_t age_ms);
static void watch_judge(struct watch_check *check, const struct sk_snapshot *before, const struct sk_snapshot *seen);
static void watch_answered(struct sk_watch *watch);
static void watch_end_page(struct sk_watch *watch);

static void watch_move(struct sk_watch *watch, enum watch_state state)
{
#define TO(name) (1U << WATCH_##name)
    static const unsigned allowed[WATCH_STATES] = {
        [WATCH_IDLE] = TO(PAGE),
        [WATCH_PAGE] = TO(ACCOUNTS) | TO(IDLE),
        [WATCH_ACCOUNTS] = TO(SNAPSHOTS),
        [WATCH_SNAPSHOTS] = TO(PAGE) | TO(IDLE),
    };
#undef TO
    SK_ASSERT((allowed[watch->state] & 1U << state) != 0);
    watch->state = state;
}

// ---- opening and closing ----

struct sk_watch *sk_watch_open(const struct sk_sale *sale, struct sk_rebuilds *rebuilds, struct sk_sweeper *sweeper)
{
    struct sk_watch *watch = calloc(1, sizeof *watch);
    if (watch == NULL)
        return NULL;
    watch->sale = sale;
    watch->rebuilds = rebuilds;
    watch->sweeper = sweeper;
    watch->jitter = (struct sk_backoff){.first_ms = ROUND_MS, .most_ms = ROUND_MS};
    sk_busy_open(&watch->busy, sale);
    for (size_t i = 0; i < SK_SHARDS_MAX; i++)
        watch->shards[i].watch = watch;
    watch->timer = sk_timer_open(sale->loop, 0, watch_on_time, watch);
    if (watch->timer == NULL) {
        free(watch);
        return NULL;
    }
    sk_timer_once(watch->timer, ROUND_MS / 2);
    return watch;
}

void sk_watch_close(struct sk_watch *watch)
{
    if (watch == NULL)
        return;
    sk_timer_close(watch->timer);
    sk_busy_close(&watch->busy);
    free(watch);
}

// ---- rounds ----

void sk_watch_hurry(struct sk_watch *watch)
{
    watch->hurry = true;
    if (watch->state == WATCH_IDLE)
        sk_timer_once(watch->timer, 0);
}

void sk_watch_soon(struct sk_watch *watch)
{
    if (watch->soon || watch->hurry)
        return;
    watch->soon = true;
    if (watch->state == WATCH_IDLE)
        sk_timer_once(watch->timer, SOON_MS);
}

static void watch_on_time(void *arg)
{
    struct sk_watch *watch = arg;
    watch->soon = false;
    watch->all = watch->hurry;
    watch->hurry = false;
    watch->round++;
    watch->all_round = watch->all ? watch->round : watch->all_round;
    watch->at = 0;
    sk_busy_begin(&watch->busy);
    watch->overview = (struct sk_overview){0};
    watch->missed = watch->unseen = false;
    for (size_t i = 0; i < watch->sale->shard_count; i++)
        watch->shards[i].failed = false;
    watch_next_page(watch);
}

static void watch_on_letters_ended(void *arg, const struct sk_result *result)
{
    (void)arg;
    (void)result; // a later round does what was not done
}

// Letters end when all their orders are known. Requeued ones end here, not where they were requeued, because that
// instance may be gone.
static void watch_end_letters(struct sk_watch *watch)
{
    const struct sk_sale *sale = watch->sale;
    if (watch->round % LETTERS_ROUNDS != 0)
        return;
    for (size_t i = 0; i < sale->shard_count; i++) {
        if (sk_assignment_has(sale->session, i, "letters") &&
            sk_pg_call(sale->shards[i].queries, SK_STATEMENT_END_SETTLED_LETTERS, 0, NULL, watch_on_letters_ended,
                       NULL) != SK_OK)
            sk_log(SK_LOG_DEBUG, "settled dead letters not ended now", "");
    }
}

static void watch_note_to_refund(struct watch_shard *shard, uint64_t count)
{
    const struct sk_watch *watch = shard->watch;
    uint64_t sum = 0;
    shard->to_refund = count;
    for (size_t i = 0; i < watch->sale->shard_count; i++)
        sum += watch->shards[i].to_refund;
    sk_metrics_set(watch->sale->metrics, SK_METRIC_TO_REFUND, sum);
}

static void watch_on_to_refund(void *arg, const struct sk_result *result)
{
    struct watch_shard *shard = arg;
    if (result->rows != NULL && sk_rows_count(result->rows) == 1)
        watch_note_to_refund(shard, (uint64_t)sk_rows_number(result->rows, 0, 0));
}

// One session counts those of a shard, including retired vouchers'.
static void watch_count_to_refund(struct sk_watch *watch)
{
    const struct sk_sale *sale = watch->sale;
    char most[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {sk_params_number(most, TO_REFUND_MOST)};
    if (watch->round % LETTERS_ROUNDS != 0)
        return;
    for (size_t i = 0; i < sale->shard_count; i++) {
        if (!sk_assignment_has(sale->session, i, "payments"))
            watch_note_to_refund(&watch->shards[i], 0);
        else if (sk_pg_call(sale->shards[i].queries, SK_STATEMENT_COUNT_TO_REFUND, 1, params, watch_on_to_refund,
                            &watch->shards[i]) != SK_OK)
            sk_log(SK_LOG_DEBUG, "payments to refund not counted now", "");
    }
}

static void watch_end_round(struct sk_watch *watch)
{
    watch_end_letters(watch);
    watch_count_to_refund(watch);
    sk_busy_publish(&watch->busy);
    if (!watch->unseen)
        sk_overview_publish_redis(&watch->overview, watch->sale->metrics);
    if (!watch->missed)
        sk_overview_publish_books(&watch->overview, watch->sale->metrics);
    watch_move(watch, WATCH_IDLE);
    uint32_t pause_ms = ROUND_MS / 2 + sk_backoff_next(&watch->jitter);
    if (watch->soon)
        pause_ms = SOON_MS;
    sk_timer_once(watch->timer, watch->hurry ? 0 : pause_ms);
}

// ---- which vouchers ----

// At rest: the last check found the voucher loaded, its journal empty and no difference, and nothing is in progress
// here.
static bool watch_is_at_rest(const struct sk_voucher *voucher)
{
    const struct sk_watched *watched = &voucher->maintenance->watched;
    return watched->snapshot.present && !watched->snapshot.loading && watched->snapshot.same_run &&
           watched->snapshot.journal == 0 && watched->differing == 0 && voucher->entries.oldest == NULL &&
           !sk_snapshot_is_behind(&watched->snapshot, voucher->seen.epoch, voucher->seen.last);
}

// Whether an operator's change has not been seen in Redis yet. Then all sessions check the voucher, whichever it is
// assigned to: that session may have died over the change.
static bool watch_is_old(struct sk_voucher *voucher)
{
    struct sk_watched *watched = &voucher->maintenance->watched;
    if (watched->change == 0)
        watched->change = voucher->change; // as first seen
    return voucher->change > watched->change;
}

// Vouchers at rest take turns, so each round checks some of them.
static bool watch_is_due(struct sk_watch *watch, struct sk_voucher *voucher)
{
    if (watch_is_old(voucher))
        return true;
    if (!sk_assignment_has_voucher(watch->sale->session, voucher))
        return false;
    return watch->all || !watch_is_at_rest(voucher) || (watch->round + voucher->slot) % IDLE_ROUNDS == 0;
}

static void watch_note(struct sk_watch *watch, struct sk_voucher *voucher)
{
    sk_overview_voucher(&watch->overview, voucher);
    if (sk_assignment_has_voucher(watch->sale->session, voucher))
        sk_overview_check(&watch->overview, voucher, voucher->maintenance->watched.differing >= DIFFERING_MAX);
}

// ---- a page ----

static void watch_next_page(struct sk_watch *watch)
{
    const struct sk_sale *sale = watch->sale;
    const struct sk_catalogue *catalogue = sale->catalogue;
    watch_move(watch, WATCH_PAGE);
    for (size_t i = 0; i < sale->shard_count; i++)
        watch->missed |= !sk_pg_ready(sale->shards[i].queries);
    watch->count = watch->answered = 0;
    for (; watch->at < sk_catalogue_count(catalogue); watch->at++) {
        struct sk_voucher *voucher = sk_catalogue_at(catalogue, watch->at);
        if (watch->count == PAGE)
            break;
        watch_note(watch, voucher);
        if (!sk_redis_ready(sk_sale_redis(sale, voucher))) {
            watch->missed = watch->unseen = true;
            continue;
        }
        if (!watch_is_due(watch, voucher))
            continue;
        watch->page[watch->count++] = (struct watch_check){.watch = watch, .voucher = voucher};
        sk_voucher_pin(voucher);
    }
    if (watch->count == 0)
        watch_end_page(watch);
    else
        watch_ask_accounts(watch);
}

// Asks each shard about its vouchers of the page.
static void watch_ask_accounts(struct sk_watch *watch)
{
    watch_move(watch, WATCH_ACCOUNTS);
    watch->asked_at_ms = uv_now(watch->sale->loop);
    watch->asking = 0;
    for (size_t i = 0; i < watch->sale->shard_count; i++)
        watch_ask_shard(watch, i);
    if (watch->asking == 0)
        watch_ask_redis(watch);
}

static void watch_note_failed(struct watch_shard *shard)
{
    shard->failed = true;
    shard->watch->missed = true;
}

static void watch_ask_shard(struct sk_watch *watch, size_t shard)
{
    struct sk_account_query query;
    enum sk_status status = SK_NO_MEM;
    size_t count = 0;
    if (watch->shards[shard].failed)
        return;
    sk_account_query_begin(&query);
    for (size_t i = 0; i < watch->count; i++) {
        if (watch->page[i].voucher->shard != shard)
            continue;
        sk_account_query_add(&query, watch->page[i].voucher);
        count++;
    }
    if (count > 0 && sk_account_query_end(&query))
        status = sk_pg_call(watch->sale->shards[shard].queries, SK_STATEMENT_VOUCHER_ACCOUNTS, 2, query.params,
                            watch_on_accounts, &watch->shards[shard]);
    sk_account_query_free(&query);
    watch->asking += status == SK_OK;
    if (count > 0 && status != SK_OK)
        watch_note_failed(&watch->shards[shard]);
}

static void watch_on_accounts(void *arg, const struct sk_result *result)
{
    struct watch_shard *shard = arg;
    struct sk_watch *watch = shard->watch;
    if (result->rows == NULL)
        watch_note_failed(shard);
    else
        watch_take_accounts(watch, result);
    if (--watch->asking == 0)
        watch_ask_redis(watch);
}

static void watch_take_accounts(struct sk_watch *watch, const struct sk_result *result)
{
    for (size_t row = 0; row < sk_rows_count(result->rows); row++) {
        struct sk_account account;
        sk_account_read(result->rows, row, &account);
        for (size_t i = 0; i < watch->count; i++) {
            struct watch_check *check = &watch->page[i];
            if (check->voucher->id != account.voucher_id || check->voucher->slot != account.slot)
                continue;
            check->account = account;
            check->letters = sk_account_letters(result->rows, row);
            check->known = true;
            check->voucher->maintenance->watched.empty_at_ms = account.buyers == 0 ? watch->asked_at_ms : 0;
            break;
        }
    }
}

// Uses the link of the order path, all in one write.
static void watch_ask_redis(struct sk_watch *watch)
{
    watch_move(watch, WATCH_SNAPSHOTS);
    for (size_t i = 0; i < watch->count; i++) {
        struct watch_check *check = &watch->page[i];
        if (sk_snapshot_ask(sk_sale_redis(watch->sale, check->voucher), &check->voucher->keys, NULL, watch_on_snapshot,
                            check) == SK_OK)
            continue;
        watch->missed = watch->unseen = true;
        watch->answered++;
    }
    watch_answered(watch);
}

static void watch_on_snapshot(void *arg, const struct sk_reply *reply)
{
    struct watch_check *check = arg;
    struct sk_watch *watch = check->watch;
    struct sk_snapshot seen;
    if (reply != NULL && sk_snapshot_read(reply, &seen)) {
        const struct sk_snapshot before = check->voucher->maintenance->watched.snapshot;
        watch_note_snapshot(check, &seen, sk_snapshot_age_ms(reply));
        if (check->known)
            watch_judge(check, &before, &seen);
    } else {
        watch->missed = watch->unseen = true;
    }
    watch->answered++;
    watch_answered(watch);
}

static void watch_answered(struct sk_watch *watch)
{
    if (watch->answered == watch->count)
        watch_end_page(watch);
}

static void watch_end_page(struct sk_watch *watch)
{
    bool checked = watch->state == WATCH_SNAPSHOTS; // else no more was due
    for (size_t i = 0; i < watch->count; i++)
        sk_voucher_unpin(watch->page[i].voucher);
    if (checked && watch->at < sk_catalogue_count(watch->sale->catalogue))
        watch_next_page(watch);
    else
        watch_end_round(watch);
}

// ---- what is found ----

// Whether to act on a difference: several checks found it, and no rebuild has left it. One that failed does not count:
// nothing may have been done.
static bool watch_believes(struct sk_watched *watched, uint64_t now)
{
    bool held = watched->rebuilt_at_ms != 0 && now < watched->rebuilt_at_ms + DIFFERING_HOLD_MS;
    return ++watched->differing >= DIFFERING_MAX && !held;
}

static void watch_rebuild(struct sk_watch *watch, struct sk_voucher *voucher, enum sk_rebuild_why why)
{
    if (sk_rebuild(watch->rebuilds, voucher, why, NULL, NULL) != SK_OK)
        sk_log(SK_LOG_DEBUG, "not rebuilt now", "voucher=%" PRId64, voucher->id);
}

static void watch_on_carried_out(void *arg, bool ok)
{
    (void)arg;
    (void)ok; // the next check shows it
}

static void watch_carry_out(struct sk_watch *watch, struct sk_voucher *voucher)
{
    if (sk_changes_carry_out(watch->sale, voucher, watch_on_carried_out, NULL) != SK_OK)
        sk_log(SK_LOG_DEBUG, "not brought up to date now", "voucher=%" PRId64, voucher->id);
}

static void watch_log_finding(const struct watch_check *check, const struct sk_snapshot *seen, enum sk_books finding)
{
    const struct sk_account *account = &check->account;
    sk_log(SK_LOG_WARN, finding == SK_BOOKS_DIFFER ? "books differ" : "Redis cannot be relied on",
           "voucher=%" PRId64 " finding=%s epoch=%" PRId64 "/%" PRId64 " stock=%" PRId64 "/%" PRId64 " buyers=%" PRId64
           "/%" PRId64 " newest=%s/%s change=%" PRId64 "/%" PRId64,
           check->voucher->id, sk_books_name(finding), seen->epoch, account->epoch, seen->stock, account->stock,
           seen->buyers, account->buyers, seen->last, account->newest, seen->terms.change, account->terms.change);
}

// Its sale is long over, its unpaid orders have expired, and nothing of it is in progress.
static bool watch_may_retire(const struct sk_watch *watch, const struct sk_voucher *voucher)
{
    const struct sk_sale *sale = watch->sale;
    int64_t over_ms = voucher->end_ms + voucher->pay_within_s * 1000;
    return sk_wall_ms() >= (uint64_t)(over_ms + sale->options->retire_after_ms) &&
           voucher->maintenance->lost.orders.count == 0 && watch_is_at_rest(voucher) &&
           uv_now(sale->loop) >= voucher->maintenance->retire_at_ms;
}

static void watch_sweep(struct sk_watch *watch, struct sk_voucher *voucher)
{
    if (sk_sweep_voucher(watch->sweeper, voucher) != SK_OK)
        sk_log(SK_LOG_DEBUG, "not swept now", "voucher=%" PRId64, voucher->id);
}

static void watch_note_snapshot(struct watch_check *check, const struct sk_snapshot *seen, int64_t age_ms)
{
    struct sk_watched *watched = &check->voucher->maintenance->watched;
    watched->snapshot = *seen;
    watched->checked_at_ms = uv_now(check->watch->sale->loop);
    watched->journal_age_ms = age_ms;
    if (seen->journal > 0)
        sk_busy_note(&check->watch->busy, check->voucher);
}

static void watch_judge(struct watch_check *check, const struct sk_snapshot *before, const struct sk_snapshot *seen)
{
    static const enum sk_metric counters[] = {
        [SK_BOOKS_AGREE] = SK_METRIC_FINDING_AGREE,     [SK_BOOKS_MISSING] = SK_METRIC_FINDING_MISSING,
        [SK_BOOKS_LOADING] = SK_METRIC_FINDING_LOADING, [SK_BOOKS_UNSURE] = SK_METRIC_FINDING_UNSURE,
        [SK_BOOKS_BEHIND] = SK_METRIC_FINDING_BEHIND,   [SK_BOOKS_DIFFER] = SK_METRIC_FINDING_DIFFER,
        [SK_BOOKS_OLD] = SK_METRIC_FINDING_OLD,
    };
    struct sk_watch *watch = check->watch;
    struct sk_voucher *voucher = check->voucher;
    struct sk_watched *watched = &voucher->maintenance->watched;
    enum sk_books finding = sk_audit(&check->account, before, seen);
    watched->letters = check->letters;
    sk_metrics_add(watch->sale->metrics, counters[finding], 1);
    if (seen->terms.change > watched->change)
        watched->change = seen->terms.change;
    if (finding != SK_BOOKS_DIFFER)
        watched->differing = 0;
    if (finding == SK_BOOKS_BEHIND) // until it is rebuilt, no purchase may believe it either
        sk_grant_expect(voucher, check->account.epoch, check->account.newest);
    if (finding == SK_BOOKS_AGREE && sk_snapshot_is_at_rest(before, seen))
        watched->rebuilt_at_ms = 0; // a difference from now on is another one
    if (finding == SK_BOOKS_DIFFER) {
        if (watch_believes(watched, uv_now(watch->sale->loop))) {
            watch_log_finding(check, seen, finding);
            watch_rebuild(watch, voucher, SK_REBUILD_ORDERED);
        }
    } else if (finding == SK_BOOKS_OLD) {
        watch_carry_out(watch, voucher);
    } else if (finding != SK_BOOKS_AGREE) {
        if (finding != SK_BOOKS_LOADING) {
            watch_log_finding(check, seen, finding);
            watch->hurry |= watch->round >= watch->all_round + IDLE_ROUNDS; // Redis may have lost more
        }
        watch_rebuild(watch, voucher, SK_REBUILD_DOUBT);
    } else if (seen->journal > 0) {
        watch_sweep(watch, voucher);
    } else if (watch_may_retire(watch, voucher)) {
        watch_rebuild(watch, voucher, SK_REBUILD_RETIRE);
    }
}

// ---- vouchers with orders in progress ----

size_t sk_watch_busy(const struct sk_watch *watch, struct sk_voucher **out, size_t most, bool *complete)
{
    return sk_busy_list(&watch->busy, out, most, complete);
}
