// A voucher that is not in the catalogue is newer than it, retired, or made up. If it is retired, PostgreSQL knows its
// winners: a winner who repeats gets the same answer (P6), all others get ENDED. Once its orders are archived, the
// answer is ARCHIVED for all.
#include "purchase.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "call.h"
#include "catalogue.h"
#include "hash.h"
#include "order_lookup.h"
#include "params.h"
#include "prefer.h"
#include "text.h"
#include "ticket_calls.h"
#include "verdict.h"

enum { COLUMN_STATE = 0, COLUMN_ORDER = 1 };
enum { PREFER_FIELDS_MAX = 8, MS_PER_S = 1000 };

struct late_purchase {
    struct sk_query query;
    struct sk_wish wish;
    char user[SK_USER_SIZE]; // wish.user
};

// ---- into the sale ----

static void purchase_on_retired(void *arg, const struct sk_result *result)
{
    struct sk_query *query = arg;
    struct sk_answer answer = {.verdict = SK_VERDICT_ENDED};
    const char *state = NULL;
    if (result->rows == NULL) {
        sk_query_end(query, SK_VERDICT_UNAVAILABLE, NULL);
        return;
    }
    if (sk_rows_count(result->rows) == 1) {
        state = sk_rows_text(result->rows, 0, COLUMN_STATE);
        answer.order_id = sk_rows_text(result->rows, 0, COLUMN_ORDER);
    }
    bool archived = state != NULL && strcmp(state, "archived") == 0;
    if (state == NULL)
        answer.verdict = SK_VERDICT_UNKNOWN_VOUCHER;
    else if (!archived && strcmp(state, "retired") != 0)
        answer.verdict = SK_VERDICT_LOADING; // reloaded a moment ago
    else if (answer.order_id != NULL)
        answer.verdict = SK_VERDICT_ALREADY_ORDERED;
    else if (archived)
        answer.verdict = SK_VERDICT_ARCHIVED;
    if (answer.verdict == SK_VERDICT_ALREADY_ORDERED)
        answer.voucher_id = ((struct late_purchase *)query)->wish.voucher_id;
    sk_query_end_with(query, &answer);
}

static void purchase_on_found(struct sk_query *query, enum sk_found found)
{
    struct late_purchase *late = (struct late_purchase *)query;
    struct sk_purchase_result result;
    if (found == SK_FOUND_OLD) {
        char id[SK_PARAM_NUMBER_SIZE];
        const char *params[] = {sk_params_number(id, late->wish.voucher_id), late->user};
        sk_query_ask_pg(query, SK_STATEMENT_FIND_RETIRED, 2, params, purchase_on_retired);
        return;
    }
    if (found == SK_FOUND_LISTED) {
        const struct sk_sale *sale = query->control->sale;
        uint64_t handle = sk_query_take_handle(query);
        bool refused = !sk_sale_buy(sale, query->voucher, &late->wish, handle, &result);
        sk_query_end(query, SK_VERDICT_FOUND, NULL);
        if (refused)
            sale->on_result(sale->arg, handle, &result);
        return;
    }
    sk_query_end(query, SK_VERDICT_UNKNOWN_VOUCHER, NULL);
}

static void purchase_start(struct sk_query *query)
{
    sk_query_find_later(query, ((struct late_purchase *)query)->wish.voucher_id, purchase_on_found);
}

bool sk_purchase(struct sk_control *control, const struct sk_wish *wish, uint64_t handle,
                 struct sk_purchase_result *result)
{
    const struct sk_sale *sale = control->sale;
    struct sk_voucher *voucher = sk_catalogue_find(sale->catalogue, wish->voucher_id);
    if (voucher != NULL)
        return sk_sale_buy(sale, voucher, wish, handle, result);
    bool away = sk_nodes_state(sale->nodes).orders == 0;
    struct late_purchase *late = away ? NULL : sk_query_try_new(control, handle, sizeof *late, purchase_start);
    *result = (struct sk_purchase_result){.code = away ? SK_PURCHASE_UNAVAILABLE : SK_PURCHASE_OVERLOADED};
    if (late == NULL)
        return false;
    late->wish = *wish;
    (void)snprintf(late->user, sizeof late->user, "%s", wish->user);
    late->wish.user = late->user;
    sk_query_start(&late->query);
    return true;
}

// ---- the answer ----

static void purchase_answer_order(const struct sk_context *context, struct sk_request *request,
                                  const struct sk_purchase_result *result)
{
    const struct sk_call *call = sk_call_of(request);
    enum sk_purchase_code code = result->code;
    const struct sk_order_shown order = {.id = result->order_id,
                                         .user = call->user,
                                         .voucher_id = call->voucher_id,
                                         .quantity = call->quantity,
                                         .status = code == SK_PURCHASE_ACCEPTED  ? "pending"
                                                   : code == SK_PURCHASE_WAITING ? "waiting"
                                                                                 : "unpaid",
                                         .price = result->price,
                                         .created_ms = result->created_ms,
                                         .expires_ms = result->expires_ms,
                                         .waits = code == SK_PURCHASE_WAITING,
                                         .place = result->left};
    sk_answer_order(context->answers, request, sk_verdict_of_purchase(code), &order, call->respond_async);
}

static void purchase_on_first_order(const struct sk_context *context, struct sk_request *request,
                                    const struct sk_answer *answer)
{
    if (answer->verdict == SK_VERDICT_FOUND)
        sk_answer_repeated(context->answers, request, sk_call_of(request)->order_id, answer);
    else
        sk_answer_send(context->answers, request, answer);
}

// 201 again if the order is committed, and replicated as each commit must be; else 202.
static void purchase_answer_again(const struct sk_context *context, struct sk_request *request, const char *order_id)
{
    struct sk_call *call = sk_call_of(request);
    (void)snprintf(call->order_id, sizeof call->order_id, "%s", order_id);
    call->on_answer = purchase_on_first_order;
    sk_order_lookup(context->control, SK_LOOKUP_FOR_REPEAT, call->order_id, call->user, request->handle);
}

static void purchase_answer(const struct sk_context *context, struct sk_request *request,
                            const struct sk_purchase_result *result)
{
    enum sk_purchase_code code = result->code;
    char detail[64];
    if (code == SK_PURCHASE_PLACED || code == SK_PURCHASE_ACCEPTED || code == SK_PURCHASE_WAITING) {
        purchase_answer_order(context, request, result);
    } else if (result->repeats) {
        purchase_answer_again(context, request, result->order_id);
    } else if (result->order_id == NULL && result->retry_after_ms == 0 && code != SK_PURCHASE_NOT_ENOUGH &&
               code != SK_PURCHASE_INVALID) { // nearly all are as SOLD_OUT: without a word of their own
        sk_answer_refusal(context->answers, request, sk_verdict_of_purchase(code));
    } else {
        struct sk_answer answer = {.verdict = sk_verdict_of_purchase(code),
                                   .order_id = result->order_id,
                                   .voucher_id = result->voucher_id,
                                   .left = result->left,
                                   .retry_after_ms = result->retry_after_ms};
        if (code == SK_PURCHASE_INVALID) { // the quantity is above the voucher's limit
            (void)snprintf(detail, sizeof detail, "must be an integer from 1 to %" PRId64, result->left);
            answer.member = "quantity";
            answer.detail = detail;
        }
        if (code == SK_PURCHASE_ALREADY_ORDERED && answer.voucher_id == 0)
            answer.voucher_id = sk_call_of(request)->voucher_id;
        sk_answer_send(context->answers, request, &answer);
    }
}

static void purchase_on_expired(const struct sk_context *context, struct sk_request *request)
{
    const struct sk_purchase_result accepted = {.code = SK_PURCHASE_ACCEPTED,
                                                .order_id = sk_call_of(request)->order_id};
    purchase_answer_order(context, request, &accepted);
}

void sk_purchase_on_result(const struct sk_context *context, struct sk_request *request,
                           const struct sk_purchase_result *result)
{
    struct sk_call *call = sk_call_of(request);
    if (result->code == SK_PURCHASE_ACCEPTED) {
        size_t len = strnlen(result->order_id, SK_UUID_CHARS);
        memcpy(call->order_id, result->order_id, len); // without printf: every winner comes here
        call->order_id[len] = '\0';
        call->on_expired = purchase_on_expired;
        if (!call->respond_async) { // the commit or the deadline answers
            uint64_t wait_ms = (uint64_t)call->wait_s * MS_PER_S;
            if (wait_ms > 0 && wait_ms < (uint64_t)context->options->api->confirm_timeout_ms)
                sk_request_extend(request, wait_ms);
            return;
        }
    }
    purchase_answer(context, request, result);
}

// ---- the call ----

// The fingerprint of a key; never 0.
static uint64_t purchase_fingerprint(const char *key)
{
    uint64_t hash = sk_hash(key, strlen(key));
    return hash == 0 ? 1 : hash;
}

enum { QUANTITY, WAIT, MEMBERS };

// False: the request was answered.
static bool purchase_read_body(const struct sk_context *context, struct sk_request *request)
{
    static const struct sk_field members[MEMBERS] = {
        [QUANTITY] = {.name = "quantity", .detail = "must be an integer from 1 to the limit", .optional = true},
        [WAIT] = {.name = "wait", .detail = "must be true or false", .optional = true}};
    struct sk_call *call = sk_call_of(request);
    struct sk_fields read;
    const json_t *values[MEMBERS];
    int64_t quantity = 1;
    enum sk_verdict verdict = sk_call_body_type(request);
    if (verdict != SK_VERDICT_OK) {
        sk_answer_refusal(context->answers, request, verdict);
        return false;
    }
    if (sk_fields_open(&read, request->body.data, request->body.len, members, MEMBERS, values)) {
        if (values[QUANTITY] != NULL)
            sk_fields_check(&read, &members[QUANTITY], values[QUANTITY],
                            sk_fields_integer(values[QUANTITY], 1, SK_QUANTITY_MAX, &quantity));
        sk_fields_check(&read, &members[WAIT], values[WAIT], json_is_boolean(values[WAIT]));
        if (json_is_true(values[WAIT]) && quantity != 1)
            sk_fields_refuse(&read, members[QUANTITY].name, "must be 1 with wait");
    }
    verdict = sk_fields_end(&read);
    bool good = sk_call_body_good(context, request, verdict, &read);
    if (good) {
        call->quantity = (uint16_t)quantity;
        call->waits = json_is_true(values[WAIT]);
    }
    sk_fields_free(&read);
    return good;
}

// `wait` shortens the wait for the commit; with 0 there is none. The last field counts.
static void purchase_read_preferences(struct sk_request *request)
{
    struct sk_call *call = sk_call_of(request);
    const char *values[PREFER_FIELDS_MAX];
    size_t count = sk_request_header_values(request, "prefer", values, PREFER_FIELDS_MAX);
    for (size_t i = 0; i < count; i++) {
        unsigned wait_s = 0;
        bool waits = sk_prefer_wait(values[i], &wait_s);
        call->respond_async = call->respond_async || sk_prefer_async(values[i]) || (waits && wait_s == 0);
        call->wait_s = waits ? wait_s : call->wait_s;
    }
}

void sk_handle_buy(const struct sk_context *context, struct sk_request *request)
{
    struct sk_call *call = sk_call_of(request);
    struct sk_purchase_result result;
    char room[SK_REQUEST_KEY_SIZE];
    const char *key;
    if (SK_REQUEST_MAY_HAVE(request, "prefer"))
        purchase_read_preferences(request);
    call->quantity = 1;
    if (context->draining) {
        sk_answer_refusal(context->answers, request, SK_VERDICT_SHUTTING_DOWN);
    } else if (sk_call_read_key(context, request, room, &key) &&
               (request->body.len == 0 || purchase_read_body(context, request))) {
        struct sk_wish wish = {.voucher_id = call->voucher_id,
                               .user = call->user,
                               .quantity = call->quantity,
                               .key = key == NULL ? 0 : purchase_fingerprint(key),
                               .low_priority = call->respond_async,
                               .waits = call->waits};
        sk_ticket_read(context, request, call, &wish);
        if (!sk_purchase(context->control, &wish, request->handle, &result))
            purchase_answer(context, request, &result);
    }
}
