// A change sends one statement to PostgreSQL, again if its answer is lost (the key makes that harmless), and then
// updates Redis:
//
//   ASKING <-> WAITING -> CARRYING <-> CARRYING_LATER
//
// Taking units away has more steps. PostgreSQL checks that they may be taken (ASKING), Redis is updated (CARRYING), and
// the units leave Redis (TAKING). Then PostgreSQL takes them (ASKING), under the epoch in which they left Redis, and so
// on as above. If PostgreSQL refuses after that, Redis has too few units: a rebuild restores what PostgreSQL has;
// nothing is added back otherwise. A new epoch in between is such a rebuild already, and the units are taken from Redis
// once more.
#include "operate.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "changes.h"
#include "clock.h"
#include "cors.h"
#include "failpoint.h"
#include "log.h"
#include "params.h"
#include "phase.h"
#include "slot.h"
#include "slot_map.h"
#include "text.h"
#include "ticket.h"
#include "timer.h"
#include "verdict.h"

enum { TICK_MS = 50, TAKES_MAX = 3, PARAMS_MAX = 15, NUMBERS_MAX = 10, KEYS_MAX = 64 };

// The columns of each statement's result.
enum { COLUMN_OUTCOME, COLUMN_DOCUMENT, COLUMN_CHANGE, COLUMN_STATE, COLUMN_LEFT };

enum operate_step {
    OPERATE_NEW,
    OPERATE_ASKING,         // PostgreSQL
    OPERATE_WAITING,        // the answer was lost, or another call holds the row: the tick asks again
    OPERATE_CARRYING,       // Redis is updated
    OPERATE_CARRYING_LATER, // that was not possible; the tick tries again
    OPERATE_TAKING,         // units leave Redis
    OPERATE_STEPS
};

struct operate {
    struct sk_query query;
    enum operate_step step;
    int64_t reduce;           // units to take away; 0: another call
    bool taken;               // the units have left Redis: the next statement is remove_units()
    bool done;                // PostgreSQL has it
    bool lost;                // an answer to the current statement was lost
    unsigned takes;           // tries so far
    uint64_t ask_until_ms;    // no other try after it
    uint64_t answer_until_ms; // after it a change that is done is answered, whether or not Redis has it
    struct sk_timer *timer;   // owned
    enum sk_statement statement;
    int param_count;
    const char *params[PARAMS_MAX]; // they point into the texts and numbers, as on the next line
    const char *id, *version, *units;
    char numbers[NUMBERS_MAX][SK_PARAM_NUMBER_SIZE];
    int number_count;
    char *key, *by, *title, *currency, *description, *picture, *document; // owned
    int64_t change;
    char epoch[SK_PARAM_NUMBER_SIZE]; // under which the units were taken
};

static struct operate *operate_new(struct sk_control *control, const struct sk_operation *operation, uint64_t handle);
static void operate_begin(struct operate *operate, bool ready);
static void operate_on_found(struct sk_query *query, enum sk_found found);
static void operate_ask(struct operate *operate);
static void operate_on_row(void *arg, const struct sk_result *result);
static void operate_judge(struct operate *operate, const struct sk_rows *rows);
static void operate_refuse(struct operate *operate, enum sk_verdict verdict, const struct sk_rows *rows);
static void operate_end_done(struct operate *operate);
static void operate_carry(struct operate *operate);
static void operate_on_carried(void *arg, bool ok);
static void operate_take(struct operate *operate);
static void operate_on_taken(void *arg, const struct sk_reply *reply);
static void operate_mend(struct operate *operate);
static void operate_on_tick(void *arg);
static void operate_release(struct sk_query *query);
static struct sk_terms_rules terms_rules(const struct sk_context *context);
static enum sk_verdict terms_read_change(const char *body, size_t len, const struct sk_terms_rules *rules,
                                         struct sk_terms *terms, struct sk_fields *read);
static enum sk_verdict terms_read_stock(const char *body, size_t len, int64_t *units, struct sk_fields *read);

static void operate_move(struct operate *operate, enum operate_step step)
{
#define TO(step) (1U << OPERATE_##step)
    static const unsigned allowed[OPERATE_STEPS] = {
        [OPERATE_NEW] = TO(ASKING),
        [OPERATE_ASKING] = TO(WAITING) | TO(CARRYING) | TO(TAKING),
        [OPERATE_WAITING] = TO(ASKING),
        [OPERATE_CARRYING] = TO(CARRYING_LATER) | TO(TAKING),
        [OPERATE_CARRYING_LATER] = TO(CARRYING),
        [OPERATE_TAKING] = TO(ASKING),
    };
#undef TO
    SK_ASSERT((allowed[operate->step] & 1U << step) != 0);
    operate->step = step;
}

// ---- the calls ----

static bool operate_read(const struct sk_context *context, struct sk_request *request, struct sk_operation *operation)
{
    const struct sk_call *call = sk_call_of(request);
    *operation = (struct sk_operation){.voucher_id = call->voucher_id, .by = call->by, .if_match = call->if_match};
    return sk_call_read_key(context, request, &operation->key);
}

void sk_handle_change(const struct sk_context *context, struct sk_request *request)
{
    struct sk_operation operation;
    struct sk_terms terms;
    struct sk_fields read;
    if (!operate_read(context, request, &operation))
        return;
    struct sk_terms_rules rules = terms_rules(context);
    enum sk_verdict verdict = terms_read_change(request->body.data, request->body.len, &rules, &terms, &read);
    if (sk_call_body_good(context, request, verdict, &read))
        sk_operate_change(context->control, &operation, &terms, request->handle);
    sk_fields_free(&read);
}

void sk_handle_stock(const struct sk_context *context, struct sk_request *request)
{
    struct sk_operation operation;
    struct sk_fields read;
    int64_t units;
    if (!operate_read(context, request, &operation))
        return;
    enum sk_verdict verdict = terms_read_stock(request->body.data, request->body.len, &units, &read);
    if (sk_call_body_good(context, request, verdict, &read))
        sk_operate_stock(context->control, &operation, units, request->handle);
    sk_fields_free(&read);
}

static void operate_state(const struct sk_context *context, struct sk_request *request, enum sk_voucher_state state)
{
    struct sk_operation operation;
    if (operate_read(context, request, &operation))
        sk_operate_state(context->control, &operation, state, request->handle);
}

void sk_handle_pause(const struct sk_context *context, struct sk_request *request)
{
    operate_state(context, request, SK_VOUCHER_PAUSED);
}

void sk_handle_resume(const struct sk_context *context, struct sk_request *request)
{
    operate_state(context, request, SK_VOUCHER_OPEN);
}

void sk_handle_close(const struct sk_context *context, struct sk_request *request)
{
    operate_state(context, request, SK_VOUCHER_CLOSED);
}

static const char *operate_add_number(struct operate *operate, int64_t number)
{
    SK_ASSERT(operate->number_count < NUMBERS_MAX && operate->param_count < PARAMS_MAX);
    const char *text = sk_params_number(operate->numbers[operate->number_count++], number);
    return operate->params[operate->param_count++] = text;
}

// `text` NULL: SQL's NULL.
static void operate_add_text(struct operate *operate, const char *text)
{
    SK_ASSERT(operate->param_count < PARAMS_MAX);
    operate->params[operate->param_count++] = text;
}

static void operate_add_term(struct operate *operate, int64_t term)
{
    if (term == SK_TERM_AS_IT_IS)
        operate_add_text(operate, NULL);
    else
        (void)operate_add_number(operate, term);
}

static bool operate_copy(char **copy, const char *text)
{
    *copy = text == NULL ? NULL : strdup(text);
    return text == NULL || *copy != NULL;
}

// Copies a voucher's JSON, with its phase.
static bool operate_copy_voucher(char **copy, const char *voucher)
{
    struct sk_buf text = {0};
    struct sk_phase_span span = sk_phase_span_now();
    if (voucher != NULL)
        sk_phase_put(&text, voucher, &span);
    *copy = text.data;
    return !text.failed;
}

void sk_operate_change(struct sk_control *control, const struct sk_operation *operation, const struct sk_terms *terms,
                       uint64_t handle)
{
    struct operate *operate = operate_new(control, operation, handle);
    if (operate == NULL)
        return;
    bool ready = operate_copy(&operate->title, terms->title) && operate_copy(&operate->currency, terms->currency) &&
                 operate_copy(&operate->description, terms->description) &&
                 operate_copy(&operate->picture, terms->picture);
    operate->statement = SK_STATEMENT_CHANGE_VOUCHER;
    operate_add_text(operate, operate->by);
    operate_add_text(operate, operate->title);
    operate_add_term(operate, terms->price_cents);
    operate_add_text(operate, operate->currency);
    operate_add_term(operate, terms->begin_ms);
    operate_add_term(operate, terms->end_ms);
    operate_add_term(operate, terms->user_limit);
    operate_add_term(operate, terms->pay_within_s);
    operate_add_term(operate, terms->ticket);
    operate_add_term(operate, terms->work_bits);
    operate_add_text(operate, operate->description);
    operate_add_text(operate, operate->picture);
    operate_begin(operate, ready);
}

void sk_operate_state(struct sk_control *control, const struct sk_operation *operation, enum sk_voucher_state state,
                      uint64_t handle)
{
    struct operate *operate = operate_new(control, operation, handle);
    if (operate == NULL)
        return;
    operate->statement = SK_STATEMENT_SET_VOUCHER_STATE;
    operate_add_text(operate, operate->by);
    operate_add_text(operate, sk_voucher_state_name(state));
    operate_begin(operate, true);
}

void sk_operate_stock(struct sk_control *control, const struct sk_operation *operation, int64_t units, uint64_t handle)
{
    struct operate *operate = operate_new(control, operation, handle);
    if (operate == NULL)
        return;
    operate->statement = units > 0 ? SK_STATEMENT_ADD_UNITS : SK_STATEMENT_MAY_REMOVE_UNITS;
    if (units > 0)
        operate_add_text(operate, operate->by);
    else
        operate->reduce = -units;
    operate->units = operate_add_number(operate, units > 0 ? units : -units);
    operate_begin(operate, true);
}

// Adds the parameters that all statements begin with: voucher, version, key. NULL: the handle was answered.
static struct operate *operate_new(struct sk_control *control, const struct sk_operation *operation, uint64_t handle)
{
    struct operate *operate = sk_query_new_about(control, SK_PG_COMMANDS, handle, NULL, sizeof *operate,
                                                 operation->voucher_id, operate_on_found);
    char own_key[SK_UUID_SIZE];
    uint64_t now = uv_now(control->sale->loop), pg_ms = (uint64_t)control->stores->pg_timeout_ms;
    if (operate == NULL)
        return NULL;
    operate->query.release = operate_release;
    operate->ask_until_ms = now + pg_ms;
    operate->answer_until_ms = now + 2 * pg_ms + (uint64_t)control->stores->redis_timeout_ms;
    operate->timer = sk_timer_open(control->sale->loop, TICK_MS, operate_on_tick, operate);
    if (operation->key == NULL)
        sk_uuid_next(&(struct sk_uuid_gen){0}, own_key);
    bool copied = operate_copy(&operate->key, operation->key == NULL ? own_key : operation->key) &&
                  operate_copy(&operate->by, operation->by);
    if (!copied || operate->timer == NULL) {
        sk_query_end(&operate->query, SK_VERDICT_OVERLOADED, NULL);
        return NULL;
    }
    operate->id = operate_add_number(operate, operation->voucher_id);
    operate->version = operate_add_number(operate, operation->if_match);
    operate_add_text(operate, operate->key);
    return operate;
}

static void operate_begin(struct operate *operate, bool ready)
{
    if (ready)
        sk_query_start(&operate->query);
    else
        sk_query_end(&operate->query, SK_VERDICT_OVERLOADED, NULL);
}

// PostgreSQL decides about a retired voucher: the call may be a repetition.
static void operate_on_found(struct sk_query *query, enum sk_found found)
{
    if (found == SK_FOUND_NONE)
        sk_query_end(query, SK_VERDICT_UNKNOWN_VOUCHER, NULL);
    else
        operate_ask((struct operate *)query);
}

// ---- PostgreSQL ----

static void operate_ask(struct operate *operate)
{
    char slot[SK_PARAM_NUMBER_SIZE];
    operate_move(operate, OPERATE_ASKING);
    if (!operate->taken) {
        sk_query_ask_pg(&operate->query, operate->statement, operate->param_count, operate->params, operate_on_row);
        return;
    }
    const char *params[] = {sk_params_number(slot, operate->query.voucher->slot),
                            operate->id,
                            operate->epoch,
                            operate->version,
                            operate->key,
                            operate->by,
                            operate->units};
    // Units that have left Redis are worth another try.
    if (sk_pg_call(operate->query.control->sale->ask_pg[operate->query.shard], SK_STATEMENT_REMOVE_UNITS,
                   sizeof params / sizeof params[0], params, operate_on_row, operate) != SK_OK)
        operate_move(operate, OPERATE_WAITING);
}

static void operate_on_row(void *arg, const struct sk_result *result)
{
    struct operate *operate = arg;
    if (result->rows != NULL && sk_rows_count(result->rows) == 1) {
        SK_FAILPOINT("operate.committed");
        operate_judge(operate, result->rows);
    } else if (result->kind == SK_RESULT_REFUSED || result->rows != NULL) {
        operate_refuse(operate, SK_VERDICT_INTERNAL, NULL); // everything was checked: nothing should be refused
    } else {
        operate->lost = operate->lost || result->kind != SK_RESULT_LOCKED;
        operate_move(operate, OPERATE_WAITING); // the tick asks again
    }
}

static void operate_judge(struct operate *operate, const struct sk_rows *rows)
{
    static const struct {
        const char *outcome;
        enum sk_verdict verdict;
    } refusals[] = {{"reused", SK_VERDICT_IDEMPOTENCY_KEY_REUSED},
                    {"unknown", SK_VERDICT_UNKNOWN_VOUCHER},
                    {"changed", SK_VERDICT_VERSION_CHANGED},
                    {"state", SK_VERDICT_WRONG_STATE},
                    {"started", SK_VERDICT_STARTED},
                    {"invalid", SK_VERDICT_INVALID},
                    {"below", SK_VERDICT_BELOW_SOLD}};
    const char *outcome = sk_rows_text(rows, 0, COLUMN_OUTCOME);
    bool known = strcmp(outcome, "known") == 0;
    if (known || strcmp(outcome, "done") == 0) {
        if (known && operate->taken && !operate->lost)
            operate_mend(operate); // another call with this key was faster: the units were taken twice
        operate->done = true;
        operate->change = sk_rows_number(rows, 0, COLUMN_CHANGE);
        if (!operate_copy_voucher(&operate->document, sk_rows_text(rows, 0, COLUMN_DOCUMENT)))
            sk_query_end(&operate->query, SK_VERDICT_OVERLOADED, NULL);
        else
            operate_carry(operate);
    } else if (strcmp(outcome, "ready") == 0 || (strcmp(outcome, "stale") == 0 && operate->takes < TAKES_MAX)) {
        operate->taken = operate->lost = false;
        operate_carry(operate);
    } else if (strcmp(outcome, "stale") == 0) {
        sk_query_end(&operate->query, SK_VERDICT_LOADING, NULL); // too many rebuilds in a row
    } else {
        enum sk_verdict verdict = SK_VERDICT_INTERNAL;
        for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
            if (strcmp(outcome, refusals[i].outcome) == 0)
                verdict = refusals[i].verdict;
        }
        operate_refuse(operate, verdict, rows);
    }
}

static void operate_refuse(struct operate *operate, enum sk_verdict verdict, const struct sk_rows *rows)
{
    struct sk_answer answer = {.verdict = verdict};
    if (verdict == SK_VERDICT_WRONG_STATE)
        answer.status = sk_rows_text(rows, 0, COLUMN_STATE);
    if (verdict == SK_VERDICT_BELOW_SOLD)
        answer.left = sk_rows_number(rows, 0, COLUMN_LEFT);
    if (verdict == SK_VERDICT_INVALID) { // together with what the voucher has
        bool adds = operate->statement == SK_STATEMENT_ADD_UNITS;
        answer.member = adds ? "add" : "end_at";
        answer.detail = adds ? "would make it more than 100000000 units" : "must be later than begin_at";
    }
    if (operate->taken)
        operate_mend(operate);
    sk_query_end_with(&operate->query, &answer);
}

// ---- Redis ----

static void operate_answer_done(struct operate *operate)
{
    struct sk_answer answer = {.verdict = SK_VERDICT_FOUND, .body = operate->document, .version = operate->change};
    sk_query_answer(&operate->query, &answer);
}

static void operate_end_done(struct operate *operate)
{
    sk_follow_hurry(operate->query.control->recovery->follows[operate->query.shard]);
    operate_answer_done(operate);
    sk_query_end(&operate->query, SK_VERDICT_FOUND, NULL);
}

// Redis has no data of a retired voucher.
static void operate_carry(struct operate *operate)
{
    struct sk_voucher *voucher = operate->query.voucher;
    operate_move(operate, OPERATE_CARRYING);
    if (voucher == NULL)
        operate_on_carried(operate, true);
    else if (sk_changes_carry_out(operate->query.control->sale, voucher, operate_on_carried, operate) != SK_OK)
        operate_move(operate, OPERATE_CARRYING_LATER);
}

static void operate_on_carried(void *arg, bool ok)
{
    struct operate *operate = arg;
    if (!ok)
        operate_move(operate, OPERATE_CARRYING_LATER);
    else if (operate->done)
        operate_end_done(operate);
    else
        operate_take(operate);
}

static void operate_take(struct operate *operate)
{
    const struct sk_sale *sale = operate->query.control->sale;
    const struct sk_voucher *voucher = operate->query.voucher;
    operate_move(operate, OPERATE_TAKING);
    operate->takes++;
    if (voucher == NULL) { // it has just been retired
        sk_query_end(&operate->query, SK_VERDICT_UNAVAILABLE, NULL);
        return;
    }
    struct sk_redis *redis = sk_sale_ask_redis(sale, voucher);
    const char *argv[] = {voucher->keys.voucher, sk_redis_run(redis), operate->units};
    if (sk_redis_script(redis, SK_SCRIPT_TAKE_UNITS, 1, 3, argv, NULL, operate_on_taken, operate) != SK_OK)
        sk_query_end(&operate->query, SK_VERDICT_UNAVAILABLE, NULL);
}

static void operate_on_taken(void *arg, const struct sk_reply *reply)
{
    struct operate *operate = arg;
    const char *word = reply == NULL ? NULL : sk_reply_text(sk_reply_at(reply, 0), NULL);
    const char *epoch = reply == NULL ? NULL : sk_reply_text(sk_reply_at(reply, 2), NULL);
    int64_t left = 0;
    SK_FAILPOINT("operate.taken");
    if (word != NULL && strcmp(word, "taken") == 0 && epoch != NULL) {
        (void)snprintf(operate->epoch, sizeof operate->epoch, "%s", epoch);
        operate->taken = true;
        operate->lost = false;
        operate_ask(operate);
    } else if (word != NULL && strcmp(word, "short") == 0 && sk_reply_number(sk_reply_at(reply, 1), &left)) {
        struct sk_answer answer = {.verdict = SK_VERDICT_BELOW_SOLD, .left = left};
        sk_query_end_with(&operate->query, &answer);
    } else if (word == NULL) { // it is not known whether they have left, unless their slot is elsewhere
        if (reply == NULL || sk_redirect_of(sk_reply_error(reply)) == SK_REDIRECT_NONE)
            operate_mend(operate);
        sk_query_end(&operate->query, SK_VERDICT_UNAVAILABLE, NULL);
    } else {
        sk_query_end(&operate->query, SK_VERDICT_LOADING, NULL);
    }
}

// Redis has too few units. If it cannot be rebuilt now, the audit finds that.
static void operate_mend(struct operate *operate)
{
    struct sk_voucher *voucher = operate->query.voucher;
    if (sk_rebuild(operate->query.control->recovery->rebuilds, voucher, SK_REBUILD_ORDERED, NULL, NULL) != SK_OK)
        sk_log(SK_LOG_DEBUG, "not rebuilt now", "voucher=%" PRId64, voucher->id);
}

// ---- the tick ----

static void operate_on_tick(void *arg)
{
    struct operate *operate = arg;
    const struct sk_sale *sale = operate->query.control->sale;
    uint64_t now = uv_now(sale->loop);
    bool late = now >= operate->answer_until_ms;
    if (operate->step == OPERATE_WAITING && now >= operate->ask_until_ms) {
        if (operate->taken)
            operate_mend(operate);
        sk_query_end(&operate->query, SK_VERDICT_UNAVAILABLE, NULL);
    } else if (operate->step == OPERATE_WAITING && sk_pg_ready(sale->ask_pg[operate->query.shard])) {
        operate_ask(operate);
    } else if (operate->step == OPERATE_CARRYING_LATER && late && operate->done) {
        operate_end_done(operate);
    } else if (operate->step == OPERATE_CARRYING_LATER && late) {
        sk_query_end(&operate->query, SK_VERDICT_LOADING, NULL); // nothing was taken
    } else if (operate->step == OPERATE_CARRYING_LATER) {
        operate_carry(operate);
    } else if (operate->step == OPERATE_CARRYING && late && operate->done) {
        operate_answer_done(operate);
    }
}

static void operate_release(struct sk_query *query)
{
    struct operate *operate = (struct operate *)query;
    sk_timer_close(operate->timer);
    free(operate->key);
    free(operate->by);
    free(operate->title);
    free(operate->currency);
    free(operate->description);
    free(operate->picture);
    free(operate->document);
}

// ---- reconcile: a rebuild ----

enum { REBUILT_DOCUMENT = 3 }; // a column of find_voucher.sql

static void rebuild_on_found(struct sk_query *query, enum sk_found found);
static void rebuild_on_recalled(void *arg, const struct sk_result *result);
static void rebuild_on_found_again(struct sk_query *query, enum sk_found found);
static void rebuild_begin(struct sk_query *query);
static void rebuild_on_rebuilt(void *arg, bool ok);
static void rebuild_on_row(void *arg, const struct sk_result *result);

void sk_operate_rebuild(struct sk_control *control, int64_t voucher_id, uint64_t handle)
{
    struct sk_query *query =
        sk_query_new_about(control, SK_PG_COMMANDS, handle, NULL, sizeof *query, voucher_id, rebuild_on_found);
    if (query != NULL)
        sk_query_start(query);
}

void sk_handle_rebuild(const struct sk_context *context, struct sk_request *request)
{
    sk_operate_rebuild(context->control, sk_call_of(request)->voucher_id, request->handle);
}

static void rebuild_ask(struct sk_query *query, enum sk_statement statement, sk_pg_cb *done)
{
    char id[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {sk_params_number(id, query->finding.id)};
    sk_query_ask_pg(query, statement, 1, params, done);
}

static void rebuild_on_found(struct sk_query *query, enum sk_found found)
{
    if (found == SK_FOUND_LISTED)
        rebuild_begin(query);
    else if (found == SK_FOUND_OLD)
        rebuild_ask(query, SK_STATEMENT_RECALL_VOUCHER, rebuild_on_recalled);
    else
        sk_query_end(query, SK_VERDICT_UNKNOWN_VOUCHER, NULL);
}

static void rebuild_on_recalled(void *arg, const struct sk_result *result)
{
    struct sk_query *query = arg;
    const char *end = result->rows == NULL ? NULL : sk_rows_text(result->rows, 0, 0);
    if (end == NULL)
        sk_query_end(query, SK_VERDICT_UNAVAILABLE, NULL);
    else if (strcmp(end, "archived") == 0)
        sk_query_end(query, SK_VERDICT_ARCHIVED, NULL);
    else
        sk_query_find_later(query, query->finding.id, rebuild_on_found_again);
}

static void rebuild_on_found_again(struct sk_query *query, enum sk_found found)
{
    if (found == SK_FOUND_LISTED)
        rebuild_begin(query);
    else
        sk_query_end(query, SK_VERDICT_UNKNOWN_VOUCHER, NULL);
}

static void rebuild_begin(struct sk_query *query)
{
    enum sk_status status =
        sk_rebuild(query->control->recovery->rebuilds, query->voucher, SK_REBUILD_ORDERED, rebuild_on_rebuilt, query);
    if (status != SK_OK)
        sk_query_end(query, status == SK_DOWN ? SK_VERDICT_UNAVAILABLE : SK_VERDICT_LOADING, NULL);
}

static void rebuild_on_rebuilt(void *arg, bool ok)
{
    struct sk_query *query = arg;
    if (ok)
        rebuild_ask(query, SK_STATEMENT_FIND_VOUCHER, rebuild_on_row);
    else
        sk_query_end(query, SK_VERDICT_LOADING, NULL);
}

static void rebuild_on_row(void *arg, const struct sk_result *result)
{
    struct sk_query *query = arg;
    struct sk_phase_span span = sk_phase_span_now();
    if (result->rows == NULL || sk_rows_count(result->rows) == 0) {
        sk_query_end(query, result->rows == NULL ? SK_VERDICT_UNAVAILABLE : SK_VERDICT_UNKNOWN_VOUCHER, NULL);
        return;
    }
    sk_phase_put(&query->body, sk_rows_text(result->rows, 0, REBUILT_DOCUMENT), &span);
    sk_query_end(query, SK_VERDICT_FOUND, query->body.data);
}

// ---- creating a voucher ----
//
// The row decides: once it is committed the answer is 201, whether or not Redis was loaded in time. If not, the audit
// loads it, or the first purchase.
//
//   ASKING   the row is being inserted, or found
//   WAITING  the answer was lost; the tick asks again, which is harmless because every call has a key
//   LOADING  the row is committed; waits for the catalogue, then loads Redis, or asks whether it is loaded
//
// A repeated call never loads a voucher that was loaded before: it may be selling, and loading closes it for a moment.

enum { LOCATION_SIZE = 64 };

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
    struct sk_terms_rules rules = terms_rules(context);
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
    return sk_shard_of_slot(sk_slot(key, strlen(key)), control->sale->shards);
}

static bool creation_fill(struct creation *creation, const char *key, const char *by, const struct sk_terms *terms)
{
    struct sk_control *control = creation->query.control;
    char own_key[SK_UUID_SIZE];
    uint64_t now = uv_now(control->sale->loop), pg_ms = (uint64_t)control->stores->pg_timeout_ms;
    SK_ASSERT(terms->title != NULL && terms->currency != NULL);
    for (int i = 0; key == NULL && i < KEYS_MAX; i++) { // one whose shard is there
        sk_uuid_next(&(struct sk_uuid_gen){0}, own_key);
        if (sk_pg_ready(control->sale->ask_pg[creation_shard(control, own_key)]))
            break;
    }
    creation->key = strdup(key == NULL ? own_key : key);
    creation->query.shard = creation_shard(control, key == NULL ? own_key : key);
    creation->by = strdup(by);
    creation->title = strdup(terms->title);
    creation->currency = strdup(terms->currency);
    bool shown =
        operate_copy(&creation->description, terms->description) && operate_copy(&creation->picture, terms->picture);
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
    if (!operate_copy_voucher(&creation->document, sk_rows_text(rows, 0, 3)) ||
        !operate_copy_voucher(&creation->loading, sk_rows_text(rows, 0, 4)))
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
    } else if (creation->step == CREATION_WAITING && sk_pg_ready(sale->ask_pg[creation->query.shard])) {
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

// ---- bodies ----
//
// Names, types and bounds of the members.

enum {
    TITLE_MAX_BYTES = 200,
    DESCRIPTION_MAX_BYTES = 1000,
    STOCK_MAX = 100000000,
    LIMIT_MAX = 1000,
    PAY_WITHIN_MAX_S = 31536000,
    CURRENCY_LEN = 3,
    WORK_BITS_MAX = 24
};
enum { LIMIT_DEFAULT = 1, PAY_WITHIN_DEFAULT_S = 900 };
static const char currency_default[] = "CNY";
static const int64_t price_max_cents = INT64_C(100000000000);

enum member {
    TITLE,
    DESCRIPTION,
    PICTURE,
    STOCK,
    PRICE,
    BEGIN_AT,
    END_AT,
    LIMIT,
    PAY_WITHIN,
    CURRENCY,
    TICKET,
    WORK_BITS,
    ALLOW_PAST,
    MEMBERS
};

// The money of ISO 4217 that is in use: no funds, metals, bonds or test codes. Only new terms are checked, so what is
// taken from this list stays on older vouchers. clients/web/money.js has the same with the digits of each.
static const char currencies[] = "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BHD BIF BMD BND BOB BRL BSD BTN "
                                 "BWP BYN BZD CAD CDF CHF CLP CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB "
                                 "EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HTG HUF IDR ILS INR IQD IRR "
                                 "ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD "
                                 "MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR "
                                 "PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE "
                                 "SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD UYU "
                                 "UZS VED VES VND VUV WST XAF XCD XCG XOF XPF YER ZAR ZMW ZWG";

static const struct sk_field members[MEMBERS] = {
    [TITLE] = {.name = "title", .detail = "must be a string of 1 to 200 bytes"},
    [DESCRIPTION] = {.name = "description", .detail = "must be a string of up to 1000 bytes", .optional = true},
    [PICTURE] = {.name = "picture",
                 .detail = "must be a URL of an origin of SECKILL_PICTURE_ORIGINS, or empty",
                 .optional = true},
    [STOCK] = {.name = "stock", .detail = "must be an integer from 0 to 100000000"},
    [PRICE] = {.name = "price_cents", .detail = "must be an integer from 0 to 100000000000"},
    [BEGIN_AT] = {.name = "begin_at", .detail = SK_TIME_DETAIL},
    [END_AT] = {.name = "end_at", .detail = SK_TIME_DETAIL},
    [LIMIT] = {.name = "limit", .detail = "must be an integer from 1 to 1000", .optional = true},
    [PAY_WITHIN] = {.name = "pay_within_s", .detail = "must be an integer from 0 to 31536000", .optional = true},
    [CURRENCY] = {.name = "currency", .detail = "must be a currency of ISO 4217, such as CNY", .optional = true},
    [TICKET] = {.name = "ticket", .detail = "must be true or false", .optional = true},
    [WORK_BITS] = {.name = "work_bits", .detail = "must be an integer from 0 to 24", .optional = true},
    [ALLOW_PAST] = {.name = "allow_past", .detail = "must be true or false", .optional = true},
};

static void terms_check(const json_t *const values[MEMBERS], const struct sk_terms_rules *rules, struct sk_terms *terms,
                        struct sk_fields *read);
static bool terms_read_time(const json_t *value, int64_t *out);
static bool terms_read_currency(const json_t *value, const char **out);
static bool terms_read_picture(const json_t *value, const struct sk_cors *origins, const char **out);
static bool terms_read_flag(const json_t *value, int64_t *out);

static struct sk_terms_rules terms_rules(const struct sk_context *context)
{
    return (struct sk_terms_rules){.tickets = sk_tickets_on(context->tickets), .pictures = context->pictures};
}

enum sk_verdict sk_terms_read(const char *body, size_t len, const struct sk_terms_rules *rules, struct sk_terms *terms,
                              struct sk_fields *read)
{
    const json_t *values[MEMBERS];
    *terms = (struct sk_terms){0};
    if (sk_fields_open(read, body, len, members, MEMBERS, values)) {
        terms_check(values, rules, terms, read);
        if (values[LIMIT] == NULL)
            terms->user_limit = LIMIT_DEFAULT;
        if (values[PAY_WITHIN] == NULL)
            terms->pay_within_s = terms->price_cents == 0 ? 0 : PAY_WITHIN_DEFAULT_S; // nothing is to be paid
        if (values[CURRENCY] == NULL)
            terms->currency = currency_default;
    }
    return sk_fields_end(read);
}

// Any of the terms except the stock. A missing one is NULL or SK_TERM_AS_IT_IS.
static enum sk_verdict terms_read_change(const char *body, size_t len, const struct sk_terms_rules *rules,
                                         struct sk_terms *terms, struct sk_fields *read)
{
    struct sk_field optional[MEMBERS];
    const json_t *values[MEMBERS];
    *terms = (struct sk_terms){0};
    for (int i = 0; i < MEMBERS; i++) {
        optional[i] = members[i];
        optional[i].optional = true;
    }
    if (sk_fields_open(read, body, len, optional, MEMBERS, values)) {
        terms_check(values, rules, terms, read);
        int64_t *const numbers[MEMBERS] = {
            [STOCK] = &terms->stock,   [PRICE] = &terms->price_cents,  [BEGIN_AT] = &terms->begin_ms,
            [END_AT] = &terms->end_ms, [LIMIT] = &terms->user_limit,   [PAY_WITHIN] = &terms->pay_within_s,
            [TICKET] = &terms->ticket, [WORK_BITS] = &terms->work_bits};
        for (int i = 0; i < MEMBERS; i++) {
            if (values[i] == NULL && numbers[i] != NULL)
                *numbers[i] = SK_TERM_AS_IT_IS;
        }
        if (values[STOCK] != NULL)
            sk_fields_refuse(read, members[STOCK].name, "is not changed here but by POST /admin/vouchers/{id}/stock");
    }
    return sk_fields_end(read);
}

// A missing required member is listed already.
static void terms_check(const json_t *const values[MEMBERS], const struct sk_terms_rules *rules, struct sk_terms *terms,
                        struct sk_fields *read)
{
    int64_t allow_past;
    const bool good[MEMBERS] = {
        [TITLE] = sk_fields_text(values[TITLE], 1, TITLE_MAX_BYTES, &terms->title),
        [DESCRIPTION] = sk_fields_text(values[DESCRIPTION], 0, DESCRIPTION_MAX_BYTES, &terms->description),
        [PICTURE] = terms_read_picture(values[PICTURE], rules->pictures, &terms->picture),
        [STOCK] = sk_fields_integer(values[STOCK], 0, STOCK_MAX, &terms->stock),
        [PRICE] = sk_fields_integer(values[PRICE], 0, price_max_cents, &terms->price_cents),
        [BEGIN_AT] = terms_read_time(values[BEGIN_AT], &terms->begin_ms),
        [END_AT] = terms_read_time(values[END_AT], &terms->end_ms),
        [LIMIT] = sk_fields_integer(values[LIMIT], 1, LIMIT_MAX, &terms->user_limit),
        [PAY_WITHIN] = sk_fields_integer(values[PAY_WITHIN], 0, PAY_WITHIN_MAX_S, &terms->pay_within_s),
        [CURRENCY] = terms_read_currency(values[CURRENCY], &terms->currency),
        [TICKET] = terms_read_flag(values[TICKET], &terms->ticket),
        [WORK_BITS] = sk_fields_integer(values[WORK_BITS], 0, WORK_BITS_MAX, &terms->work_bits),
        [ALLOW_PAST] = terms_read_flag(values[ALLOW_PAST], &allow_past),
    };
    for (int i = 0; i < MEMBERS; i++)
        sk_fields_check(read, &members[i], values[i], good[i]);
    if (good[TICKET] && terms->ticket != 0 && !rules->tickets)
        sk_fields_refuse(read, members[TICKET].name, "needs SECKILL_TICKET_SECRET, which this instance does not have");
    if (good[BEGIN_AT] && good[END_AT] && terms->begin_ms >= terms->end_ms)
        sk_fields_refuse(read, members[END_AT].name, "must be later than begin_at");
    else if (good[END_AT] && allow_past == 0 && terms->end_ms <= (int64_t)sk_wall_ms())
        sk_fields_refuse(read, members[END_AT].name, "is in the past, which needs allow_past");
}

static bool terms_read_time(const json_t *value, int64_t *out)
{
    return json_is_string(value) && sk_text_time(json_string_value(value), out);
}

static bool terms_read_currency(const json_t *value, const char **out)
{
    return sk_fields_text(value, CURRENCY_LEN, CURRENCY_LEN, out) && strchr(*out, ' ') == NULL &&
           strstr(currencies, *out) != NULL;
}

static bool terms_read_picture(const json_t *value, const struct sk_cors *origins, const char **out)
{
    return sk_fields_text(value, 0, SK_URL_MAX, out) &&
           ((*out)[0] == '\0' || (sk_text_url(*out) && sk_cors_has_url(origins, *out)));
}

static bool terms_read_flag(const json_t *value, int64_t *out)
{
    *out = json_is_true(value);
    return json_is_boolean(value);
}

// ---- stock ----

enum { ADD, REDUCE, STOCK_MEMBERS };

static const struct sk_field stock_members[STOCK_MEMBERS] = {
    [ADD] = {.name = "add", .detail = "must be an integer from 1 to 100000000", .optional = true},
    [REDUCE] = {.name = "reduce", .detail = "must be an integer from 1 to 100000000", .optional = true},
};

// {"add": n} or {"reduce": n}: n, or -n.
static enum sk_verdict terms_read_stock(const char *body, size_t len, int64_t *units, struct sk_fields *read)
{
    const json_t *values[STOCK_MEMBERS];
    *units = 0;
    if (sk_fields_open(read, body, len, stock_members, STOCK_MEMBERS, values)) {
        for (int i = 0; i < STOCK_MEMBERS; i++) {
            int64_t n;
            if (values[i] != NULL && sk_fields_integer(values[i], 1, STOCK_MAX, &n))
                *units = i == ADD ? n : -n;
            else if (values[i] != NULL)
                sk_fields_refuse(read, stock_members[i].name, stock_members[i].detail);
        }
        if ((values[ADD] == NULL) == (values[REDUCE] == NULL))
            sk_fields_refuse(read, stock_members[ADD].name, "or reduce must be there, one of the two");
    }
    return sk_fields_end(read);
}
