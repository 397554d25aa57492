// A process is known by its name (instances.h). What it did between two samples is the difference of its counters, if
// it is the same process, and if it was heard of all the while: what it did during a silence is in no sample.
#include "history.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "catalogue.h"
#include "clock.h"
#include "distribution.h"
#include "histogram.h"
#include "instances.h"
#include "keys.h"
#include "metrics.h"
#include "route_table.h"
#include "text.h"
#include "ticket.h"
#include "timer.h"
#include "verdict.h"

enum {
    FIRST_MS = 500,
    HEARD_MS = 3 * SK_HISTORY_MS, // an instance that was not heard of for longer is missed
    KEPT_MS = 15 * 60 * 1000,     // and forgotten after this time
    IDS = 8,                      // of vouchers that are named
    BUCKETS = SK_DISTRIBUTION_BOUNDS + 1,
    FIRST_BOUND_US = 100, // of SK_SCALE_SECONDS; each next one is twice as long
    COLUMNS = 3,          // of a row of share_figures.lua
};

// What was answered to purchases, and committed: in the order of the columns of a sample.
enum count { PLACED, ACCEPTED, SOLD_OUT, LIMITED, REFUSED, FAILED, COMMITTED, COUNTS };

// What a process writes of itself. The counters come last: they grow as long as it lives.
enum figure {
    STARTED_MS, // Unix time
    LEAVING,    // 1: it ends by itself
    REACTORS,
    REACTORS_READY,
    REDIS_AWAY, // servers to which a reactor is not connected
    POSTGRESQL_AWAY,
    BOOKS_DIFFER,
    DEAD_LETTERS,
    JOURNAL_ENTRIES,
    JOURNAL_OLDEST_MS,
    AUDIT_AGE_MS,
    DIFFERING,                     // vouchers whose stores differ; 0: no more
    TICKETS_OFF = DIFFERING + IDS, // open vouchers that ask for tickets, which this instance cannot issue
    COUNTERS = TICKETS_OFF + IDS,
    ANSWERS = COUNTERS + COUNTS, // buckets: from a purchase to its answer
    DURABLE = ANSWERS + BUCKETS, // and to its commit
    FIGURES = DURABLE + BUCKETS
};

// No figure is more: of times this is the year 9999, and sums of counters do not overflow, whatever Redis returns.
#define FIGURE_MOST SK_TIME_MAX_MS

enum { NUMBER_SIZE = 21, TEXT_SIZE = SK_ROSTER_WORD_MAX + 1 + FIGURES * NUMBER_SIZE + 1 };

struct instance {
    char name[SK_ROSTER_WORD_MAX + 1], version[SK_ROSTER_WORD_MAX + 1];
    uint64_t figures[FIGURES];
    uint64_t heard_ms; // when it wrote them, by sk_monotonic_ms()
};

struct instances {
    struct instance all[SK_HISTORY_INSTANCES];
    size_t count;
};

// What all instances did in SK_HISTORY_MS.
struct sample {
    int64_t at_ms; // Unix time
    uint32_t instances;
    uint64_t counts[COUNTS];
    int64_t answer_us[2], durable_us[2]; // half and 99 of 100 did not take longer; -1: there was none
};

struct sk_history {
    pthread_mutex_t lock; // of all below
    struct instances seen;
    bool shared;                               // as of the last sample: Redis had those of all
    struct sample samples[SK_HISTORY_SAMPLES]; // a ring
    size_t count, next;
};

struct sk_sampler {
    struct sk_history *history;       // borrowed, and so is the context
    const struct sk_context *context; // NULL: stopped
    struct sk_timer *timer;           // owned
    struct sk_metrics_sum *sum;       // owned
    struct instances *heard;          // owned
    bool asking;                      // Redis has not answered yet
    bool late;                        // and the sample was taken without it
    char text[TEXT_SIZE];
};

static void sampler_on_time(void *arg);
static void sampler_read_own(struct sk_sampler *sampler, struct instance *own);
static void sampler_note_vouchers(const struct sk_sampler *sampler, uint64_t figures[FIGURES]);
static enum sk_status sampler_share(struct sk_sampler *sampler, const struct instance *own);
static void sampler_on_shared(void *arg, const struct sk_reply *reply);
static void sampler_read_others(struct sk_sampler *sampler, const struct sk_reply *reply);
static bool instance_read(const char *text, struct instance *instance);
static void history_take(struct sk_history *history, const struct instances *heard, bool shared);
static void history_forget(struct sk_history *history, uint64_t now_ms);
static struct instance *history_find(struct sk_history *history, const char *name);
static void history_add_steps(struct sk_history *history, const struct instances *heard, uint64_t steps[FIGURES]);
static int64_t history_quantile(const uint64_t counts[BUCKETS], uint64_t percent);
static void history_put(struct sk_history *history, int64_t since_ms, struct sk_buf *out);

// ---- sampler ----

struct sk_sampler *sk_sampler_open(struct sk_history *history, const struct sk_context *context)
{
    struct sk_sampler *sampler = calloc(1, sizeof *sampler);
    if (sampler == NULL)
        return NULL;
    sampler->history = history;
    sampler->context = context;
    sampler->sum = malloc(sizeof *sampler->sum);
    sampler->heard = malloc(sizeof *sampler->heard);
    sampler->timer = sk_timer_open(context->control->sale->loop, 0, sampler_on_time, sampler);
    if (sampler->sum == NULL || sampler->heard == NULL || sampler->timer == NULL) {
        sk_sampler_stop(sampler);
        sk_sampler_close(sampler);
        return NULL;
    }
    sk_timer_once(sampler->timer, FIRST_MS);
    return sampler;
}

void sk_sampler_stop(struct sk_sampler *sampler)
{
    if (sampler == NULL)
        return;
    sk_timer_close(sampler->timer);
    sampler->timer = NULL;
    sampler->context = NULL;
}

void sk_sampler_close(struct sk_sampler *sampler)
{
    if (sampler == NULL)
        return;
    free(sampler->sum);
    free(sampler->heard);
    free(sampler);
}

// A sample each time, also while Redis has not answered.
static void sampler_on_time(void *arg)
{
    struct sk_sampler *sampler = arg;
    sk_timer_once(sampler->timer, SK_HISTORY_MS);
    sampler->heard->count = 1;
    sampler_read_own(sampler, &sampler->heard->all[0]);
    sampler->late = sampler->asking; // what it answers now belongs to no sample
    if (!sampler->asking) {
        sampler->asking = sampler_share(sampler, &sampler->heard->all[0]) == SK_OK;
        if (sampler->asking)
            return;
    }
    history_take(sampler->history, sampler->heard, false);
}

void sk_sampler_leave(struct sk_sampler *sampler)
{
    if (sampler == NULL || sampler->context == NULL)
        return;
    sampler_read_own(sampler, &sampler->heard->all[0]);
    sampler->asking = sampler_share(sampler, &sampler->heard->all[0]) == SK_OK || sampler->asking;
    sampler->late = true;
}

static unsigned sampler_purchase_row(void)
{
    unsigned row = 0;
    while ((sk_route_table[row].flags & SK_ROUTE_A_PURCHASE) == 0)
        row++;
    return row + 1; // as in struct sk_request
}

static enum count sampler_count_of(enum sk_verdict verdict)
{
    switch (verdict) {
    case SK_VERDICT_PLACED:
        return PLACED;
    case SK_VERDICT_ACCEPTED:
        return ACCEPTED;
    case SK_VERDICT_SOLD_OUT:
    case SK_VERDICT_NOT_ENOUGH:
        return SOLD_OUT;
    case SK_VERDICT_RATE_LIMITED:
    case SK_VERDICT_OVERLOADED:
        return LIMITED;
    default:
        return sk_verdict_http_status(verdict) >= 500 ? FAILED : REFUSED;
    }
}

static void sampler_read_own(struct sk_sampler *sampler, struct instance *own)
{
    struct sk_metrics_sum *sum = sampler->sum;
    const unsigned row = sampler_purchase_row();
    uint64_t *figures = own->figures;
    memset(own, 0, sizeof *own);
    sk_instances_name(sampler->context->control->sale->instance, own->name);
    (void)snprintf(own->version, sizeof own->version, "%s", SK_VERSION);
    own->heard_ms = sk_monotonic_ms();
    sk_metrics_sum(sum, own->heard_ms);
    figures[STARTED_MS] = (uint64_t)sk_durations_since_ms();
    figures[LEAVING] = sampler->context->draining;
    figures[REACTORS] = sum->values[SK_METRIC_REACTORS];
    figures[REACTORS_READY] = sum->values[SK_METRIC_REACTORS_READY];
    figures[BOOKS_DIFFER] = sum->values[SK_METRIC_BOOKS_DIFFER];
    figures[DEAD_LETTERS] = sum->values[SK_METRIC_LETTERS_WAITING];
    figures[JOURNAL_ENTRIES] = sum->values[SK_METRIC_JOURNAL_ENTRIES];
    figures[JOURNAL_OLDEST_MS] = sum->values[SK_METRIC_JOURNAL_OLDEST];
    figures[AUDIT_AGE_MS] = sum->values[SK_METRIC_ROUND_AT];
    for (size_t i = 0; i < sum->servers.count; i++) {
        bool redis = strcmp(sum->servers.rows[i].store, "redis") == 0;
        figures[redis ? REDIS_AWAY : POSTGRESQL_AWAY] += sum->servers.rows[i].up < figures[REACTORS];
    }
    for (int i = 0; i < SK_VERDICT_COUNT; i++)
        figures[COUNTERS + sampler_count_of((enum sk_verdict)i)] += sum->answers[row][i];
    figures[COUNTERS + COMMITTED] = sum->values[SK_METRIC_ORDERS_PLACED];
    memcpy(&figures[ANSWERS], sum->durations[row].counts, BUCKETS * sizeof *figures);
    memcpy(&figures[DURABLE], sum->distributions[SK_DISTRIBUTION_DURABLE].counts, BUCKETS * sizeof *figures);
    sampler_note_vouchers(sampler, figures);
}

static void sampler_note_vouchers(const struct sk_sampler *sampler, uint64_t figures[FIGURES])
{
    const struct sk_catalogue *catalogue = sampler->context->control->sale->catalogue;
    size_t off = 0;
    for (size_t i = 0; i < sampler->sum->differing.count && i < IDS; i++)
        figures[DIFFERING + i] = (uint64_t)sampler->sum->differing.rows[i].voucher_id;
    if (sk_tickets_on(sampler->context->tickets))
        return;
    for (size_t i = 0; i < sk_catalogue_count(catalogue) && off < IDS; i++) {
        const struct sk_voucher *voucher = sk_catalogue_at(catalogue, i);
        if (voucher->ticket && voucher->state == SK_VOUCHER_OPEN && voucher->end_ms > (int64_t)sk_wall_ms())
            figures[TICKETS_OFF + off++] = (uint64_t)voucher->id;
    }
}

// ---- sharing ----

static enum sk_status sampler_share(struct sk_sampler *sampler, const struct instance *own)
{
    struct sk_redis *redis = sk_sale_ask_shared(sampler->context->control->sale);
    char kept[NUMBER_SIZE];
    const char *argv[] = {SK_KEY_FIGURES, own->name, sampler->text, kept};
    size_t len = (size_t)snprintf(sampler->text, sizeof sampler->text, "%s", own->version);
    for (size_t i = 0; i < FIGURES; i++)
        len += (size_t)snprintf(sampler->text + len, sizeof sampler->text - len, " %" PRIu64, own->figures[i]);
    (void)snprintf(kept, sizeof kept, "%d", KEPT_MS);
    if (!sk_redis_ready(redis))
        return SK_DOWN;
    return sk_redis_script(redis, SK_SCRIPT_SHARE_FIGURES, 1, 4, argv, NULL, sampler_on_shared, sampler);
}

static void sampler_on_shared(void *arg, const struct sk_reply *reply)
{
    struct sk_sampler *sampler = arg;
    bool late = sampler->late;
    sampler->asking = false;
    if (sampler->context == NULL || late)
        return;
    bool shared = reply != NULL && sk_reply_count(reply) > 0; // the own row is there, unless it is an error
    if (shared)
        sampler_read_others(sampler, reply);
    history_take(sampler->history, sampler->heard, shared);
}

// What is not as an instance writes it is left out. The own figures are those that were written.
static void sampler_read_others(struct sk_sampler *sampler, const struct sk_reply *reply)
{
    struct instances *heard = sampler->heard;
    uint64_t now_ms = sk_monotonic_ms();
    for (size_t i = 0; i + COLUMNS <= sk_reply_count(reply) && heard->count < SK_HISTORY_INSTANCES; i += COLUMNS) {
        struct instance *one = &heard->all[heard->count];
        const char *name = sk_reply_text(sk_reply_at(reply, i), NULL), *rest;
        const char *text = sk_reply_text(sk_reply_at(reply, i + 2), NULL);
        int64_t age_ms;
        memset(one, 0, sizeof *one);
        rest = name == NULL ? NULL : sk_instances_word(name, one->name);
        if (rest == NULL || *rest != '\0' || text == NULL || strcmp(name, heard->all[0].name) == 0 ||
            !sk_reply_number(sk_reply_at(reply, i + 1), &age_ms) || age_ms < 0 || age_ms > KEPT_MS ||
            !instance_read(text, one) || one->figures[LEAVING] != 0)
            continue;
        one->heard_ms = (uint64_t)age_ms < now_ms ? now_ms - (uint64_t)age_ms : 1;
        heard->count++;
    }
}

static bool instance_read(const char *text, struct instance *instance)
{
    char word[SK_ROSTER_WORD_MAX + 1];
    text = sk_instances_word(text, instance->version);
    for (size_t i = 0; text != NULL && i < FIGURES; i++) {
        text = sk_instances_word(text, word);
        if (text == NULL || !sk_text_number(word, FIGURE_MOST, &instance->figures[i]))
            return false;
    }
    return text != NULL && *text == '\0';
}

// ---- the ring ----

struct sk_history *sk_history_open(void)
{
    struct sk_history *history = calloc(1, sizeof *history);
    if (history != NULL)
        (void)pthread_mutex_init(&history->lock, NULL); // cannot fail for a default mutex
    return history;
}

void sk_history_close(struct sk_history *history)
{
    if (history == NULL)
        return;
    (void)pthread_mutex_destroy(&history->lock);
    free(history);
}

// `shared`: these are all; else only the first is new, and the others stay as they were.
static void history_take(struct sk_history *history, const struct instances *heard, bool shared)
{
    static const size_t half = 50, nearly_all = 99;
    uint64_t steps[FIGURES] = {0}, now_ms = sk_monotonic_ms();
    struct sample sample = {.at_ms = (int64_t)sk_wall_ms()};
    (void)pthread_mutex_lock(&history->lock);
    history_add_steps(history, heard, steps);
    if (shared) {
        history->seen = *heard;
    } else {
        history_forget(history, now_ms);
        struct instance *own = history_find(history, heard->all[0].name);
        if (own == NULL && history->seen.count < SK_HISTORY_INSTANCES)
            own = &history->seen.all[history->seen.count++];
        if (own != NULL)
            *own = heard->all[0];
    }
    for (size_t i = 0; i < history->seen.count; i++)
        sample.instances += now_ms - history->seen.all[i].heard_ms <= HEARD_MS;
    memcpy(sample.counts, &steps[COUNTERS], sizeof sample.counts);
    sample.answer_us[0] = history_quantile(&steps[ANSWERS], half);
    sample.answer_us[1] = history_quantile(&steps[ANSWERS], nearly_all);
    sample.durable_us[0] = history_quantile(&steps[DURABLE], half);
    sample.durable_us[1] = history_quantile(&steps[DURABLE], nearly_all);
    history->samples[history->next] = sample;
    history->next = (history->next + 1) % SK_HISTORY_SAMPLES;
    history->count += history->count < SK_HISTORY_SAMPLES;
    history->shared = shared;
    (void)pthread_mutex_unlock(&history->lock);
}

// As share_figures.lua does, while Redis is away.
static void history_forget(struct sk_history *history, uint64_t now_ms)
{
    size_t kept = 0;
    for (size_t i = 0; i < history->seen.count; i++) {
        if (now_ms - history->seen.all[i].heard_ms <= KEPT_MS)
            history->seen.all[kept++] = history->seen.all[i];
    }
    history->seen.count = kept;
}

static struct instance *history_find(struct sk_history *history, const char *name)
{
    for (size_t i = 0; i < history->seen.count; i++) {
        if (strcmp(history->seen.all[i].name, name) == 0)
            return &history->seen.all[i];
    }
    return NULL;
}

static void history_add_steps(struct sk_history *history, const struct instances *heard, uint64_t steps[FIGURES])
{
    for (size_t i = 0; i < heard->count; i++) {
        const struct instance *now = &heard->all[i], *then = history_find(history, now->name);
        if (then == NULL || then->figures[STARTED_MS] != now->figures[STARTED_MS] ||
            now->heard_ms > then->heard_ms + HEARD_MS)
            continue;
        for (size_t k = COUNTERS; k < FIGURES; k++)
            steps[k] += now->figures[k] > then->figures[k] ? now->figures[k] - then->figures[k] : 0;
    }
}

// As Prometheus does: values are spread evenly within their bucket; of those above the last bound only that is known.
static int64_t history_quantile(const uint64_t counts[BUCKETS], uint64_t percent)
{
    uint64_t total = 0, below = 0, from_us = 0, to_us = FIRST_BOUND_US;
    for (size_t i = 0; i < BUCKETS; i++)
        total += counts[i];
    if (total == 0)
        return -1;
    uint64_t rank = total / 100 * percent + (total % 100 * percent + 99) / 100; // total * percent may overflow
    for (size_t i = 0; i < SK_DISTRIBUTION_BOUNDS; i++) {
        if (below + counts[i] >= rank)
            return (int64_t)(from_us +
                             (uint64_t)((double)(to_us - from_us) * (double)(rank - below) / (double)counts[i]));
        below += counts[i];
        from_us = to_us;
        to_us *= 2;
    }
    return (int64_t)from_us;
}

// ---- the answer ----

void sk_handle_history(const struct sk_context *context, struct sk_request *request)
{
    const char *text = sk_request_query(request, "since", NULL);
    struct sk_buf body = {0};
    uint64_t since_ms = 0;
    if (text != NULL && !sk_text_number(text, FIGURE_MOST, &since_ms)) {
        (void)sk_answer_parameter(context->answers, request, "since", "must be a Unix time in milliseconds");
        return;
    }
    if (context->options->history != NULL)
        history_put(context->options->history, (int64_t)since_ms, &body);
    sk_answer_text(context->answers, request, &body);
}

static void history_put_ids(struct sk_buf *out, const char *name, const uint64_t ids[IDS])
{
    sk_buf_printf(out, ",\"%s\":[", name);
    for (size_t i = 0; i < IDS && ids[i] != 0; i++)
        sk_buf_printf(out, "%s\"%" PRIu64 "\"", i == 0 ? "" : ",", ids[i]);
    sk_buf_puts(out, "]");
}

static void history_put_instance(struct sk_buf *out, const struct instance *one, uint64_t now_ms)
{
    static const struct {
        enum figure figure;
        const char *name;
    } members[] = {{REACTORS, "reactors"},
                   {REACTORS_READY, "reactors_ready"},
                   {REDIS_AWAY, "redis_away"},
                   {POSTGRESQL_AWAY, "postgresql_away"},
                   {BOOKS_DIFFER, "books_differ"},
                   {DEAD_LETTERS, "dead_letters"},
                   {JOURNAL_ENTRIES, "journal_entries"},
                   {JOURNAL_OLDEST_MS, "journal_oldest_ms"},
                   {AUDIT_AGE_MS, "audit_age_ms"}};
    char started[SK_TIME_SIZE];
    uint64_t ago_ms = now_ms > one->heard_ms ? now_ms - one->heard_ms : 0;
    sk_text_put_time((int64_t)one->figures[STARTED_MS], started);
    sk_buf_printf(
        out, "{\"name\":\"%s\",\"version\":\"%s\",\"started_at\":\"%s\",\"heard_ago_ms\":%" PRIu64 ",\"missed\":%s",
        one->name, one->version, started, ago_ms, ago_ms > HEARD_MS ? "true" : "false");
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        sk_buf_printf(out, ",\"%s\":%" PRIu64, members[i].name, one->figures[members[i].figure]);
    history_put_ids(out, "differing", &one->figures[DIFFERING]);
    history_put_ids(out, "tickets_off", &one->figures[TICKETS_OFF]);
    sk_buf_puts(out, "}");
}

static void history_put_us(struct sk_buf *out, int64_t us)
{
    if (us < 0)
        sk_buf_puts(out, ",null");
    else
        sk_buf_printf(out, ",%" PRId64, us);
}

static void history_put_sample(struct sk_buf *out, const struct sample *sample)
{
    sk_buf_printf(out, "[%" PRId64 ",%" PRIu32, sample->at_ms, sample->instances);
    for (size_t i = 0; i < COUNTS; i++)
        sk_buf_printf(out, ",%" PRIu64, sample->counts[i]);
    for (size_t i = 0; i < 2; i++)
        history_put_us(out, sample->answer_us[i]);
    for (size_t i = 0; i < 2; i++)
        history_put_us(out, sample->durable_us[i]);
    sk_buf_puts(out, "]");
}

static void history_put(struct sk_history *history, int64_t since_ms, struct sk_buf *out)
{
    char now[SK_TIME_SIZE];
    const char *comma = "";
    uint64_t now_ms = sk_monotonic_ms();
    sk_text_put_time((int64_t)sk_wall_ms(), now);
    (void)pthread_mutex_lock(&history->lock);
    sk_buf_printf(out, "{\"server_time\":\"%s\",\"shared\":%s,\"instances\":[", now,
                  history->shared ? "true" : "false");
    for (size_t i = 0; i < history->seen.count; i++) {
        sk_buf_puts(out, i == 0 ? "" : ",");
        history_put_instance(out, &history->seen.all[i], now_ms);
    }
    sk_buf_printf(out,
                  "],\"sample_ms\":%d,\"columns\":[\"at_ms\",\"instances\",\"placed\",\"accepted\",\"sold_out\","
                  "\"limited\",\"refused\",\"failed\",\"committed\",\"answer_p50_us\",\"answer_p99_us\","
                  "\"durable_p50_us\",\"durable_p99_us\"],\"samples\":[",
                  SK_HISTORY_MS);
    for (size_t i = 0; i < history->count; i++) {
        size_t at = (history->next + SK_HISTORY_SAMPLES - history->count + i) % SK_HISTORY_SAMPLES;
        if (history->samples[at].at_ms <= since_ms)
            continue;
        sk_buf_puts(out, comma);
        history_put_sample(out, &history->samples[at]);
        comma = ",";
    }
    (void)pthread_mutex_unlock(&history->lock);
    sk_buf_puts(out, "]}");
}
