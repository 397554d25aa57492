// A change is a command (command.h). Once PostgreSQL has it, Redis is updated:
//
//   ASKING -> CARRYING <-> CARRYING_LATER
//
// Taking units away has more steps. PostgreSQL checks that they may be taken (ASKING), Redis is updated (CARRYING), and
// the units leave Redis (TAKING). Then PostgreSQL takes them (ASKING), under the epoch in which they left Redis, and so
// on as above. If PostgreSQL refuses after that, Redis has too few units: a rebuild restores what PostgreSQL has;
// nothing is added back otherwise. A new epoch in between is such a rebuild already, and the units are taken from Redis
// once more.
#include "operation.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "failpoint.h"
#include "log.h"
#include "params.h"
#include "phase.h"
#include "slot_map.h"
#include "text.h"
#include "voucher_changes.h"

enum { TAKES_MAX = 3 };

// The columns of each statement's result.
enum { COLUMN_OUTCOME, COLUMN_DOCUMENT, COLUMN_CHANGE, COLUMN_STATE, COLUMN_LEFT };

enum operate_step {
    OPERATE_ASKING,         // PostgreSQL
    OPERATE_CARRYING,       // Redis is updated
    OPERATE_CARRYING_LATER, // that was not possible; the tick tries again
    OPERATE_TAKING,         // units leave Redis
    OPERATE_STEPS
};

struct operate {
    struct sk_command command; // must be first
    enum operate_step step;
    bool done; // PostgreSQL has it
    int64_t change;
    char *document; // owned
    // Units to take away; 0: another call.
    int64_t reduce, version;
    char *key, *by; // owned
    bool taken;     // they have left Redis, under this epoch; the statement is remove_units()
    char epoch[SK_PARAM_NUMBER_SIZE];
    unsigned takes; // tries so far
};

static void operate_move(struct operate *operate, enum operate_step step)
{
#define TO(step) (1U << OPERATE_##step)
    static const unsigned allowed[OPERATE_STEPS] = {
        [OPERATE_ASKING] = TO(CARRYING),
        [OPERATE_CARRYING] = TO(CARRYING_LATER) | TO(TAKING),
        [OPERATE_CARRYING_LATER] = TO(CARRYING),
        [OPERATE_TAKING] = TO(ASKING),
    };
#undef TO
    SK_ASSERT((allowed[operate->step] & 1U << step) != 0);
    operate->step = step;
}

// ---- Redis ----

// Redis has too few units. If it cannot be rebuilt now, the audit finds that.
static void operate_mend(struct operate *operate)
{
    struct sk_voucher *voucher = operate->command.query.voucher;
    if (sk_rebuild(operate->command.query.control->recovery->rebuilds, voucher, SK_REBUILD_ORDERED, NULL, NULL) !=
        SK_OK)
        sk_log(SK_LOG_DEBUG, "not rebuilt now", "voucher=%" PRId64, voucher->id);
}

static void operate_answer_done(struct operate *operate)
{
    struct sk_answer answer = {.verdict = SK_VERDICT_FOUND, .body = operate->document, .version = operate->change};
    sk_query_answer(&operate->command.query, &answer);
}

static void operate_end_done(struct operate *operate)
{
    sk_catalogue_sync_hurry(operate->command.query.control->recovery->syncs[operate->command.query.shard]);
    operate_answer_done(operate);
    sk_query_end(&operate->command.query, SK_VERDICT_FOUND, NULL);
}

// Units that have left Redis are worth another try.
static void operate_remove(struct operate *operate)
{
    struct sk_command *command = &operate->command;
    operate_move(operate, OPERATE_ASKING);
    sk_command_again(command, SK_STATEMENT_REMOVE_UNITS);
    sk_command_add_number(command, command->query.voucher->slot);
    sk_command_add_number(command, command->query.voucher->id);
    sk_command_add(command, operate->epoch);
    sk_command_add_number(command, operate->version);
    sk_command_add(command, operate->key);
    sk_command_add(command, operate->by);
    sk_command_add_number(command, operate->reduce);
    command->insists = true;
    sk_command_ask(command);
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
        operate_remove(operate);
    } else if (word != NULL && strcmp(word, "short") == 0 && sk_reply_number(sk_reply_at(reply, 1), &left)) {
        struct sk_answer answer = {.verdict = SK_VERDICT_BELOW_SOLD, .left = left};
        sk_query_end_with(&operate->command.query, &answer);
    } else if (word == NULL) { // it is not known whether they have left, unless their slot is elsewhere
        if (reply == NULL || sk_redirect_of(sk_reply_error(reply)) == SK_REDIRECT_NONE)
            operate_mend(operate);
        sk_query_end(&operate->command.query, SK_VERDICT_UNAVAILABLE, NULL);
    } else {
        sk_query_end(&operate->command.query, SK_VERDICT_LOADING, NULL);
    }
}

static void operate_take(struct operate *operate)
{
    const struct sk_sale *sale = operate->command.query.control->sale;
    const struct sk_voucher *voucher = operate->command.query.voucher;
    operate_move(operate, OPERATE_TAKING);
    operate->takes++;
    if (voucher == NULL) { // it has just been retired
        sk_query_end(&operate->command.query, SK_VERDICT_UNAVAILABLE, NULL);
        return;
    }
    struct sk_redis *redis = sk_sale_ask_redis(sale, voucher);
    char units[SK_PARAM_NUMBER_SIZE];
    const char *argv[] = {voucher->keys.voucher, sk_redis_run(redis), sk_params_number(units, operate->reduce)};
    if (sk_redis_script(redis, SK_SCRIPT_TAKE_UNITS, 1, 3, argv, NULL, operate_on_taken, operate) != SK_OK)
        sk_query_end(&operate->command.query, SK_VERDICT_UNAVAILABLE, NULL);
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

// Redis has no data of a retired voucher.
static void operate_carry(struct operate *operate)
{
    struct sk_voucher *voucher = operate->command.query.voucher;
    operate_move(operate, OPERATE_CARRYING);
    if (voucher == NULL)
        operate_on_carried(operate, true);
    else if (sk_changes_carry_out(operate->command.query.control->sale, voucher, operate_on_carried, operate) != SK_OK)
        operate_move(operate, OPERATE_CARRYING_LATER);
}

// ---- PostgreSQL ----

static void operate_refuse(struct operate *operate, const struct sk_rows *rows)
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
    struct sk_answer answer = {.verdict = SK_VERDICT_INTERNAL};
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        if (strcmp(sk_rows_text(rows, 0, COLUMN_OUTCOME), refusals[i].outcome) == 0)
            answer.verdict = refusals[i].verdict;
    }
    if (answer.verdict == SK_VERDICT_WRONG_STATE)
        answer.status = sk_rows_text(rows, 0, COLUMN_STATE);
    if (answer.verdict == SK_VERDICT_BELOW_SOLD)
        answer.left = sk_rows_number(rows, 0, COLUMN_LEFT);
    if (answer.verdict == SK_VERDICT_INVALID) { // together with what the voucher has
        bool adds = operate->command.statement == SK_STATEMENT_ADD_UNITS;
        answer.member = adds ? "add" : "end_at";
        answer.detail = adds ? "would make it more than 100000000 units" : "must be later than begin_at";
    }
    if (operate->taken)
        operate_mend(operate);
    sk_query_end_with(&operate->command.query, &answer);
}

static void operate_judge(struct sk_command *command, const struct sk_rows *rows)
{
    struct operate *operate = (struct operate *)command;
    const char *outcome = sk_rows_text(rows, 0, COLUMN_OUTCOME);
    bool known = strcmp(outcome, "known") == 0;
    SK_FAILPOINT("operate.committed");
    if (known || strcmp(outcome, "done") == 0) {
        if (known && operate->taken && !command->lost)
            operate_mend(operate); // another call with this key was faster: the units were taken twice
        operate->done = true;
        operate->change = sk_rows_number(rows, 0, COLUMN_CHANGE);
        if (!sk_phase_copy(&operate->document, sk_rows_text(rows, 0, COLUMN_DOCUMENT)))
            sk_query_end(&command->query, SK_VERDICT_OVERLOADED, NULL);
        else
            operate_carry(operate);
    } else if (strcmp(outcome, "ready") == 0 || (strcmp(outcome, "stale") == 0 && operate->takes < TAKES_MAX)) {
        operate->taken = command->lost = false;
        operate_carry(operate);
    } else if (strcmp(outcome, "stale") == 0) {
        sk_query_end(&command->query, SK_VERDICT_LOADING, NULL); // too many rebuilds in a row
    } else {
        operate_refuse(operate, rows);
    }
}

static void operate_on_failure(struct sk_command *command)
{
    struct operate *operate = (struct operate *)command;
    if (operate->taken)
        operate_mend(operate);
}

static void operate_on_tick(struct sk_command *command, bool late)
{
    struct operate *operate = (struct operate *)command;
    if (operate->step == OPERATE_CARRYING_LATER && late && operate->done)
        operate_end_done(operate);
    else if (operate->step == OPERATE_CARRYING_LATER && late)
        sk_query_end(&command->query, SK_VERDICT_LOADING, NULL); // nothing was taken
    else if (operate->step == OPERATE_CARRYING_LATER)
        operate_carry(operate);
    else if (operate->step == OPERATE_CARRYING && late && operate->done)
        operate_answer_done(operate);
}

static void operate_release(struct sk_command *command)
{
    struct operate *operate = (struct operate *)command;
    free(operate->key);
    free(operate->by);
    free(operate->document);
}

static const struct sk_command_kind operate_kind = {operate_judge, operate_on_failure, operate_on_tick,
                                                    operate_release};

// PostgreSQL decides about a retired voucher: the call may be a repetition.
static void operate_on_found(struct sk_query *query, enum sk_found found)
{
    if (found == SK_FOUND_NONE)
        sk_query_end(query, SK_VERDICT_UNKNOWN_VOUCHER, NULL);
    else
        sk_command_ask((struct sk_command *)query);
}

// ---- the calls ----

// Adds the parameters that all statements begin with: voucher, version, key. NULL: the handle was answered.
static struct operate *operate_new(struct sk_control *control, const struct sk_operation *operation,
                                   enum sk_statement statement, uint64_t handle)
{
    struct operate *operate = sk_query_new_about(control, SK_PG_COMMANDS, handle, NULL, sizeof *operate,
                                                 operation->voucher_id, operate_on_found);
    char own_key[SK_UUID_SIZE];
    if (operate == NULL)
        return NULL;
    if (operation->key == NULL)
        sk_uuid_next(&(struct sk_uuid_gen){0}, own_key);
    operate->version = operation->if_match;
    sk_command_open(&operate->command, &operate_kind, statement);
    if (!sk_text_copy(&operate->key, operation->key == NULL ? own_key : operation->key) ||
        !sk_text_copy(&operate->by, operation->by)) {
        sk_query_end(&operate->command.query, SK_VERDICT_OVERLOADED, NULL);
        return NULL;
    }
    sk_command_add_number(&operate->command, operation->voucher_id);
    sk_command_add_number(&operate->command, operation->if_match);
    sk_command_add(&operate->command, operate->key);
    return operate;
}

static bool operate_read(const struct sk_context *context, struct sk_request *request, struct sk_operation *operation)
{
    const struct sk_call *call = sk_call_of(request);
    *operation = (struct sk_operation){.voucher_id = call->voucher_id, .by = call->by, .if_match = call->if_match};
    return sk_call_read_key(context, request, operation->key_room, &operation->key);
}

static void operate_add_term(struct operate *operate, int64_t term)
{
    if (term == SK_TERM_AS_IT_IS)
        sk_command_add(&operate->command, NULL);
    else
        sk_command_add_number(&operate->command, term);
}

void sk_operate_change(struct sk_control *control, const struct sk_operation *operation, const struct sk_terms *terms,
                       uint64_t handle)
{
    struct operate *operate = operate_new(control, operation, SK_STATEMENT_CHANGE_VOUCHER, handle);
    char line[SK_LINE_SIZE];
    if (operate == NULL)
        return;
    struct sk_command *command = &operate->command;
    sk_command_add(command, operation->by);
    sk_command_add(command, terms->title);
    operate_add_term(operate, terms->price_cents);
    sk_command_add(command, terms->currency);
    operate_add_term(operate, terms->begin_ms);
    operate_add_term(operate, terms->end_ms);
    operate_add_term(operate, terms->user_limit);
    operate_add_term(operate, terms->pay_within_s);
    operate_add_term(operate, terms->ticket);
    operate_add_term(operate, terms->work_bits);
    sk_command_add(command, terms->description);
    sk_command_add(command, terms->picture);
    operate_add_term(operate, terms->extend_s);
    operate_add_term(operate, terms->orders_per_user);
    operate_add_term(operate, terms->more_ms);
    sk_command_add(command, sk_terms_line(terms, line));
    sk_command_start(command);
}

void sk_handle_change(const struct sk_context *context, struct sk_request *request)
{
    struct sk_operation operation;
    struct sk_terms terms;
    struct sk_fields read;
    if (!operate_read(context, request, &operation))
        return;
    struct sk_terms_rules rules = sk_terms_rules(context);
    enum sk_verdict verdict = sk_terms_read_change(request->body.data, request->body.len, &rules, &terms, &read);
    if (sk_call_body_good(context, request, verdict, &read))
        sk_operate_change(context->control, &operation, &terms, request->handle);
    sk_fields_free(&read);
}

void sk_operate_state(struct sk_control *control, const struct sk_operation *operation, enum sk_voucher_state state,
                      uint64_t handle)
{
    struct operate *operate = operate_new(control, operation, SK_STATEMENT_SET_VOUCHER_STATE, handle);
    if (operate == NULL)
        return;
    sk_command_add(&operate->command, operation->by);
    sk_command_add(&operate->command, sk_voucher_state_name(state));
    sk_command_start(&operate->command);
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

void sk_operate_stock(struct sk_control *control, const struct sk_operation *operation, int64_t units, uint64_t handle)
{
    bool adds = units > 0;
    struct operate *operate =
        operate_new(control, operation, adds ? SK_STATEMENT_ADD_UNITS : SK_STATEMENT_MAY_REMOVE_UNITS, handle);
    if (operate == NULL)
        return;
    if (adds)
        sk_command_add(&operate->command, operation->by);
    else
        operate->reduce = -units;
    sk_command_add_number(&operate->command, adds ? units : -units);
    sk_command_start(&operate->command);
}

void sk_handle_stock(const struct sk_context *context, struct sk_request *request)
{
    struct sk_operation operation;
    struct sk_fields read;
    int64_t units;
    if (!operate_read(context, request, &operation))
        return;
    enum sk_verdict verdict = sk_terms_read_stock(request->body.data, request->body.len, &units, &read);
    if (sk_call_body_good(context, request, verdict, &read))
        sk_operate_stock(context->control, &operation, units, request->handle);
    sk_fields_free(&read);
}

// ---- reconcile: a rebuild ----

enum { REBUILT_DOCUMENT = 3 }; // a column of find_voucher.sql

static void rebuild_ask(struct sk_query *query, enum sk_statement statement, sk_pg_cb *done)
{
    char id[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {sk_params_number(id, query->finding.id)};
    sk_query_ask_pg(query, statement, 1, params, done);
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

static void rebuild_on_rebuilt(void *arg, bool ok)
{
    struct sk_query *query = arg;
    if (ok)
        rebuild_ask(query, SK_STATEMENT_FIND_VOUCHER, rebuild_on_row);
    else
        sk_query_end(query, SK_VERDICT_LOADING, NULL);
}

static void rebuild_begin(struct sk_query *query, enum sk_found found)
{
    if (found != SK_FOUND_LISTED) {
        sk_query_end(query, SK_VERDICT_UNKNOWN_VOUCHER, NULL);
        return;
    }
    enum sk_status status =
        sk_rebuild(query->control->recovery->rebuilds, query->voucher, SK_REBUILD_ORDERED, rebuild_on_rebuilt, query);
    if (status != SK_OK)
        sk_query_end(query, status == SK_DOWN ? SK_VERDICT_UNAVAILABLE : SK_VERDICT_LOADING, NULL);
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
        sk_query_find_later(query, query->finding.id, rebuild_begin);
}

static void rebuild_on_found(struct sk_query *query, enum sk_found found)
{
    if (found == SK_FOUND_OLD)
        rebuild_ask(query, SK_STATEMENT_RECALL_VOUCHER, rebuild_on_recalled);
    else
        rebuild_begin(query, found);
}

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

// ---- holding expiry ----

struct hold {
    struct sk_query query;
    struct sk_gather gather;
};

static void hold_on_rows(struct sk_query *query, struct sk_gathered *gathered)
{
    size_t shard = 0;
    while (gathered->rows[shard] == NULL) // at least one has answered
        shard++;
    if (!gathered->complete)
        sk_query_end(query, SK_VERDICT_UNAVAILABLE, NULL);
    else if (gathered->counts[shard] == 0)
        sk_query_end(query, SK_VERDICT_UNKNOWN_VOUCHER, NULL);
    else
        sk_query_end(query, SK_VERDICT_FOUND, sk_rows_text(gathered->rows[shard], 0, 0));
}

void sk_operate_expiry(struct sk_control *control, int64_t voucher_id, bool held, const char *by, uint64_t handle)
{
    struct hold *hold = sk_query_new(control, SK_PG_COMMANDS, handle, NULL, sizeof *hold, NULL);
    char voucher[SK_PARAM_NUMBER_SIZE];
    if (hold == NULL)
        return;
    const char *params[] = {voucher_id == 0 ? NULL : sk_params_number(voucher, voucher_id), held ? "1" : "0", by};
    size_t of_voucher = sk_query_shard_of_voucher(&hold->query, voucher_id);
    sk_gather_begin(&hold->gather, &hold->query, hold_on_rows);
    for (size_t i = 0; i < control->sale->shard_count; i++) {
        if (voucher_id == 0 || i == of_voucher)
            sk_gather_ask(&hold->gather, i, SK_STATEMENT_HOLD_EXPIRY, 3, params);
    }
    sk_gather_end(&hold->gather);
}

void sk_handle_hold_expiry(const struct sk_context *context, struct sk_request *request)
{
    const struct sk_call *call = sk_call_of(request);
    sk_operate_expiry(context->control, call->voucher_id, true, call->by, request->handle);
}

void sk_handle_release_expiry(const struct sk_context *context, struct sk_request *request)
{
    const struct sk_call *call = sk_call_of(request);
    sk_operate_expiry(context->control, call->voucher_id, false, call->by, request->handle);
}
