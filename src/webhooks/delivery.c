// The thread connects, takes the receiver for its session, and sends until the connection is lost; then it begins anew.
// Whatever it does takes a bounded time, so that a stop ends it.
#include "delivery.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backoff.h"
#include "clock.h"
#include "failpoint.h"
#include "log.h"
#include "message.h"
#include "pg_once.h"
#include "post.h"
#include "text.h"

enum {
    POLL_MS = 200,         // between two looks at a feed that had nothing
    LOOK_MS = 2000,        // between two looks at what an operator did, while the receiver takes nothing
    ELSEWHERE_MS = 2000,   // between two tries to take a receiver that another process has
    RETRY_FIRST_MS = 2000, // a half and a random part of the other one: 1 s at least
    RETRY_MOST_MS = 600000,
    CONNECT_FIRST_MS = 200,
    CONNECT_MOST_MS = 10000,
    GRACE_MS = 5000, // for a post that runs when the process is to end
    ROWS_MAX = 500,  // of which a page is made, where not all events are wanted
};

enum delivery_counter { TAKEN, REFUSED, FAILED, EVENTS, COUNTERS };

struct sk_delivery {
    const struct sk_shards *shards;
    size_t shard;
    const struct sk_receiver *receiver;
    pthread_t thread;
    struct sk_pg_once *pg;    // owned; NULL: not connected
    struct sk_poster *poster; // owned
    struct sk_feed_place at;  // its cursor
    struct sk_message message;
    struct sk_backoff retry, connect;
    pthread_mutex_t lock;
    pthread_cond_t stopping;
    uint64_t stop_ms; // under the lock; 0: it goes on
    _Atomic uint64_t counters[COUNTERS];
    _Atomic int64_t unsent_since_ms; // Unix time; 0: nothing is unsent
    atomic_bool stopped, elsewhere;
};

// ---- waiting, and being told to stop ----

static uint64_t delivery_stop_ms(struct sk_delivery *delivery)
{
    (void)pthread_mutex_lock(&delivery->lock);
    uint64_t ms = delivery->stop_ms;
    (void)pthread_mutex_unlock(&delivery->lock);
    return ms;
}

// True: it is to stop.
static bool delivery_wait(struct sk_delivery *delivery, uint64_t ms)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(ms / 1000);
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    (void)pthread_mutex_lock(&delivery->lock);
    int error = 0;
    while (delivery->stop_ms == 0 && error == 0)
        error = pthread_cond_timedwait(&delivery->stopping, &delivery->lock, &until);
    bool stops = delivery->stop_ms != 0;
    (void)pthread_mutex_unlock(&delivery->lock);
    return stops;
}

static bool delivery_gives_up(void *arg)
{
    uint64_t stop_ms = delivery_stop_ms(arg);
    return stop_ms != 0 && sk_monotonic_ms() >= stop_ms + GRACE_MS;
}

static void delivery_log(const struct sk_delivery *delivery, enum sk_log_level level, const char *message,
                         const char *why)
{
    char text[SK_POST_WHY_SIZE + SK_RECEIVER_NAME_SIZE + 32];
    (void)snprintf(text, sizeof text, "%s, shard %zu%s%s", delivery->receiver->name, delivery->shard,
                   why == NULL ? "" : ": ", why == NULL ? "" : why);
    sk_log_repeat(level, message, "receiver", text);
}

// ---- PostgreSQL ----

static bool delivery_ask(struct sk_delivery *delivery, enum sk_keeping statement, int n, const char *const *params,
                         const struct sk_rows **rows)
{
    return sk_pg_once_run(delivery->pg, statement, n, params, rows) == SK_OK;
}

static bool delivery_is_true(const struct sk_rows *rows)
{
    const char *text = sk_rows_text(rows, 0, 0);
    return text != NULL && text[0] == 't';
}

// Columns of webhook_begin and, from PLACE_TX on, of webhook_find.
enum { PLACE_TX, PLACE_SEQ, PLACE_STATE };

static void delivery_read_place(struct sk_delivery *delivery, const struct sk_rows *rows, int first)
{
    const char *tx = sk_rows_text(rows, 0, first + PLACE_TX), *seq = sk_rows_text(rows, 0, first + PLACE_SEQ);
    (void)snprintf(delivery->at.tx, sizeof delivery->at.tx, "%s", tx);
    (void)snprintf(delivery->at.seq, sizeof delivery->at.seq, "%s", seq);
    delivery->stopped = sk_rows_text(rows, 0, first + PLACE_STATE)[1] == 't'; // stopped, not sending
}

// False: the connection is lost. *taken: the receiver is this session's.
static bool delivery_take(struct sk_delivery *delivery, bool *taken)
{
    const char *params[] = {delivery->receiver->name, delivery->receiver->from_first ? "first" : "now"};
    const struct sk_rows *rows;
    if (!delivery_ask(delivery, SK_KEEPING_WEBHOOK_BEGIN, 2, params, &rows))
        return false;
    *taken = delivery_is_true(rows);
    if (*taken)
        delivery_read_place(delivery, rows, 1);
    return true;
}

// False: an operator has moved the cursor, wants a try now, or has removed the receiver; or the connection is lost.
static bool delivery_is_to_wait(struct sk_delivery *delivery)
{
    const char *params[] = {delivery->receiver->name};
    struct sk_feed_place before = delivery->at;
    const struct sk_rows *rows;
    if (!delivery_ask(delivery, SK_KEEPING_WEBHOOK_FIND, 1, params, &rows) || sk_rows_count(rows) == 0)
        return false;
    delivery_read_place(delivery, rows, 0);
    return strcmp(before.tx, delivery->at.tx) == 0 && strcmp(before.seq, delivery->at.seq) == 0 &&
           strcmp(sk_rows_text(rows, 0, PLACE_STATE), "sending") != 0;
}

// False: the connection is lost. *any: there are events after the cursor; perhaps the receiver wants none of them.
static bool delivery_read_page(struct sk_delivery *delivery, bool *any)
{
    const struct sk_receiver *receiver = delivery->receiver;
    char most[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {delivery->at.tx, delivery->at.seq,
                            sk_params_number(most, receiver->events_count > 0 ? ROWS_MAX : (int64_t)receiver->page),
                            sk_receiver_kind(receiver)};
    const struct sk_rows *rows;
    if (!delivery_ask(delivery, SK_KEEPING_WEBHOOK_PAGE, 4, params, &rows))
        return false;
    *any = sk_rows_count(rows) > 0;
    delivery->message.events = 0;
    return !*any ||
           sk_message_make(&delivery->message, receiver, rows, delivery->shard, delivery->shards->count) == SK_OK;
}

// False: the connection is lost, or an operator has moved the cursor: begin anew.
static bool delivery_store(struct sk_delivery *delivery)
{
    const struct sk_feed_place *to = &delivery->message.behind;
    const char *params[] = {delivery->receiver->name, delivery->at.tx, delivery->at.seq, to->tx, to->seq};
    const struct sk_rows *rows;
    if (!delivery_ask(delivery, SK_KEEPING_WEBHOOK_TOOK, 5, params, &rows) || !delivery_is_true(rows))
        return false;
    delivery->at = *to;
    return true;
}

static bool delivery_store_failure(struct sk_delivery *delivery, const char *state, const char *why)
{
    const struct sk_message *page = &delivery->message;
    const char *params[] = {delivery->receiver->name, delivery->at.tx, delivery->at.seq, state,   why,
                            page->first_at,           page->behind.tx, page->behind.seq, page->id};
    const struct sk_rows *rows;
    return delivery_ask(delivery, SK_KEEPING_WEBHOOK_FAILED, 9, params, &rows);
}

// ---- sending ----

enum delivery_outcome { OUTCOME_TAKEN, OUTCOME_FAILED, OUTCOME_STOPPED };

static enum delivery_outcome delivery_outcome_of(const struct sk_post_answer *answer)
{
    if (answer->status >= 200 && answer->status < 300)
        return OUTCOME_TAKEN;
    return answer->status == 410 ? OUTCOME_STOPPED : OUTCOME_FAILED;
}

static void delivery_count(struct sk_delivery *delivery, enum delivery_counter counter, uint64_t n)
{
    (void)atomic_fetch_add_explicit(&delivery->counters[counter], n, memory_order_relaxed);
}

// Waits before the next try of the same page, or until an operator has done something. False: begin anew, or stop.
static bool delivery_wait_to_retry(struct sk_delivery *delivery, uint64_t ms)
{
    uint64_t until_ms = sk_monotonic_ms() + ms;
    for (;;) {
        uint64_t now_ms = sk_monotonic_ms();
        if (!delivery->stopped && now_ms >= until_ms)
            return true;
        bool is_last = !delivery->stopped && until_ms - now_ms < LOOK_MS;
        if (delivery_wait(delivery, is_last ? until_ms - now_ms : LOOK_MS))
            return false;
        if (!is_last && !delivery_is_to_wait(delivery))
            return false;
    }
}

// Posts the page until it is taken. False: begin anew, or stop.
static bool delivery_send(struct sk_delivery *delivery)
{
    struct sk_post_answer answer;
    for (;;) {
        sk_poster_send(delivery->poster, &delivery->message, &answer);
        SK_FAILPOINT("webhook.posted");
        enum delivery_outcome outcome = delivery_outcome_of(&answer);
        delivery_count(delivery, outcome == OUTCOME_TAKEN ? TAKEN : answer.status == 0 ? FAILED : REFUSED, 1);
        if (outcome == OUTCOME_TAKEN) {
            sk_backoff_reset(&delivery->retry);
            delivery_count(delivery, EVENTS, delivery->message.events);
            return delivery_store(delivery);
        }
        if (delivery_stop_ms(delivery) != 0)
            return false;
        delivery->stopped = outcome == OUTCOME_STOPPED;
        delivery_log(delivery, SK_LOG_WARN,
                     delivery->stopped ? "a receiver is gone, and gets nothing until it is resumed"
                                       : "a receiver does not take its events",
                     answer.why);
        if (!delivery_store_failure(delivery, delivery->stopped ? "stopped" : "failing", answer.why))
            return false;
        uint64_t ms = sk_backoff_next(&delivery->retry), asked_ms = (uint64_t)answer.retry_after_s * 1000;
        if (!delivery_wait_to_retry(delivery, ms > asked_ms ? ms : asked_ms))
            return false;
    }
}

// Sends what there is. False: begin anew, or stop.
static bool delivery_send_next(struct sk_delivery *delivery)
{
    struct sk_message *message = &delivery->message;
    int64_t at_ms = 0;
    bool any;
    if (!delivery_read_page(delivery, &any))
        return false;
    if (message->events > 0)
        (void)sk_text_time(message->first_at, &at_ms);
    delivery->unsent_since_ms = at_ms;
    if (message->events > 0)
        return delivery_send(delivery);
    return any ? delivery_store(delivery) : !delivery_wait(delivery, POLL_MS);
}

// Until the connection is lost, or it is to stop.
static void delivery_use(struct sk_delivery *delivery)
{
    bool taken = false;
    while (!taken) {
        if (!delivery_take(delivery, &taken))
            return;
        delivery->elsewhere = !taken;
        if (!taken && delivery_wait(delivery, ELSEWHERE_MS))
            return;
    }
    sk_backoff_reset(&delivery->connect);
    delivery_log(delivery, SK_LOG_INFO, "sends to a receiver", NULL);
    if (delivery->stopped && !delivery_wait_to_retry(delivery, 0))
        return;
    while (delivery_send_next(delivery))
        ;
}

static void *delivery_run(void *arg)
{
    struct sk_delivery *delivery = arg;
    do {
        delivery->pg = sk_pg_once_open(delivery->shards, delivery->shard);
        if (delivery->pg != NULL)
            delivery_use(delivery);
        sk_pg_once_close(delivery->pg);
        delivery->pg = NULL;
    } while (!delivery_wait(delivery, sk_backoff_next(&delivery->connect)));
    return NULL;
}

// ---- the main thread's side ----

static bool delivery_begin_thread(struct sk_delivery *delivery)
{
    pthread_condattr_t monotonic;
    bool done = pthread_condattr_init(&monotonic) == 0;
    done = done && pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) == 0;
    done = done && pthread_cond_init(&delivery->stopping, &monotonic) == 0;
    done = done && pthread_mutex_init(&delivery->lock, NULL) == 0;
    (void)pthread_condattr_destroy(&monotonic);
    return done && pthread_create(&delivery->thread, NULL, delivery_run, delivery) == 0;
}

struct sk_delivery *sk_delivery_start(const struct sk_shards *shards, size_t shard, const struct sk_receiver *receiver)
{
    struct sk_delivery *delivery = calloc(1, sizeof *delivery);
    if (delivery == NULL)
        return NULL;
    delivery->shards = shards;
    delivery->shard = shard;
    delivery->receiver = receiver;
    delivery->retry = (struct sk_backoff){.first_ms = RETRY_FIRST_MS, .most_ms = RETRY_MOST_MS};
    delivery->connect = (struct sk_backoff){.first_ms = CONNECT_FIRST_MS, .most_ms = CONNECT_MOST_MS};
    delivery->poster = sk_poster_open(receiver, delivery_gives_up, delivery);
    if (delivery->poster != NULL && delivery_begin_thread(delivery))
        return delivery;
    sk_log(SK_LOG_ERROR, "cannot begin to send to a receiver", "receiver=%s shard=%zu", receiver->name, shard);
    sk_poster_close(delivery->poster);
    free(delivery);
    return NULL;
}

void sk_delivery_stop(struct sk_delivery *delivery)
{
    (void)pthread_mutex_lock(&delivery->lock);
    delivery->stop_ms = sk_monotonic_ms();
    (void)pthread_cond_signal(&delivery->stopping);
    (void)pthread_mutex_unlock(&delivery->lock);
}

void sk_delivery_end(struct sk_delivery *delivery)
{
    if (delivery == NULL)
        return;
    (void)pthread_join(delivery->thread, NULL);
    (void)pthread_cond_destroy(&delivery->stopping);
    (void)pthread_mutex_destroy(&delivery->lock);
    sk_message_free(&delivery->message);
    sk_poster_close(delivery->poster);
    free(delivery);
}

void sk_delivery_read(const struct sk_delivery *delivery, struct sk_delivery_seen *seen)
{
    int64_t since_ms = delivery->unsent_since_ms, now_ms = (int64_t)sk_wall_ms();
    *seen = (struct sk_delivery_seen){
        .taken = delivery->counters[TAKEN],
        .refused = delivery->counters[REFUSED],
        .failed = delivery->counters[FAILED],
        .events = delivery->counters[EVENTS],
        .unsent_ms = since_ms == 0       ? 0
                     : now_ms > since_ms ? (uint64_t)(now_ms - since_ms)
                                         : 1,
        .stopped = delivery->stopped,
        .elsewhere = delivery->elsewhere,
    };
}
