// A call has the orders of one entry:
//
//   GATHERING -> NOTING -> READY -> WRITING -> (ended)
//                            ^         | no answer, or a failure
//                            |         v
//                            +------ WAITING
//
// One statement of a shard is in progress at a time. Calls that become ready meanwhile share the next one, also those
// of different vouchers: thousands of vouchers may have an order that expires at the same moment, and a commit costs
// the same for all.
//
// Until the entry is noted nothing has happened. From then on the call is retried until PostgreSQL has answered (P7),
// even if no request waits for it any more.
#include "returns.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "failpoint.h"
#include "journal.h"
#include "list.h"
#include "log.h"
#include "order_calls.h"
#include "params.h"
#include "slot_map.h"
#include "timer.h"
#include "trust.h"

enum {
    TICK_MS = 20,
    RETRY_MS = 200,
    TOGETHER_MAX = 64, // calls in a statement, with SK_RETURNS_MAX orders at most: bounds how long rows are locked
};

enum {
    COLUMN_N,
    COLUMN_OUTCOME,
    COLUMN_USER,
    COLUMN_UNITS,
    COLUMN_NTH,
    COLUMN_HEIRS,
    COLUMN_CAME_BY,
    COLUMN_BATCH
}; // of return_batches.sql; return_orders.sql has no COLUMN_BATCH

enum returns_state {
    RETURNS_GATHERING,
    RETURNS_NOTING,
    RETURNS_READY,
    RETURNS_WRITING,
    RETURNS_WAITING,
    RETURNS_STATES
};

static const char returns_promoted[] = "promoted"; // the move of units that were taken for users who wait

struct returns_item {
    char id[SK_UUID_SIZE];
    sk_return_cb *done; // NULL: no one waits, or it has been called
    void *arg;
};

struct returns_call {
    struct sk_list list; // must be first
    struct sk_returns *returns;
    struct sk_voucher *voucher; // pinned
    enum returns_state state;
    struct sk_entry *entry; // owned from NOTING on; ending it frees it
    uint64_t not_before_ms; // WAITING
    bool recovered;         // its session is gone
    bool alone;             // a statement with others failed, perhaps because of it
    sk_returns_cb *done;    // for all orders; NULL: none, or it has been called
    void *arg;
    size_t count;
    char move[SK_JOURNAL_BY_MAX + 1], by[SK_JOURNAL_BY_MAX + 1], why[SK_JOURNAL_WHY_MAX + 1];
    struct returns_item items[SK_RETURNS_MAX];
};

struct sk_returns {
    const struct sk_sale *sale;
    const struct sk_shard *shard;
    void (*recovered)(void *arg, struct sk_voucher *voucher);
    void *arg;
    struct sk_list calls;                       // oldest first
    struct returns_call *writing[TOGETHER_MAX]; // in the statement in progress
    size_t writing_count;
    struct sk_timer *timer; // owned
};

static void returns_write(struct sk_returns *returns);

static void returns_move(struct returns_call *call, enum returns_state state)
{
#define TO(name) (1U << RETURNS_##name)
    static const unsigned allowed[RETURNS_STATES] = {
        [RETURNS_GATHERING] = TO(NOTING) | TO(READY), // READY: a recovered entry
        [RETURNS_NOTING] = TO(READY),
        [RETURNS_READY] = TO(WRITING),
        [RETURNS_WRITING] = TO(WAITING),
        [RETURNS_WAITING] = TO(READY),
    };
#undef TO
    SK_ASSERT((allowed[call->state] & 1U << state) != 0);
    call->state = state;
}

// ---- calls ----

static struct returns_call *returns_add_call(struct sk_returns *returns, struct sk_voucher *voucher, const char *move,
                                             const char *by, const char *why)
{
    struct returns_call *call = calloc(1, sizeof *call);
    if (call == NULL)
        return NULL;
    call->returns = returns;
    call->voucher = voucher;
    sk_voucher_pin(voucher);
    (void)snprintf(call->move, sizeof call->move, "%s", move);
    (void)snprintf(call->by, sizeof call->by, "%s", by);
    (void)snprintf(call->why, sizeof call->why, "%s", why);
    sk_list_add_last(&call->list, &returns->calls);
    sk_timer_once(returns->timer, TICK_MS);
    return call;
}

static void returns_remove_call(struct returns_call *call)
{
    sk_list_remove(&call->list);
    sk_voucher_unpin(call->voucher);
    free(call);
}

static void returns_report(struct returns_call *call, size_t i, enum sk_return_end end)
{
    sk_return_cb *done = call->items[i].done;
    call->items[i].done = NULL;
    if (done != NULL)
        done(call->items[i].arg, end);
}

static void returns_report_all(struct returns_call *call, enum sk_return_end end, size_t ended)
{
    sk_returns_cb *done = call->done;
    for (size_t i = 0; i < call->count; i++)
        returns_report(call, i, end);
    call->done = NULL;
    if (done != NULL)
        done(call->arg, end, ended);
}

// Ends a call whose entry has ended, or is left to others.
static void returns_end(struct returns_call *call, enum sk_return_end end)
{
    struct sk_returns *returns = call->returns;
    struct sk_voucher *voucher = call->voucher;
    bool recovered = call->recovered;
    returns_report_all(call, end, 0);
    sk_entry_forget(call->entry);
    sk_voucher_pin(voucher);
    returns_remove_call(call);
    if (recovered)
        returns->recovered(returns->arg, voucher);
    sk_voucher_unpin(voucher);
}

static void returns_make_ready(struct returns_call *call)
{
    returns_move(call, RETURNS_READY);
    returns_write(call->returns);
}

// ---- noting ----

static bool returns_read_doubt(const struct sk_reply *reply, enum sk_doubt *doubt)
{
    const char *error = sk_reply_error(reply), *word = sk_reply_text(sk_reply_at(reply, 0), NULL);
    if (error != NULL && sk_trust_is_damage(error))
        *doubt = SK_DOUBT_DAMAGED;
    else if (word != NULL && strcmp(word, "unsure") == 0)
        *doubt = SK_DOUBT_BEHIND;
    else if (word != NULL && strcmp(word, "ok") != 0)
        *doubt = SK_DOUBT_CLOSED;
    else
        return false;
    return true;
}

static void returns_on_noted(void *arg, const struct sk_reply *reply)
{
    struct returns_call *call = arg;
    const struct sk_sale *sale = call->returns->sale;
    enum sk_doubt doubt;
    SK_FAILPOINT("return.noted");
    const char *word = sk_reply_text(sk_reply_at(reply, 0), NULL);
    if (word != NULL && strcmp(word, "none") == 0) { // no unit to promote anybody with
        returns_end(call, SK_RETURN_DONE);
        return;
    }
    if (reply != NULL && returns_read_doubt(reply, &doubt)) {
        sale->suspect(sale->recovery, call->voucher, doubt);
        returns_end(call, SK_RETURN_LOADING);
        return;
    }
    const char *journal_id = sk_reply_text(sk_reply_at(reply, 2), NULL);
    int64_t epoch, taken = 0;
    if (strcmp(call->move, returns_promoted) == 0 &&
        sk_trust_number(sk_reply_at(reply, 3), (int64_t)call->count, &taken) && taken > 0)
        call->count = (size_t)taken; // there were no more units
    if (journal_id != NULL && sk_trust_is_journal_id(journal_id) &&
        sk_trust_number(sk_reply_at(reply, 1), SK_TRUST_MAX, &epoch)) {
        sk_entry_name(call->entry, epoch, journal_id);
        returns_make_ready(call);
        return;
    }
    // The script may run later, or has run, and the entry is not held here. But if its slot is elsewhere, it has not.
    if (reply == NULL || sk_redirect_of(sk_reply_error(reply)) == SK_REDIRECT_NONE)
        sale->orphaned(sale->recovery, call->voucher);
    returns_end(call, SK_RETURN_UNAVAILABLE);
}

// Uses the link of purchases, so that entries of this reactor are held in the order of their ids.
static void returns_note(struct returns_call *call)
{
    const struct sk_sale *sale = call->returns->sale;
    const struct sk_voucher_keys *keys = &call->voucher->keys;
    struct sk_redis *redis = sk_sale_redis(sale, call->voucher);
    struct sk_buf ids = {0};
    enum sk_status status = SK_NO_MEM;
    for (size_t i = 0; i < call->count; i++)
        sk_buf_printf(&ids, "%s%s", i == 0 ? "" : ",", call->items[i].id);
    const char *argv[] = {
        keys->voucher, keys->journal, keys->buyers, sk_redis_run(redis), sk_session_id(sale->session), ids.data,
        call->move,    call->by,      call->why};
    returns_move(call, RETURNS_NOTING);
    call->entry = sk_entry_new(sale, call->voucher, SK_ENTRY_OWN, sk_redis_run_number(redis));
    if (!ids.failed && call->entry != NULL && sk_session_sells(sale->session, call->voucher->slot))
        status = sk_redis_script(redis, SK_SCRIPT_NOTE_RETURN, 3, 9, argv, NULL, returns_on_noted, call);
    sk_buf_free(&ids);
    if (status != SK_OK)
        returns_end(call, SK_RETURN_UNAVAILABLE);
}

// ---- writing ----

// Finds where the rows of each call begin. False: the rows do not match the calls.
static bool returns_find_rows(struct returns_call *const *calls, size_t count, const struct sk_rows *rows,
                              size_t firsts[TOGETHER_MAX])
{
    size_t row = 0, most = sk_rows_count(rows);
    for (size_t i = 0; i < count; i++) {
        firsts[i] = row;
        bool is_stale = row < most && sk_rows_text(rows, row, COLUMN_N) == NULL;
        size_t end = row + (is_stale ? 1 : calls[i]->count);
        if (end > most)
            return false;
        for (; row < end; row++) {
            if (count > 1 && sk_rows_number(rows, row, COLUMN_BATCH) != (int64_t)i + 1)
                return false;
        }
    }
    return row == most;
}

static enum sk_return_end returns_end_of(const char *outcome)
{
    if (outcome != NULL && strcmp(outcome, "returned") == 0)
        return SK_RETURN_DONE;
    return outcome != NULL && strcmp(outcome, "kept") == 0 ? SK_RETURN_NOT_ALLOWED : SK_RETURN_UNKNOWN_ORDER;
}

// In "user order,user order ..."
static size_t returns_count_heirs(const char *heirs)
{
    size_t count = heirs != NULL;
    for (const char *at = heirs; at != NULL && (at = strchr(at, ',')) != NULL; at++)
        count++;
    return count;
}

// Settles the call by its rows, from the first on.
static void returns_settle(struct returns_call *call, const struct sk_rows *rows, size_t first)
{
    const struct sk_sale *sale = call->returns->sale;
    size_t ended = 0, promoted = 0;
    if (sk_rows_text(rows, first, COLUMN_N) == NULL) {
        // Stale: a rebuild settles the entry, or already has. An entry that no rebuild has met was forged; the next one
        // ends it.
        if (call->recovered)
            sale->suspect(sale->recovery, call->voucher, SK_DOUBT_BEHIND);
        returns_end(call, SK_RETURN_LOADING);
        return;
    }
    call->entry->ends = true;
    for (size_t row = first; row < first + call->count; row++) {
        size_t i = (size_t)sk_rows_number(rows, row, COLUMN_N) - 1;
        SK_ASSERT(i < call->count);
        enum sk_return_end end = returns_end_of(sk_rows_text(rows, row, COLUMN_OUTCOME));
        ended += end == SK_RETURN_DONE;
        const char *heirs = sk_rows_text(rows, row, COLUMN_HEIRS);
        if (end == SK_RETURN_DONE && sk_rows_text(rows, row, COLUMN_UNITS) != NULL) // else another entry corrects Redis
            sk_entry_note_ended(call->entry, call->items[i].id, sk_rows_text(rows, row, COLUMN_USER),
                                (unsigned)sk_rows_number(rows, row, COLUMN_UNITS),
                                (unsigned)sk_rows_number(rows, row, COLUMN_NTH), heirs,
                                sk_rows_text(rows, row, COLUMN_CAME_BY));
        promoted += returns_count_heirs(heirs);
        returns_report(call, i, end);
    }
    if (strcmp(call->move, returns_promoted) == 0)
        ended = promoted;
    else
        sk_metrics_add(sale->metrics, SK_METRIC_ORDERS_RETURNED, ended);
    sk_metrics_add(sale->metrics, SK_METRIC_ORDERS_PROMOTED, promoted);
    returns_report_all(call, SK_RETURN_DONE, ended);
    SK_FAILPOINT("return.settling");
    sk_entry_end(call->entry);
    call->entry = NULL;
    returns_end(call, SK_RETURN_DONE);
}

// A call that failed with others is retried alone. It is not answered yet, since it need not be the cause.
static void returns_put_off(struct returns_call *call, enum sk_result_kind kind, bool with_others)
{
    bool has_reason = with_others && (kind == SK_RESULT_REFUSED || kind == SK_RESULT_LOCKED);
    if (kind == SK_RESULT_REFUSED && !with_others)
        sk_log(SK_LOG_ERROR, "PostgreSQL refuses a return", "voucher=%" PRId64 " journal_id=%s", call->voucher->id,
               call->entry->journal_id);
    returns_move(call, RETURNS_WAITING);
    call->alone = call->alone || has_reason;
    call->not_before_ms = uv_now(call->returns->sale->loop) + (has_reason ? 0 : RETRY_MS);
    if (kind != SK_RESULT_LOCKED && !has_reason)
        returns_report_all(call, SK_RETURN_UNAVAILABLE, 0);
}

static void returns_on_written(void *arg, const struct sk_result *result)
{
    struct sk_returns *returns = arg;
    struct returns_call *calls[TOGETHER_MAX];
    size_t firsts[TOGETHER_MAX], count = returns->writing_count;
    SK_FAILPOINT("return.committed");
    for (size_t i = 0; i < count; i++)
        calls[i] = returns->writing[i];
    returns->writing_count = 0; // a callback may start the next statement
    bool found = result->rows != NULL && returns_find_rows(calls, count, result->rows, firsts);
    for (size_t i = 0; i < count; i++) {
        if (found)
            returns_settle(calls[i], result->rows, firsts[i]);
        else
            returns_put_off(calls[i], result->kind, count > 1);
    }
    returns_write(returns);
}

// Whether the call has this move, by the same caller and for the same reason.
static bool returns_are_alike(const struct returns_call *call, const char *move, const char *by, const char *why)
{
    return strcmp(call->move, move) == 0 && strcmp(call->by, by) == 0 && strcmp(call->why, why) == 0;
}

// Fills `writing` with the first call that is ready, and those that may go with it. Returns the number of their orders.
static size_t returns_gather_ready(struct sk_returns *returns)
{
    const struct returns_call *first = NULL;
    size_t orders = 0;
    for (struct returns_call *call = sk_list_first(&returns->calls); call != NULL;
         call = sk_list_next(&returns->calls, &call->list)) {
        if (call->state != RETURNS_READY || returns->writing_count == TOGETHER_MAX)
            continue;
        if (first != NULL && (first->alone || call->alone || orders + call->count > SK_RETURNS_MAX ||
                              !returns_are_alike(call, first->move, first->by, first->why)))
            continue;
        first = first == NULL ? call : first;
        returns->writing[returns->writing_count++] = call;
        orders += call->count;
        returns_move(call, RETURNS_WRITING);
    }
    return orders;
}

static enum sk_status returns_ask(struct sk_returns *returns)
{
    const struct returns_call *first = returns->writing[0];
    struct sk_call_part parts[TOGETHER_MAX];
    struct sk_buf ids = {0};
    sk_params_begin(&ids);
    for (size_t i = 0; i < returns->writing_count; i++) {
        const struct returns_call *call = returns->writing[i];
        parts[i] = (struct sk_call_part){call->voucher, call->entry->epoch, call->count, 0, call->entry->journal_id};
        for (size_t at = 0; at < call->count; at++)
            sk_params_add(&ids, call->items[at].id);
    }
    const struct sk_return_by move = {first->move, first->by, first->why};
    enum sk_status status = sk_return_call_send(&ids, &move, returns->shard->queries, returns->writing_count, parts,
                                                returns_on_written, returns);
    sk_buf_free(&ids);
    return status;
}

// Writes what is ready, unless a statement is in progress.
static void returns_write(struct sk_returns *returns)
{
    while (returns->writing_count == 0 && returns_gather_ready(returns) > 0) {
        if (returns_ask(returns) != SK_OK)
            returns_on_written(returns, &(struct sk_result){.kind = SK_RESULT_FAILED});
    }
}

// ---- starting ----

static const char *returns_move_name(enum sk_return_move move)
{
    static const char *const names[] = {"cancelled", "expired", "refunded", "refunded-kept"};
    return names[move];
}

// A call that gathers for the same move, by the same caller; a new one if there is none. NULL: out of memory.
static struct returns_call *returns_gathering(struct sk_returns *returns, struct sk_voucher *voucher, const char *move,
                                              const char *by, const char *why)
{
    struct returns_call *call = sk_list_first(&returns->calls);
    while (call != NULL && (call->state != RETURNS_GATHERING || call->voucher != voucher || call->done != NULL ||
                            call->count == SK_RETURNS_MAX || !returns_are_alike(call, move, by, why)))
        call = sk_list_next(&returns->calls, &call->list);
    return call != NULL ? call : returns_add_call(returns, voucher, move, by, why);
}

enum sk_status sk_return_order(struct sk_returns *returns, struct sk_voucher *voucher, const char *order_id,
                               enum sk_return_move move, const char *by, const char *why, sk_return_cb *done, void *arg)
{
    if (!sk_session_sells(returns->sale->session, voucher->slot))
        return SK_DOWN;
    struct returns_call *call =
        returns_gathering(returns, voucher, returns_move_name(move), by, why == NULL ? "" : why);
    if (call == NULL)
        return SK_NO_MEM;
    struct returns_item *item = &call->items[call->count++];
    memcpy(item->id, order_id, SK_UUID_SIZE);
    item->done = done;
    item->arg = arg;
    return SK_OK;
}

static void returns_add_item(void *arg, const struct sk_journal_order *order)
{
    struct returns_call *call = arg;
    memcpy(call->items[call->count++].id, order->id, SK_UUID_SIZE);
}

enum sk_status sk_return_orders(struct sk_returns *returns, struct sk_voucher *voucher, const char *ids,
                                enum sk_return_move move, const char *by, sk_returns_cb *done, void *arg)
{
    int count = sk_journal_parse_returns(ids, strlen(ids), NULL, NULL);
    SK_ASSERT(count > 0 && count <= SK_RETURNS_MAX);
    if (!sk_session_sells(returns->sale->session, voucher->slot))
        return SK_DOWN;
    struct returns_call *call = returns_add_call(returns, voucher, returns_move_name(move), by, "");
    if (call == NULL)
        return SK_NO_MEM;
    (void)sk_journal_parse_returns(ids, strlen(ids), returns_add_item, call);
    call->done = done;
    call->arg = arg;
    return SK_OK;
}

enum sk_status sk_promote(struct sk_returns *returns, struct sk_voucher *voucher, size_t most, sk_returns_cb *done,
                          void *arg)
{
    struct sk_uuid_gen ids = {0};
    SK_ASSERT(most > 0 && most <= SK_RETURNS_MAX);
    if (!sk_session_sells(returns->sale->session, voucher->slot))
        return SK_DOWN;
    struct returns_call *call = returns_add_call(returns, voucher, returns_promoted, "service", "");
    if (call == NULL)
        return SK_NO_MEM;
    while (call->count < most)
        sk_uuid_next(&ids, call->items[call->count++].id);
    call->done = done;
    call->arg = arg;
    return SK_OK;
}

bool sk_returns_recover(struct sk_returns *returns, struct sk_voucher *voucher, uint64_t run_number,
                        const struct sk_journal_entry *found)
{
    SK_ASSERT(found->count > 0 && found->count <= SK_RETURNS_MAX);
    struct returns_call *call = returns_add_call(returns, voucher, found->move, found->by, found->why);
    if (call == NULL)
        return false;
    call->entry = sk_entry_new(returns->sale, voucher, SK_ENTRY_RECOVERED, run_number);
    if (call->entry == NULL) {
        returns_remove_call(call);
        return false;
    }
    sk_entry_name(call->entry, found->epoch, found->id);
    call->recovered = true;
    (void)sk_journal_parse_returns(found->orders, found->orders_len, returns_add_item, call);
    returns_make_ready(call);
    return true;
}

static bool returns_is_busy(const struct sk_returns *returns, const struct sk_voucher *voucher)
{
    const struct returns_call *call = sk_list_first(&returns->calls);
    while (call != NULL && (call->voucher != voucher || call->state == RETURNS_GATHERING || call->recovered))
        call = sk_list_next(&returns->calls, &call->list);
    return call != NULL;
}

static void returns_on_tick(void *arg)
{
    struct sk_returns *returns = arg;
    uint64_t now = uv_now(returns->sale->loop);
    for (struct returns_call *call = sk_list_first(&returns->calls), *next; call != NULL; call = next) {
        next = sk_list_next(&returns->calls, &call->list);
        if (call->state == RETURNS_WAITING && now >= call->not_before_ms)
            returns_move(call, RETURNS_READY);
        else if (call->state == RETURNS_GATHERING && !returns_is_busy(returns, call->voucher))
            returns_note(call);
    }
    returns_write(returns);
    if (!sk_list_is_empty(&returns->calls))
        sk_timer_once(returns->timer, TICK_MS);
}

struct sk_returns *sk_returns_open(const struct sk_sale *sale, const struct sk_shard *shard,
                                   void (*recovered)(void *arg, struct sk_voucher *voucher), void *arg)
{
    struct sk_returns *returns = calloc(1, sizeof *returns);
    if (returns == NULL)
        return NULL;
    *returns = (struct sk_returns){.sale = sale, .shard = shard, .recovered = recovered, .arg = arg};
    sk_list_begin(&returns->calls);
    returns->timer = sk_timer_open(sale->loop, 0, returns_on_tick, returns);
    if (returns->timer != NULL)
        return returns;
    free(returns);
    return NULL;
}

// ---- the end ----

size_t sk_returns_count(const struct sk_returns *returns)
{
    size_t count = 0;
    for (const struct returns_call *call = sk_list_first(&returns->calls); call != NULL;
         call = sk_list_next(&returns->calls, &call->list))
        count += call->count;
    return count;
}

void sk_returns_close(struct sk_returns *returns)
{
    if (returns == NULL)
        return;
    for (struct returns_call *call; (call = sk_list_first(&returns->calls)) != NULL;) {
        returns_report_all(call, SK_RETURN_UNAVAILABLE, 0);
        sk_entry_forget(call->entry);
        returns_remove_call(call);
    }
    sk_timer_close(returns->timer);
    free(returns);
}
