// Two statements of each shard, one at a time, on its link for queries:
//
// - orders_moved: the orders of all users that have moved since the last time. An order that is a row in PostgreSQL
//   rests until it is named there.
// - orders_changed: which of up to 1,000 orders have another status than the known one, with their documents. It is
//   sent at once for orders that are due: they began to wait, have moved, or their time is up. Pending orders are no
//   rows yet and do not move, so they are asked about in turns, up to 1,000 every 200 ms.
//
// The snapshot of orders_moved is older than that of orders_changed, so one of them sees each change. An order rests
// only after it was asked about, and the next orders_moved reports later changes. After a lost answer, or too many
// moves, all are due again. Correctness does not depend on it: when the time is up, the stores answer.
//
// What others hold is the first of an array with one struct for each shard. The functions below the interface work on
// one of them.
#include "waiting.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hash.h"
#include "list.h"
#include "order_id.h"
#include "order_lookup.h"
#include "params.h"
#include "timer.h"
#include "verdict.h"

enum { TICK_MS = 200, ASK_MAX = 1000, MOVED_MAX = 5000, BUCKETS = 4096, SNAPSHOT_SIZE = 4096, STATUS_SIZE = 16 };
enum { COLUMN_SEEN = 0, COLUMN_MOVED = 1, COLUMN_N = 0, COLUMN_DOCUMENT = 1 };

enum waiter_state {
    WAITER_DUE,   // is asked about at once
    WAITER_TURNS, // pending: is asked about in turn
    WAITER_RESTS, // rests until it has moved
    WAITER_LISTS, // the states above have a list each
    WAITER_ASKED = WAITER_LISTS
};

struct waiter {
    struct sk_list list;                          // first member; in the list of its state
    struct waiter *same_order, *same_order_after; // in its bucket by order id
    struct waiter *same_handle;                   // in its bucket by handle
    enum waiter_state state;
    size_t at; // ASKED: its index in the statement
    uint64_t handle;
    bool over; // its time is up
    char order_id[SK_UUID_SIZE];
    char user[SK_USER_SIZE];
    char status[STATUS_SIZE];
};

struct waiting_shard {
    struct sk_control *control; // borrowed, as the next one
    const struct sk_shard *of;
    struct sk_timer *timer;
    size_t count;
    struct sk_list lists[WAITER_LISTS];
    struct waiter *by_order[BUCKETS], *by_handle[BUCKETS];
    char seen[SNAPSHOT_SIZE]; // snapshot of the last orders_moved; empty: none that can be used
    bool busy;                // a statement is in progress
    bool closing;
    size_t turns_left; // pending orders that this tick may still ask about
    size_t asked_count;
    struct waiter *asked[ASK_MAX]; // NULL: left meanwhile
    struct sk_buf arrays[4];
};

struct sk_waiting {
    size_t shard_count;
    struct waiting_shard shards[];
};

// ---- the lists ----

// Takes the waiter out of the list of its state.
static void waiter_leave_list(struct waiting_shard *shard, struct waiter *waiter)
{
    if (waiter->state == WAITER_ASKED)
        shard->asked[waiter->at] = NULL;
    else
        sk_list_remove(&waiter->list);
}

static void waiter_join_list(struct waiting_shard *shard, struct waiter *waiter, enum waiter_state state)
{
    waiter->state = state;
    if (state == WAITER_ASKED) {
        waiter->at = shard->asked_count;
        shard->asked[shard->asked_count++] = waiter;
    } else {
        sk_list_add_last(&waiter->list, &shard->lists[state]);
    }
}

static void waiter_move(struct waiting_shard *shard, struct waiter *waiter, enum waiter_state state)
{
    waiter_leave_list(shard, waiter);
    waiter_join_list(shard, waiter, state);
}

static size_t waiter_bucket_of_order(const char *order_id)
{
    return sk_hash(order_id, SK_UUID_CHARS) % BUCKETS;
}

static size_t waiter_bucket_of_handle(uint64_t handle)
{
    return (handle ^ handle >> 32) % BUCKETS;
}

static void waiter_free(struct waiting_shard *shard, struct waiter *waiter)
{
    struct waiter **by_order = &shard->by_order[waiter_bucket_of_order(waiter->order_id)];
    struct waiter **by_handle = &shard->by_handle[waiter_bucket_of_handle(waiter->handle)];
    *(waiter->same_order == NULL ? by_order : &waiter->same_order->same_order_after) = waiter->same_order_after;
    if (waiter->same_order_after != NULL)
        waiter->same_order_after->same_order = waiter->same_order;
    while (*by_handle != waiter)
        by_handle = &(*by_handle)->same_handle;
    *by_handle = waiter->same_handle;
    waiter_leave_list(shard, waiter);
    SK_ASSERT(shard->count > 0);
    shard->count--;
    free(waiter);
}

// ---- a round ----

// Moves all waiters of the order.
static void waiting_has_moved(struct waiting_shard *shard, const char *order_id)
{
    struct waiter *waiter = shard->by_order[waiter_bucket_of_order(order_id)];
    for (; waiter != NULL; waiter = waiter->same_order_after) {
        if (strcmp(waiter->order_id, order_id) == 0)
            waiter_move(shard, waiter, WAITER_DUE);
    }
}

static void waiting_end_round(struct waiting_shard *shard)
{
    shard->busy = false;
    if (shard->count > 0 && !shard->closing)
        sk_timer_once(shard->timer, TICK_MS);
}

static void waiting_gather(struct waiting_shard *shard, enum waiter_state state, size_t most)
{
    struct waiter *waiter;
    for (; most > 0 && shard->asked_count < ASK_MAX && (waiter = sk_list_first(&shard->lists[state])) != NULL; most--) {
        char slot[SK_PARAM_NUMBER_SIZE];
        sk_params_add(&shard->arrays[0], sk_params_number(slot, sk_order_id_slot(waiter->order_id)));
        sk_params_add(&shard->arrays[1], waiter->order_id);
        sk_params_add_text(&shard->arrays[2], waiter->user);
        sk_params_add_text(&shard->arrays[3], waiter->over ? "" : waiter->status); // no status is ""
        waiter_move(shard, waiter, WAITER_ASKED);
    }
}

static void waiting_answer(struct waiting_shard *shard, struct waiter *waiter, enum sk_verdict verdict,
                           const char *document)
{
    struct sk_control *control = shard->control;
    struct sk_answer answer = {.verdict = verdict, .body = document};
    uint64_t handle = waiter->handle;
    waiter_free(shard, waiter);
    sk_control_answer(control, handle, &answer);
}

// The waiter's time is up, and there is no row for it: sk_order_lookup() answers that it is pending, or not known.
static void waiting_lookup(struct waiting_shard *shard, struct waiter *waiter)
{
    char order_id[SK_UUID_SIZE], user[SK_USER_SIZE];
    uint64_t handle = waiter->handle;
    memcpy(order_id, waiter->order_id, sizeof order_id);
    memcpy(user, waiter->user, sizeof user);
    waiter_free(shard, waiter);
    sk_order_lookup(shard->control, SK_LOOKUP_FOR_USER, order_id, user, handle);
}

static void waiting_ask(struct waiting_shard *shard);

static void waiting_on_changed(void *arg, const struct sk_result *result)
{
    struct waiting_shard *shard = arg;
    bool answered = result->rows != NULL;
    for (size_t row = 0; answered && row < sk_rows_count(result->rows); row++) {
        int64_t n = sk_rows_number(result->rows, row, COLUMN_N);
        const char *document = sk_rows_text(result->rows, row, COLUMN_DOCUMENT);
        SK_ASSERT(n >= 1 && (size_t)n <= shard->asked_count);
        if (shard->asked[n - 1] != NULL)
            waiting_answer(shard, shard->asked[n - 1], document == NULL ? SK_VERDICT_NOT_FOUND : SK_VERDICT_FOUND,
                           document);
    }
    for (size_t i = 0; i < shard->asked_count; i++) {
        struct waiter *waiter = shard->asked[i];
        if (waiter == NULL)
            continue;
        if (waiter->over)
            waiting_lookup(shard, waiter);
        else if (!answered)
            waiter_move(shard, waiter, WAITER_DUE);
        else
            waiter_move(shard, waiter, strcmp(waiter->status, "pending") == 0 ? WAITER_TURNS : WAITER_RESTS);
    }
    shard->asked_count = 0;
    if (answered && !shard->closing)
        waiting_ask(shard); // orders that became due meanwhile; or ends the round
    else
        waiting_end_round(shard);
}

// Asks about all due orders, and those whose turn it is. If there are none, the round ends.
static void waiting_ask(struct waiting_shard *shard)
{
    const char *params[4];
    bool complete = true;
    shard->asked_count = 0;
    for (int i = 0; i < 4; i++)
        sk_params_begin(&shard->arrays[i]);
    waiting_gather(shard, WAITER_DUE, ASK_MAX);
    size_t due = shard->asked_count;
    waiting_gather(shard, WAITER_TURNS, shard->turns_left);
    shard->turns_left -= shard->asked_count - due;
    if (shard->asked_count == 0) {
        waiting_end_round(shard);
        return;
    }
    for (int i = 0; i < 4; i++) {
        params[i] = sk_params_end(&shard->arrays[i]);
        complete = complete && params[i] != NULL;
    }
    if (!complete ||
        sk_pg_call(shard->of->queries, SK_STATEMENT_ORDERS_CHANGED, 4, params, waiting_on_changed, shard) != SK_OK)
        waiting_on_changed(shard, &(struct sk_result){.kind = SK_RESULT_LOST});
}

static void waiting_on_moved(void *arg, const struct sk_result *result)
{
    struct waiting_shard *shard = arg;
    size_t rows = result->rows == NULL ? 0 : sk_rows_count(result->rows);
    const char *seen = rows == 0 ? NULL : sk_rows_text(result->rows, 0, COLUMN_SEEN);
    bool complete = shard->seen[0] != '\0' && rows <= MOVED_MAX + 1;
    if (seen == NULL || strlen(seen) >= sizeof shard->seen) {
        shard->seen[0] = '\0';
        complete = false;
    } else {
        memcpy(shard->seen, seen, strlen(seen) + 1);
    }
    struct waiter *resting;
    while (!complete && (resting = sk_list_first(&shard->lists[WAITER_RESTS])) != NULL)
        waiter_move(shard, resting, WAITER_DUE); // what is known may be old
    for (size_t row = 1; complete && row < rows; row++)
        waiting_has_moved(shard, sk_rows_text(result->rows, row, COLUMN_MOVED));
    waiting_ask(shard);
}

static void waiting_on_tick(void *arg)
{
    struct waiting_shard *shard = arg;
    const char *params[] = {shard->seen[0] == '\0' ? NULL : shard->seen};
    shard->turns_left = ASK_MAX;
    shard->busy = shard->count > 0;
    if (shard->busy &&
        sk_pg_call(shard->of->queries, SK_STATEMENT_ORDERS_MOVED, 1, params, waiting_on_moved, shard) != SK_OK)
        waiting_on_moved(shard, &(struct sk_result){.kind = SK_RESULT_LOST});
}

// ---- adding and removing waiters ----

struct sk_waiting *sk_waiting_open(struct sk_control *control)
{
    const struct sk_sale *sale = control->sale;
    struct sk_waiting *waiting = calloc(1, sizeof *waiting + sale->shard_count * sizeof waiting->shards[0]);
    if (waiting == NULL)
        return NULL;
    while (waiting->shard_count < sale->shard_count) {
        struct waiting_shard *shard = &waiting->shards[waiting->shard_count];
        shard->control = control;
        shard->of = &sale->shards[waiting->shard_count++];
        for (int list = 0; list < WAITER_LISTS; list++)
            sk_list_begin(&shard->lists[list]);
        shard->timer = sk_timer_open(sale->loop, 0, waiting_on_tick, shard);
        if (shard->timer == NULL) {
            sk_waiting_close(waiting);
            return NULL;
        }
    }
    return waiting;
}

bool sk_waiting_may_change(const char *status)
{
    return strcmp(status, "pending") == 0 || strcmp(status, "waiting") == 0 || strcmp(status, "unpaid") == 0;
}

bool sk_waiting_add(struct sk_waiting *waiting, const char *order_id, const char *user, const char *status,
                    uint64_t handle)
{
    struct waiting_shard *shard = &waiting->shards[sk_shard_of_slot(sk_order_id_slot(order_id), waiting->shard_count)];
    struct waiter *waiter = shard->closing ? NULL : calloc(1, sizeof *waiter);
    struct waiter **by_order = &shard->by_order[waiter_bucket_of_order(order_id)];
    struct waiter **by_handle = &shard->by_handle[waiter_bucket_of_handle(handle)];
    if (waiter == NULL)
        return false;
    (void)snprintf(waiter->order_id, sizeof waiter->order_id, "%s", order_id);
    (void)snprintf(waiter->user, sizeof waiter->user, "%s", user);
    (void)snprintf(waiter->status, sizeof waiter->status, "%s", status);
    waiter->handle = handle;
    waiter->same_order_after = *by_order;
    if (*by_order != NULL)
        (*by_order)->same_order = waiter;
    *by_order = waiter;
    waiter->same_handle = *by_handle;
    *by_handle = waiter;
    waiter_join_list(shard, waiter, WAITER_DUE);
    if (shard->count++ == 0 && !shard->busy)
        sk_timer_once(shard->timer, TICK_MS);
    return true;
}

// *at: the shard that has it. NULL: none has.
static struct waiter *waiting_find(struct sk_waiting *waiting, uint64_t handle, struct waiting_shard **at)
{
    for (size_t i = 0; i < waiting->shard_count; i++) {
        struct waiter *waiter = waiting->shards[i].by_handle[waiter_bucket_of_handle(handle)];
        while (waiter != NULL && waiter->handle != handle)
            waiter = waiter->same_handle;
        *at = &waiting->shards[i];
        if (waiter != NULL)
            return waiter;
    }
    return NULL;
}

void sk_waiting_over(struct sk_waiting *waiting, uint64_t handle)
{
    struct waiting_shard *shard;
    struct waiter *waiter = waiting_find(waiting, handle, &shard);
    if (waiter == NULL)
        return;
    waiter->over = true;
    if (waiter->state != WAITER_ASKED)
        waiter_move(shard, waiter, WAITER_DUE);
}

void sk_waiting_leave(struct sk_waiting *waiting, uint64_t handle)
{
    struct waiting_shard *shard;
    struct waiter *waiter = waiting_find(waiting, handle, &shard);
    if (waiter != NULL)
        waiter_free(shard, waiter);
}

size_t sk_waiting_count(const struct sk_waiting *waiting)
{
    size_t count = 0;
    for (size_t i = 0; i < waiting->shard_count; i++)
        count += waiting->shards[i].count;
    return count;
}

static void waiting_close_shard(struct waiting_shard *shard)
{
    struct waiter *waiter;
    SK_ASSERT(!shard->busy); // the links are closed
    for (int i = 0; i < WAITER_LISTS; i++) {
        while ((waiter = sk_list_first(&shard->lists[i])) != NULL)
            waiting_answer(shard, waiter, SK_VERDICT_UNAVAILABLE, NULL);
    }
    for (size_t i = 0; i < sizeof shard->arrays / sizeof shard->arrays[0]; i++)
        sk_buf_free(&shard->arrays[i]);
    sk_timer_close(shard->timer);
}

void sk_waiting_close(struct sk_waiting *waiting)
{
    if (waiting == NULL)
        return;
    for (size_t i = 0; i < waiting->shard_count; i++)
        waiting->shards[i].closing = true;
    for (size_t i = 0; i < waiting->shard_count; i++)
        waiting_close_shard(&waiting->shards[i]);
    free(waiting);
}
