// The row decides: once it is committed the answer is 201, whether or not Redis could be loaded in time. What is not
// loaded here is loaded by the audit, or for the first buyer.
//
//   ASKING   the row is being inserted, or found
//   WAITING  the answer was lost; it is asked once more, which is harmless because every call has a key
//   LOADING  the row is there; Redis is being loaded, or asked whether it has the voucher
//
// A repeated call never loads a voucher that was loaded before: loading closes it for a moment, and it may be selling.
#include "create.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "admit.h"
#include "rebuild.h"
#include "uuid.h"

enum { TICK_MS = 50, RETRY_AFTER_MS = 1000, NUMBER_SIZE = 24 };

enum step { ASKING, WAITING, LOADING };

struct creation {
    struct creation *next;
    struct sk_creations *creations;
    uint64_t ticket; // 0: answered
    enum step step;
    bool repeated;
    uint64_t ask_until_ms;    // no second try later
    uint64_t answer_until_ms; // "loading" is the answer then
    char *key, *title;        // owned
    char price[NUMBER_SIZE], stock[NUMBER_SIZE], begin_ms[NUMBER_SIZE], end_ms[NUMBER_SIZE];
    struct sk_segment *voucher; // pinned; NULL: none
    int64_t voucher_id;
    char *document, *loading; // the voucher, and the same while it is loading; owned
};

struct sk_creations {
    const struct sk_core *core;
    uv_timer_t *timer; // a block of its own: libuv frees it later than this goes
    struct creation *first;
    struct sk_uuid_gen keys;
};

static void on_tick(uv_timer_t *timer);

// ---- answering ----

static void tell(struct creation *creation, enum sk_verdict verdict, const char *document)
{
    const struct sk_core *core = creation->creations->core;
    struct sk_outcome outcome = {.verdict = verdict, .document = document, .voucher_id = creation->voucher_id};
    uint64_t ticket = creation->ticket;
    creation->ticket = 0;
    if (sk_verdict_http_status(verdict) == 503)
        outcome.retry_after_ms = RETRY_AFTER_MS;
    if (ticket != 0)
        core->on_outcome(core->arg, ticket, &outcome);
}

static void end(struct creation *creation, enum sk_verdict verdict, const char *document)
{
    struct sk_creations *creations = creation->creations;
    struct creation **link = &creations->first;
    tell(creation, verdict, document);
    while (*link != creation)
        link = &(*link)->next;
    *link = creation->next;
    if (creations->first == NULL)
        (void)uv_timer_stop(creations->timer);
    if (creation->voucher != NULL)
        sk_segment_unpin(creation->voucher);
    free(creation->key);
    free(creation->title);
    free(creation->document);
    free(creation->loading);
    free(creation);
}

// ---- loading ----

static void on_loaded(void *arg, bool ok)
{
    struct creation *creation = arg;
    end(creation, SK_VERDICT_CREATED, ok ? creation->document : creation->loading);
}

static void on_state(void *arg, const struct sk_reply *reply)
{
    const char *state = reply == NULL ? NULL : sk_reply_text(reply, NULL);
    on_loaded(arg, state != NULL && (strcmp(state, "open") == 0 || strcmp(state, "closed") == 0));
}

static void load(struct creation *creation, bool loaded_before)
{
    const struct sk_core *core = creation->creations->core;
    struct sk_segment *voucher = sk_segments_get(core->segments, creation->voucher_id, uv_now(core->loop));
    enum sk_status status = SK_NO_MEM;
    creation->step = LOADING;
    if (voucher != NULL) {
        const char *state[] = {"HGET", voucher->keys.voucher, "state"};
        creation->voucher = voucher;
        sk_segment_pin(voucher);
        sk_admit_forget(voucher); // the id may have been asked for before it existed
        status = loaded_before ? sk_redis_command(core->redis, 3, state, NULL, on_state, creation)
                               : sk_rebuild(core, voucher, on_loaded, creation);
    }
    if (status != SK_OK)
        on_loaded(creation, false);
}

// ---- the row ----

static char *copy(const char *text)
{
    return text == NULL ? NULL : strdup(text);
}

static void on_created(void *arg, const struct sk_result *result)
{
    const struct sk_rows *rows = result->rows;
    struct creation *creation = arg;
    if (result->kind == SK_RESULT_REFUSED) {
        end(creation, SK_VERDICT_INTERNAL, NULL); // the terms were checked: nothing in them should be refused
        return;
    }
    if (rows == NULL && !creation->repeated) {
        creation->step = WAITING; // the link may be gone; the tick asks again
        return;
    }
    if (rows == NULL || sk_rows_count(rows) != 1) {
        end(creation, SK_VERDICT_UNAVAILABLE, NULL);
        return;
    }
    if (strcmp(sk_rows_text(rows, 0, 0), "created") != 0) {
        end(creation, SK_VERDICT_IDEMPOTENCY_KEY_REUSED, NULL);
        return;
    }
    creation->voucher_id = sk_rows_number(rows, 0, 1);
    creation->document = copy(sk_rows_text(rows, 0, 3));
    creation->loading = copy(sk_rows_text(rows, 0, 4));
    if (creation->document == NULL || creation->loading == NULL)
        end(creation, SK_VERDICT_OVERLOADED, NULL);
    else
        load(creation, sk_rows_number(rows, 0, 2) > 0);
}

static void ask(struct creation *creation)
{
    const char *params[] = {creation->key,   creation->title,    creation->price,
                            creation->stock, creation->begin_ms, creation->end_ms};
    creation->step = ASKING;
    enum sk_status status =
        sk_pg_call(creation->creations->core->pg, SK_STATEMENT_CREATE_VOUCHER, 6, params, on_created, creation);
    if (status != SK_OK)
        end(creation, status == SK_DOWN ? SK_VERDICT_UNAVAILABLE : SK_VERDICT_OVERLOADED, NULL);
}

// ---- time ----

static void on_tick(uv_timer_t *timer)
{
    struct sk_creations *creations = timer->data;
    const struct sk_core *core = creations->core;
    uint64_t now = uv_now(core->loop);
    for (struct creation *creation = creations->first, *next; creation != NULL; creation = next) {
        next = creation->next;
        if (creation->step == LOADING && now >= creation->answer_until_ms) {
            tell(creation, SK_VERDICT_CREATED, creation->loading);
        } else if (creation->step == WAITING && now >= creation->ask_until_ms) {
            end(creation, SK_VERDICT_UNAVAILABLE, NULL);
        } else if (creation->step == WAITING && sk_pg_ready(core->pg)) {
            creation->repeated = true;
            ask(creation);
        }
    }
}

// ---- the calls ----

static bool fill(struct creation *creation, const char *key, const struct sk_terms *terms)
{
    struct sk_creations *creations = creation->creations;
    const struct sk_config *config = creations->core->config;
    char own_key[SK_UUID_SIZE];
    uint64_t now = uv_now(creations->core->loop), pg_ms = (uint64_t)config->pg_timeout_ms;
    if (key == NULL)
        sk_uuid_next(&creations->keys, own_key);
    creation->key = strdup(key == NULL ? own_key : key);
    creation->title = strdup(terms->title);
    (void)snprintf(creation->price, NUMBER_SIZE, "%" PRId64, terms->price_cents);
    (void)snprintf(creation->stock, NUMBER_SIZE, "%" PRId64, terms->stock);
    (void)snprintf(creation->begin_ms, NUMBER_SIZE, "%" PRId64, terms->begin_ms);
    (void)snprintf(creation->end_ms, NUMBER_SIZE, "%" PRId64, terms->end_ms);
    creation->ask_until_ms = now + pg_ms;
    creation->answer_until_ms = now + 2 * pg_ms + (uint64_t)config->redis_timeout_ms;
    return creation->key != NULL && creation->title != NULL;
}

void sk_create_voucher(struct sk_creations *creations, const char *key, const struct sk_terms *terms, uint64_t ticket)
{
    struct creation *creation = calloc(1, sizeof *creation);
    if (creation == NULL) {
        struct sk_outcome outcome = {.verdict = SK_VERDICT_OVERLOADED, .retry_after_ms = RETRY_AFTER_MS};
        creations->core->on_outcome(creations->core->arg, ticket, &outcome);
        return;
    }
    creation->creations = creations;
    creation->ticket = ticket;
    creation->next = creations->first;
    creations->first = creation;
    if (!uv_is_active((uv_handle_t *)creations->timer))
        (void)uv_timer_start(creations->timer, on_tick, TICK_MS, TICK_MS);
    if (fill(creation, key, terms))
        ask(creation);
    else
        end(creation, SK_VERDICT_OVERLOADED, NULL);
}

struct sk_creations *sk_creations_open(const struct sk_core *core)
{
    struct sk_creations *creations = calloc(1, sizeof *creations);
    if (creations == NULL)
        return NULL;
    creations->core = core;
    creations->timer = calloc(1, sizeof *creations->timer);
    if (creations->timer == NULL) {
        free(creations);
        return NULL;
    }
    (void)uv_timer_init(core->loop, creations->timer);
    creations->timer->data = creations;
    return creations;
}

static void free_handle(uv_handle_t *handle)
{
    free(handle);
}

void sk_creations_close(struct sk_creations *creations)
{
    if (creations == NULL)
        return;
    // All that are left wait for PostgreSQL to come back.
    for (struct creation *creation = creations->first, *next; creation != NULL; creation = next) {
        next = creation->next;
        end(creation, SK_VERDICT_UNAVAILABLE, NULL);
    }
    uv_close((uv_handle_t *)creations->timer, free_handle);
    free(creations);
}
