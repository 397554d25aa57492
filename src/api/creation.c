// The row decides: once it is committed the answer is 201, whether or not Redis was loaded in time. If not, the audit
// loads it, or the first purchase.
//
//   ASKING   the row is being inserted, or found
//   WAITING  the answer was lost; the tick asks again, which is harmless because every call has a key
//   LOADING  the row is committed; waits for the catalogue, then loads Redis, or asks whether it is loaded
//
// A repeated call never loads a voucher that was loaded before: it may be selling, and loading closes it for a moment.
#include "creation.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "changes.h"
#include "params.h"
#include "phase.h"
#include "slot.h"
#include "slot_map.h"
#include "text.h"
#include "timer.h"
#include "uuid.h"

enum { TICK_MS = 50, LOCATION_SIZE = 64, KEYS_MAX = 64 };

enum creation_step { CREATION_NEW, CREATION_ASKING, CREATION_WAITING, CREATION_LOADING, CREATION_STEPS };

struct creation {
    struct sk_query query;
    enum creation_step step;
    bool repeated;
    bool loaded_before;
    bool waits;               // the watch is rebuilding it: the next tick asks Redis whether that is done
    bool polls;               // the tick has asked Redis
    uint64_t ask_until_ms;    // no second try after it
    uint64_t answer_until_ms; // after it the answer is "loading"
    struct sk_timer *timer;   // owned
    char *key, *by, *title, *currency, *description, *picture; // owned
    char price[SK_PARAM_NUMBER_SIZE], stock[SK_PARAM_NUMBER_SIZE];
    char begin_ms[SK_PARAM_NUMBER_SIZE], end_ms[SK_PARAM_NUMBER_SIZE];
    char user_limit[SK_PARAM_NUMBER_SIZE], pay_within_s[SK_PARAM_NUMBER_SIZE];
    char ticket[SK_PARAM_NUMBER_SIZE], work_bits[SK_PARAM_NUMBER_SIZE];
    int64_t voucher_id, change;
    char *document, *loading; // the voucher, and the same while it is loading; owned
};

static bool creation_fill(struct creation *creation, const char *key, const char *by, const struct sk_terms *terms);
static void creation_start(struct sk_query *query);
static void creation_on_row(void *arg, const struct sk_result *result);
static void creation_follow(struct sk_query *query);
static void creation_on_followed(struct sk_query *query, bool ok);
static enum sk_status creation_ask_state(struct creation *creation);
static void creation_on_state(void *arg, const struct sk_reply *reply);
static void creation_on_loaded(void *arg, bool ok);
static void creation_on_tick(void *arg);
static void creation_release(struct sk_query *query);

static void creation_move(struct creation *creation, enum creation_step step)
{
#define TO(step) (1U << CREATION_##step)
    static const unsigned allowed[CREATION_STEPS] = {
        [CREATION_NEW] = TO(ASKING),
        [CREATION_ASKING] = TO(WAITING) | TO(LOADING),
        [CREATION_WAITING] = TO(ASKING),
    };
#undef TO
    SK_ASSERT((allowed[creation->step] & 1U << step) != 0);
    creation->step = step;
}

void sk_handle_create(const struct sk_context *context, struct sk_request *request)
{
    struct sk_terms terms;
    struct sk_fields read;
    const char *key;
    if (!sk_call_read_key(context, request, &key))
        return;
    struct sk_terms_rules rules = sk_terms_rules(context);
    enum sk_verdict verdict = sk_terms_read(request->body.data, request->body.len, &rules, &terms, &read);
    if (sk_call_body_good(context, request, verdict, &read))
        sk_create_voucher(context->control, key, sk_call_of(request)->by, &terms, request->handle);
    sk_fields_free(&read);
}

void sk_create_voucher(struct sk_control *control, const char *key, const char *by, const struct sk_terms *terms,
                       uint64_t handle)
{
    struct creation *creation = sk_query_new(control, SK_PG_COMMANDS, handle, NULL, sizeof *creation, creation_start);
    if (creation == NULL)
        return;
    creation->query.release = creation_release;
    if (creation_fill(creation, key, by, terms))
        sk_query_start(&creation->query);
    else
        sk_query_end(&creation->query, SK_VERDICT_OVERLOADED, NULL);
}

// A repetition must find the voucher, so its key alone says where a new voucher goes.
static unsigned creation_shard(const struct sk_control *control, const char *key)
{
    return sk_shard_of_slot(sk_slot(key, strlen(key)), control->sale->shard_count);
}

static bool creation_fill(struct creation *creation, const char *key, const char *by, const struct sk_terms *terms)
{
    struct sk_control *control = creation->query.control;
    char own_key[SK_UUID_SIZE];
    uint64_t now = uv_now(control->sale->loop), pg_ms = (uint64_t)control->stores->pg_timeout_ms;
    SK_ASSERT(terms->title != NULL && terms->currency != NULL);
    struct sk_uuid_gen keys = {0};
    for (int i = 0; key == NULL && i < KEYS_MAX; i++) { // one whose shard is there
        sk_uuid_next(&keys, own_key);
        if (sk_pg_ready(control->sale->shards[creation_shard(control, own_key)].queries))
            break;
    }
    creation->key = strdup(key == NULL ? own_key : key);
    creation->query.shard = creation_shard(control, key == NULL ? own_key : key);
    creation->by = strdup(by);
    creation->title = strdup(terms->title);
    creation->currency = strdup(terms->currency);
    bool shown =
        sk_text_copy(&creation->description, terms->description) && sk_text_copy(&creation->picture, terms->picture);
    creation->timer = sk_timer_open(control->sale->loop, TICK_MS, creation_on_tick, creation);
    (void)sk_params_number(creation->price, terms->price_cents);
    (void)sk_params_number(creation->stock, terms->stock);
    (void)sk_params_number(creation->begin_ms, terms->begin_ms);
    (void)sk_params_number(creation->end_ms, terms->end_ms);
    (void)sk_params_number(creation->user_limit, terms->user_limit);
    (void)sk_params_number(creation->pay_within_s, terms->pay_within_s);
    (void)sk_params_number(creation->ticket, terms->ticket);
    (void)sk_params_number(creation->work_bits, terms->work_bits);
    creation->ask_until_ms = now + pg_ms;
    creation->answer_until_ms = now + 2 * pg_ms + (uint64_t)control->stores->redis_timeout_ms;
    return creation->key != NULL && creation->by != NULL && creation->title != NULL && creation->currency != NULL &&
           shown && creation->timer != NULL;
}

// ---- the row ----

static void creation_start(struct sk_query *query)
{
    struct creation *creation = (struct creation *)query;
    const char *params[] = {creation->key,         creation->title,  creation->price,      creation->stock,
                            creation->begin_ms,    creation->end_ms, creation->user_limit, creation->pay_within_s,
                            creation->currency,    creation->by,     creation->ticket,     creation->work_bits,
                            creation->description, creation->picture};
    creation_move(creation, CREATION_ASKING);
    sk_query_ask_pg(query, SK_STATEMENT_CREATE_VOUCHER, sizeof params / sizeof params[0], params, creation_on_row);
}

static void creation_on_row(void *arg, const struct sk_result *result)
{
    struct creation *creation = arg;
    struct sk_query *query = &creation->query;
    const struct sk_rows *rows = result->rows;
    if (result->kind == SK_RESULT_REFUSED) {
        sk_query_end(query, SK_VERDICT_INTERNAL, NULL); // the terms were checked, so none should be refused
        return;
    }
    if (result->kind == SK_RESULT_LOCKED || (rows == NULL && !creation->repeated)) {
        creation->repeated = creation->repeated || result->kind != SK_RESULT_LOCKED;
        creation_move(creation, CREATION_WAITING); // others are creating, or the link may be lost; the tick asks again
        return;
    }
    if (rows == NULL || sk_rows_count(rows) != 1) {
        sk_query_end(query, SK_VERDICT_UNAVAILABLE, NULL);
        return;
    }
    if (strcmp(sk_rows_text(rows, 0, 0), "created") != 0) {
        sk_query_end(query, SK_VERDICT_IDEMPOTENCY_KEY_REUSED, NULL);
        return;
    }
    creation->voucher_id = sk_rows_number(rows, 0, 1);
    creation->loaded_before = sk_rows_number(rows, 0, 2) > 0;
    creation->change = sk_rows_number(rows, 0, 5);
    creation_move(creation, CREATION_LOADING);
    if (!sk_phase_copy(&creation->document, sk_rows_text(rows, 0, 3)) ||
        !sk_phase_copy(&creation->loading, sk_rows_text(rows, 0, 4)))
        sk_query_end(query, SK_VERDICT_OVERLOADED, NULL);
    else
        creation_follow(query);
}

// ---- loading ----

static void creation_follow(struct sk_query *query)
{
    sk_query_follow(query, creation_on_followed);
    sk_follow_hurry(query->control->recovery->follows[query->shard]);
}

static void creation_on_followed(struct sk_query *query, bool ok)
{
    struct creation *creation = (struct creation *)query;
    struct sk_voucher *voucher = ok ? sk_query_find_voucher(query, creation->voucher_id) : NULL;
    enum sk_status status = SK_FAIL;
    if (voucher != NULL && creation->loaded_before)
        status = creation_ask_state(creation);
    else if (voucher != NULL)
        status =
            sk_rebuild(query->control->recovery->rebuilds, voucher, SK_REBUILD_DOUBT, creation_on_loaded, creation);
    creation->waits = status == SK_FULL; // the watch has begun it already
    if (status != SK_OK && !creation->waits)
        creation_on_loaded(creation, false);
}

static enum sk_status creation_ask_state(struct creation *creation)
{
    const struct sk_query *query = &creation->query;
    const char *state[] = {"HGET", query->voucher->keys.voucher, "state"};
    return sk_redis_command(sk_sale_ask_redis(query->control->sale, query->voucher), 3, state, NULL, creation_on_state,
                            creation);
}

static void creation_on_state(void *arg, const struct sk_reply *reply)
{
    struct creation *creation = arg;
    const char *state = reply == NULL ? NULL : sk_reply_text(reply, NULL);
    bool ok = state != NULL && sk_voucher_state_of(state) != SK_VOUCHER_RETIRED;
    creation->waits = !ok && creation->polls && uv_now(creation->query.control->sale->loop) < creation->answer_until_ms;
    creation->polls = false;
    if (!creation->waits)
        creation_on_loaded(creation, ok);
}

static void creation_answer(struct creation *creation, const char *document)
{
    char location[LOCATION_SIZE];
    struct sk_answer answer = {
        .verdict = SK_VERDICT_CREATED, .body = document, .location = location, .version = creation->change};
    (void)snprintf(location, sizeof location, "/vouchers/%" PRId64, creation->voucher_id);
    sk_query_answer(&creation->query, &answer);
}

static void creation_on_loaded(void *arg, bool ok)
{
    struct creation *creation = arg;
    creation_answer(creation, ok ? creation->document : creation->loading);
    sk_query_end(&creation->query, SK_VERDICT_CREATED, NULL);
}

// ---- the tick ----

static void creation_on_tick(void *arg)
{
    struct creation *creation = arg;
    const struct sk_sale *sale = creation->query.control->sale;
    uint64_t now = uv_now(sale->loop);
    if (creation->waits) {
        creation->waits = false;
        creation->polls = true;
        if (now >= creation->answer_until_ms || creation_ask_state(creation) != SK_OK)
            creation_on_loaded(creation, false);
    } else if (creation->step == CREATION_LOADING && now >= creation->answer_until_ms) {
        creation_answer(creation, creation->loading);
    } else if (creation->step == CREATION_WAITING && now >= creation->ask_until_ms) {
        sk_query_end(&creation->query, SK_VERDICT_UNAVAILABLE, NULL);
    } else if (creation->step == CREATION_WAITING && sk_pg_ready(sale->shards[creation->query.shard].queries)) {
        creation_start(&creation->query);
    }
}

static void creation_release(struct sk_query *query)
{
    struct creation *creation = (struct creation *)query;
    sk_timer_close(creation->timer);
    free(creation->key);
    free(creation->by);
    free(creation->title);
    free(creation->currency);
    free(creation->description);
    free(creation->picture);
    free(creation->document);
    free(creation->loading);
}
