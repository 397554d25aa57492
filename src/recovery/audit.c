// A round checks the vouchers that are due, in pages. For each page it reads PostgreSQL's side (one statement), then
// Redis's (one write), and voucher_books.c judges. So PostgreSQL's side is always older than Redis's.
//
//   round -> page -> accounts -> snapshots -> judge each -> next page -> ... -> publish -> pause
//
// Each call has the deadline of its link, and the audit waits for nothing that it starts: rebuilds and sweeps run by
// themselves. So one broken voucher delays no other. A shard whose statement fails is left out for the rest of the
// round, so it delays the vouchers of the others by one deadline. Of its vouchers, and of those of a shard that is
// away, only Redis's side is read: the journals are long when PostgreSQL is away. They are not judged.
#include "audit.h"

#include <inttypes.h>
#include <stdlib.h>

#include "assignment.h"
#include "backoff.h"
#include "busy_vouchers.h"
#include "catalogue.h"
#include "clock.h"
#include "grant.h"
#include "line_upkeep.h"
#include "log.h"
#include "maintenance.h"
#include "params.h"
#include "sale_phase.h"
#include "timer.h"
#include "voucher.h"
#include "voucher_books.h"
#include "voucher_changes.h"

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

struct audit_check {
    struct sk_audit *audit;
    struct sk_voucher *voucher; // pinned
    struct sk_account account;
    bool known; // PostgreSQL has returned its side
};

struct audit_shard {
    struct sk_audit *audit;
    bool failed;        // it has not returned its accounts in this round: no more is asked of it
    uint64_t to_refund; // payments that are to be given back
};

// The result of a round as gauges, so that /metrics asks no store. A session reports the vouchers assigned to it alone,
// except in `on_sale`, so the figures of all instances can be added up. The last check of an idle voucher may be five
// seconds old: nothing has moved there since.
struct audit_gauges {
    uint64_t entries, oldest_ms, differ, letters, on_sale; // oldest_ms: by sk_monotonic_ms(); 0: there is no entry
    struct sk_remaining_rows remaining, differing;
};

enum audit_state {
    AUDIT_IDLE,      // until the time of the next round
    AUDIT_PAGE,      // the vouchers of a page are chosen
    AUDIT_ACCOUNTS,  // PostgreSQL is asked
    AUDIT_SNAPSHOTS, // Redis is asked
    AUDIT_STATES
};

struct sk_audit {
    enum audit_state state;
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
    struct audit_check page[PAGE];
    size_t count, answered;
    size_t asking; // shards that have not returned their accounts of this page yet
    struct audit_shard shards[SK_SHARDS_MAX];
    uint64_t asked_at_ms; // when PostgreSQL was asked about this page
    struct sk_busy busy;
    struct audit_gauges gauges; // of this round
    bool missed;                // this round has not seen all that was due
    bool unseen;                // ... in Redis
};

static void audit_on_accounts(void *arg, const struct sk_result *result);
static void audit_ask_redis(struct sk_audit *audit);
static void audit_on_snapshot(void *arg, const struct sk_reply *reply);
static void audit_end_page(struct sk_audit *audit);

static void audit_move(struct sk_audit *audit, enum audit_state state)
{
#define TO(name) (1U << AUDIT_##name)
    static const unsigned allowed[AUDIT_STATES] = {
        [AUDIT_IDLE] = TO(PAGE),
        [AUDIT_PAGE] = TO(ACCOUNTS) | TO(IDLE),
        [AUDIT_ACCOUNTS] = TO(SNAPSHOTS),
        [AUDIT_SNAPSHOTS] = TO(PAGE) | TO(IDLE),
    };
#undef TO
    SK_ASSERT((allowed[audit->state] & 1U << state) != 0);
    audit->state = state;
}

// ---- which vouchers ----

// At rest: the last check found the voucher loaded, its journal empty, nobody waiting and no difference, and nothing is
// in progress here.
static bool audit_is_at_rest(const struct sk_voucher *voucher)
{
    const struct sk_audited *audited = &voucher->maintenance->audited;
    return audited->snapshot.present && !audited->snapshot.loading && audited->snapshot.same_run &&
           audited->snapshot.journal == 0 && audited->waiting == 0 && audited->differing == 0 &&
           sk_list_is_empty(&voucher->entries.own) &&
           !sk_snapshot_is_behind(&audited->snapshot, voucher->seen.epoch, voucher->seen.last);
}

// Whether an operator's change has not been seen in Redis yet. Then all sessions check the voucher, whichever it is
// assigned to: that session may have died over the change.
static bool audit_is_old(struct sk_voucher *voucher)
{
    struct sk_audited *audited = &voucher->maintenance->audited;
    if (audited->change == 0)
        audited->change = voucher->change; // as first seen
    return voucher->change > audited->change;
}

// Vouchers at rest take turns, so each round checks some of them.
static bool audit_is_due(struct sk_audit *audit, struct sk_voucher *voucher)
{
    if (audit_is_old(voucher))
        return true;
    if (!sk_assignment_has_voucher(audit->sale->session, voucher))
        return false;
    return audit->all || !audit_is_at_rest(voucher) || (audit->round + voucher->slot) % IDLE_ROUNDS == 0;
}

// ---- what is found ----

// Whether to act on a difference: several checks found it, and no rebuild has left it. One that failed does not count:
// nothing may have been done.
static bool audit_believes(struct sk_audited *audited, uint64_t now)
{
    bool held = audited->rebuilt_at_ms != 0 && now < audited->rebuilt_at_ms + DIFFERING_HOLD_MS;
    return ++audited->differing >= DIFFERING_MAX && !held;
}

static void audit_rebuild(struct sk_audit *audit, struct sk_voucher *voucher, enum sk_rebuild_why why)
{
    if (sk_rebuild(audit->rebuilds, voucher, why, NULL, NULL) != SK_OK)
        sk_log(SK_LOG_DEBUG, "not rebuilt now", "voucher=%" PRId64, voucher->id);
}

static void audit_on_carried_out(void *arg, bool ok)
{
    (void)arg;
    (void)ok; // the next check shows it
}

static void audit_log_finding(const struct audit_check *check, const struct sk_snapshot *seen, enum sk_books finding)
{
    const struct sk_account *account = &check->account;
    sk_log(SK_LOG_WARN, finding == SK_BOOKS_DIFFER ? "books differ" : "Redis cannot be relied on",
           "voucher=%" PRId64 " finding=%s epoch=%" PRId64 "/%" PRId64 " stock=%" PRId64 "/%" PRId64 " buyers=%" PRId64
           "/%" PRId64 " newest=%s/%s change=%" PRId64 "/%" PRId64,
           check->voucher->id, sk_books_name(finding), seen->epoch, account->epoch, seen->stock, account->stock,
           seen->buyers, account->buyers, seen->last, account->newest, seen->terms.change, account->terms.change);
}

// Its sale is long over, its unpaid orders have expired, and nothing of it is in progress.
static bool audit_may_retire(const struct sk_audit *audit, const struct sk_voucher *voucher)
{
    const struct sk_sale *sale = audit->sale;
    int64_t over_ms = voucher->end_ms + voucher->pay_within_s * 1000;
    return sk_wall_ms() >= (uint64_t)(over_ms + sale->options->retire_after_ms) &&
           voucher->maintenance->lost.orders.count == 0 && audit_is_at_rest(voucher) &&
           uv_now(sale->loop) >= voucher->maintenance->retire_at_ms;
}

static void audit_judge(struct audit_check *check, const struct sk_snapshot *before, const struct sk_snapshot *seen)
{
    static const enum sk_metric counters[] = {
        [SK_BOOKS_AGREE] = SK_METRIC_FINDING_AGREE,     [SK_BOOKS_MISSING] = SK_METRIC_FINDING_MISSING,
        [SK_BOOKS_LOADING] = SK_METRIC_FINDING_LOADING, [SK_BOOKS_UNSURE] = SK_METRIC_FINDING_UNSURE,
        [SK_BOOKS_BEHIND] = SK_METRIC_FINDING_BEHIND,   [SK_BOOKS_DIFFER] = SK_METRIC_FINDING_DIFFER,
        [SK_BOOKS_OLD] = SK_METRIC_FINDING_OLD,
    };
    struct sk_audit *audit = check->audit;
    struct sk_voucher *voucher = check->voucher;
    struct sk_audited *audited = &voucher->maintenance->audited;
    enum sk_books finding = sk_books_compare(&check->account, before, seen);
    audited->letters = check->account.letters;
    sk_metrics_add(audit->sale->metrics, counters[finding], 1);
    if (seen->terms.change > audited->change)
        audited->change = seen->terms.change;
    if (finding != SK_BOOKS_DIFFER)
        audited->differing = 0;
    if (finding == SK_BOOKS_BEHIND) // until it is rebuilt, no purchase may believe it either
        sk_grant_expect(voucher, check->account.epoch, check->account.newest);
    if (finding == SK_BOOKS_AGREE && sk_snapshot_is_at_rest(before, seen))
        audited->rebuilt_at_ms = 0; // a difference from now on is another one
    if (finding == SK_BOOKS_AGREE && !sk_line_upkeep(audit->sale, voucher, &check->account, seen))
        sk_sale_phase_note(audit->sale, voucher, &check->account, seen);
    if (finding == SK_BOOKS_DIFFER) {
        if (audit_believes(audited, uv_now(audit->sale->loop))) {
            audit_log_finding(check, seen, finding);
            audit_rebuild(audit, voucher, SK_REBUILD_ORDERED);
        }
    } else if (finding == SK_BOOKS_OLD) {
        if (sk_changes_carry_out(audit->sale, voucher, audit_on_carried_out, NULL) != SK_OK)
            sk_log(SK_LOG_DEBUG, "not brought up to date now", "voucher=%" PRId64, voucher->id);
    } else if (finding != SK_BOOKS_AGREE) {
        if (finding != SK_BOOKS_LOADING) {
            audit_log_finding(check, seen, finding);
            audit->hurry |= audit->round >= audit->all_round + IDLE_ROUNDS; // Redis may have lost more
        }
        audit_rebuild(audit, voucher, SK_REBUILD_DOUBT);
    } else if (seen->journal > 0) {
        if (sk_sweep_voucher(audit->sweeper, voucher) != SK_OK)
            sk_log(SK_LOG_DEBUG, "not swept now", "voucher=%" PRId64, voucher->id);
    } else if (audit_may_retire(audit, voucher)) {
        audit_rebuild(audit, voucher, SK_REBUILD_RETIRE);
    }
}

// ---- the end of a round ----

static void audit_note(struct sk_audit *audit, struct sk_voucher *voucher)
{
    struct audit_gauges *gauges = &audit->gauges;
    const struct sk_audited *audited = &voucher->maintenance->audited;
    const struct sk_snapshot *seen = &audited->snapshot;
    int64_t now_ms = (int64_t)sk_wall_ms();
    bool on_sale = voucher->state == SK_VOUCHER_OPEN && voucher->begin_ms <= now_ms && now_ms < voucher->end_ms;
    gauges->on_sale += on_sale;
    if (!sk_assignment_has_voucher(audit->sale->session, voucher) || audited->checked_at_ms == 0)
        return;
    if (audited->differing >= DIFFERING_MAX) {
        gauges->differ++;
        sk_remaining_note(&gauges->differing, voucher->id, 1);
    }
    gauges->letters += (uint64_t)audited->letters;
    if (seen->journal > 0) {
        uint64_t age_ms = (uint64_t)audited->journal_age_ms;
        uint64_t oldest_ms = age_ms < audited->checked_at_ms ? audited->checked_at_ms - age_ms : 1;
        gauges->entries += (uint64_t)seen->journal;
        if (gauges->oldest_ms == 0 || oldest_ms < gauges->oldest_ms)
            gauges->oldest_ms = oldest_ms;
    }
    if (on_sale && seen->present && !seen->loading && seen->same_run)
        sk_remaining_note(&gauges->remaining, voucher->id, seen->stock);
}

// The journals' lengths and ages are most wanted while PostgreSQL is away.
static void audit_publish(const struct sk_audit *audit)
{
    const struct audit_gauges *gauges = &audit->gauges;
    struct sk_metrics *metrics = audit->sale->metrics;
    if (!audit->unseen) {
        sk_metrics_set(metrics, SK_METRIC_JOURNAL_ENTRIES, gauges->entries);
        sk_metrics_set(metrics, SK_METRIC_JOURNAL_OLDEST, gauges->oldest_ms);
        sk_metrics_set(metrics, SK_METRIC_VOUCHERS_ON_SALE, gauges->on_sale);
        sk_remaining_publish(&metrics->remaining, &gauges->remaining);
    }
    if (!audit->missed) {
        sk_metrics_set(metrics, SK_METRIC_BOOKS_DIFFER, gauges->differ);
        sk_metrics_set(metrics, SK_METRIC_LETTERS_WAITING, gauges->letters);
        sk_metrics_set(metrics, SK_METRIC_ROUND_AT, sk_monotonic_ms());
        sk_remaining_publish(&metrics->differing, &gauges->differing);
    }
}

static void audit_on_letters_ended(void *arg, const struct sk_result *result)
{
    (void)arg;
    (void)result; // a later round does what was not done
}

static void audit_note_to_refund(struct audit_shard *shard, uint64_t count)
{
    const struct sk_audit *audit = shard->audit;
    uint64_t sum = 0;
    shard->to_refund = count;
    for (size_t i = 0; i < audit->sale->shard_count; i++)
        sum += audit->shards[i].to_refund;
    sk_metrics_set(audit->sale->metrics, SK_METRIC_TO_REFUND, sum);
}

static void audit_on_to_refund(void *arg, const struct sk_result *result)
{
    struct audit_shard *shard = arg;
    if (result->rows != NULL && sk_rows_count(result->rows) == 1)
        audit_note_to_refund(shard, (uint64_t)sk_rows_number(result->rows, 0, 0));
}

// In every fifth round, for each shard: one session ends letters whose orders are all known, and one counts payments,
// including retired vouchers'. Requeued letters end here, not where they were requeued, because that instance may be
// gone.
static void audit_tend_shards(struct sk_audit *audit)
{
    const struct sk_sale *sale = audit->sale;
    char most[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {sk_params_number(most, TO_REFUND_MOST)};
    if (audit->round % LETTERS_ROUNDS != 0)
        return;
    for (size_t i = 0; i < sale->shard_count; i++) {
        struct sk_pg *pg = sale->shards[i].queries;
        if (sk_assignment_has(sale->session, i, "letters") &&
            sk_pg_call(pg, SK_STATEMENT_END_SETTLED_LETTERS, 0, NULL, audit_on_letters_ended, NULL) != SK_OK)
            sk_log(SK_LOG_DEBUG, "settled dead letters not ended now", "");
        if (!sk_assignment_has(sale->session, i, "payments"))
            audit_note_to_refund(&audit->shards[i], 0);
        else if (sk_pg_call(pg, SK_STATEMENT_COUNT_TO_REFUND, 1, params, audit_on_to_refund, &audit->shards[i]) !=
                 SK_OK)
            sk_log(SK_LOG_DEBUG, "payments to refund not counted now", "");
    }
}

static void audit_end_round(struct sk_audit *audit)
{
    audit_tend_shards(audit);
    sk_busy_publish(&audit->busy);
    audit_publish(audit);
    audit_move(audit, AUDIT_IDLE);
    uint32_t pause_ms = ROUND_MS / 2 + sk_backoff_next(&audit->jitter);
    if (audit->soon)
        pause_ms = SOON_MS;
    sk_timer_once(audit->timer, audit->hurry ? 0 : pause_ms);
}

// ---- a page ----

static void audit_note_failed(struct audit_shard *shard)
{
    shard->failed = true;
    shard->audit->missed = true;
}

static void audit_ask_shard(struct sk_audit *audit, size_t shard)
{
    struct sk_account_query query;
    enum sk_status status = SK_NO_MEM;
    size_t count = 0;
    if (audit->shards[shard].failed)
        return;
    sk_account_query_begin(&query);
    for (size_t i = 0; i < audit->count; i++) {
        if (audit->page[i].voucher->shard != shard)
            continue;
        sk_account_query_add(&query, audit->page[i].voucher);
        count++;
    }
    if (count > 0 && sk_account_query_end(&query))
        status = sk_pg_call(audit->sale->shards[shard].queries, SK_STATEMENT_VOUCHER_ACCOUNTS, 2, query.params,
                            audit_on_accounts, &audit->shards[shard]);
    sk_account_query_free(&query);
    audit->asking += status == SK_OK;
    if (count > 0 && status != SK_OK)
        audit_note_failed(&audit->shards[shard]);
}

// Asks each shard about its vouchers of the page.
static void audit_ask_accounts(struct sk_audit *audit)
{
    audit_move(audit, AUDIT_ACCOUNTS);
    audit->asked_at_ms = uv_now(audit->sale->loop);
    audit->asking = 0;
    for (size_t i = 0; i < audit->sale->shard_count; i++)
        audit_ask_shard(audit, i);
    if (audit->asking == 0)
        audit_ask_redis(audit);
}

static void audit_next_page(struct sk_audit *audit)
{
    const struct sk_sale *sale = audit->sale;
    const struct sk_catalogue *catalogue = sale->catalogue;
    audit_move(audit, AUDIT_PAGE);
    for (size_t i = 0; i < sale->shard_count; i++)
        audit->missed |= !sk_pg_ready(sale->shards[i].queries);
    audit->count = audit->answered = 0;
    for (; audit->at < sk_catalogue_count(catalogue); audit->at++) {
        struct sk_voucher *voucher = sk_catalogue_at(catalogue, audit->at);
        if (audit->count == PAGE)
            break;
        audit_note(audit, voucher);
        if (!sk_redis_ready(sk_sale_redis(sale, voucher))) {
            audit->missed = audit->unseen = true;
            continue;
        }
        if (!audit_is_due(audit, voucher))
            continue;
        audit->page[audit->count++] = (struct audit_check){.audit = audit, .voucher = voucher};
        sk_voucher_pin(voucher);
    }
    if (audit->count == 0)
        audit_end_round(audit);
    else
        audit_ask_accounts(audit);
}

static void audit_take_accounts(struct sk_audit *audit, const struct sk_result *result)
{
    for (size_t row = 0; row < sk_rows_count(result->rows); row++) {
        struct sk_account account;
        sk_account_read(result->rows, row, &account);
        for (size_t i = 0; i < audit->count; i++) {
            struct audit_check *check = &audit->page[i];
            struct sk_audited *audited = &check->voucher->maintenance->audited;
            if (check->voucher->id != account.voucher_id || check->voucher->slot != account.slot)
                continue;
            check->account = account;
            check->known = true;
            audited->waiting = account.waiting;
            audited->empty_at_ms = account.buyers == 0 && account.waiting == 0 ? audit->asked_at_ms : 0;
            break;
        }
    }
}

static void audit_on_accounts(void *arg, const struct sk_result *result)
{
    struct audit_shard *shard = arg;
    struct sk_audit *audit = shard->audit;
    if (result->rows == NULL)
        audit_note_failed(shard);
    else
        audit_take_accounts(audit, result);
    SK_ASSERT(audit->asking > 0);
    if (--audit->asking == 0)
        audit_ask_redis(audit);
}

// Uses the link of the order path, all in one write.
static void audit_ask_redis(struct sk_audit *audit)
{
    audit_move(audit, AUDIT_SNAPSHOTS);
    for (size_t i = 0; i < audit->count; i++) {
        struct audit_check *check = &audit->page[i];
        if (sk_snapshot_ask(sk_sale_redis(audit->sale, check->voucher), &check->voucher->keys, NULL, audit_on_snapshot,
                            check) == SK_OK)
            continue;
        audit->missed = audit->unseen = true;
        audit->answered++;
    }
    if (audit->answered == audit->count)
        audit_end_page(audit);
}

static void audit_on_snapshot(void *arg, const struct sk_reply *reply)
{
    struct audit_check *check = arg;
    struct sk_audit *audit = check->audit;
    struct sk_audited *audited = &check->voucher->maintenance->audited;
    struct sk_snapshot seen;
    if (reply != NULL && sk_snapshot_read(reply, &seen)) {
        const struct sk_snapshot before = audited->snapshot;
        audited->snapshot = seen;
        audited->checked_at_ms = uv_now(audit->sale->loop);
        audited->journal_age_ms = sk_snapshot_age_ms(reply);
        if (seen.journal > 0)
            sk_busy_note(&audit->busy, check->voucher);
        if (check->known)
            audit_judge(check, &before, &seen);
        else
            audit->missed = true;
    } else {
        audit->missed = audit->unseen = true;
    }
    if (++audit->answered == audit->count)
        audit_end_page(audit);
}

static void audit_end_page(struct sk_audit *audit)
{
    for (size_t i = 0; i < audit->count; i++)
        sk_voucher_unpin(audit->page[i].voucher);
    if (audit->at < sk_catalogue_count(audit->sale->catalogue))
        audit_next_page(audit);
    else
        audit_end_round(audit);
}

// ---- rounds ----

void sk_audit_hurry(struct sk_audit *audit)
{
    audit->hurry = true;
    if (audit->state == AUDIT_IDLE)
        sk_timer_once(audit->timer, 0);
}

void sk_audit_soon(struct sk_audit *audit)
{
    if (audit->soon || audit->hurry)
        return;
    audit->soon = true;
    if (audit->state == AUDIT_IDLE)
        sk_timer_once(audit->timer, SOON_MS);
}

static void audit_on_time(void *arg)
{
    struct sk_audit *audit = arg;
    audit->soon = false;
    audit->all = audit->hurry;
    audit->hurry = false;
    audit->round++;
    audit->all_round = audit->all ? audit->round : audit->all_round;
    audit->at = 0;
    audit->gauges = (struct audit_gauges){0};
    audit->missed = audit->unseen = false;
    for (size_t i = 0; i < audit->sale->shard_count; i++)
        audit->shards[i].failed = false;
    audit_next_page(audit);
}

struct sk_audit *sk_audit_open(const struct sk_sale *sale, struct sk_rebuilds *rebuilds, struct sk_sweeper *sweeper)
{
    struct sk_audit *audit = calloc(1, sizeof *audit);
    if (audit == NULL)
        return NULL;
    audit->sale = sale;
    audit->rebuilds = rebuilds;
    audit->sweeper = sweeper;
    audit->jitter = (struct sk_backoff){.first_ms = ROUND_MS, .most_ms = ROUND_MS};
    audit->busy.sale = sale;
    for (size_t i = 0; i < SK_SHARDS_MAX; i++)
        audit->shards[i].audit = audit;
    audit->timer = sk_timer_open(sale->loop, 0, audit_on_time, audit);
    if (audit->timer == NULL) {
        free(audit);
        return NULL;
    }
    sk_timer_once(audit->timer, ROUND_MS / 2);
    return audit;
}

void sk_audit_close(struct sk_audit *audit)
{
    if (audit == NULL)
        return;
    sk_timer_close(audit->timer);
    free(audit);
}

size_t sk_audit_busy(const struct sk_audit *audit, struct sk_voucher **out, size_t most, bool *complete)
{
    return sk_busy_list(&audit->busy, out, most, complete);
}
