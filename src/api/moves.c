// One statement records a payment, or gives an order more time. A move that returns units reads the order, returns its
// units (sale/returns.c), and reads it again. The answer is always what PostgreSQL has. So a repeated call, or one that
// another call has overtaken, gets the same answer as the first.
//
// The units of a retired voucher exist in PostgreSQL alone, and are returned there.
//
// An order that PostgreSQL does not know is looked up as GET /orders/{id} does.
#include "moves.h"

#include <stdio.h>
#include <string.h>

#include "auth.h"
#include "order_id.h"
#include "order_lookup.h"
#include "params.h"
#include "returns.h"
#include "text.h"
#include "verdict.h"

// The most that an order can cost: 1,000 units of the highest price.
static const int64_t amount_max_cents = INT64_C(100000000000000);
static const int64_t extend_max_s = 86400; // the most that a voucher allows

#define REFERENCE_DETAIL "must be a string of 1 to 64 visible ASCII characters"
#define ORDER_DETAIL     "must be the id of the order in the path"

// The demo's payment has the members from AMOUNT on.
enum payment_member { REFERENCE, AMOUNT, CURRENCY, ORDER, PAYMENT_MEMBERS };

static const struct sk_field payment_members[PAYMENT_MEMBERS] = {
    [REFERENCE] = {.name = "reference", .detail = REFERENCE_DETAIL},
    [AMOUNT] = {.name = "amount_cents", .detail = "must be an integer from 0 to 100000000000000"},
    [CURRENCY] = {.name = "currency", .detail = "must be a string of three letters from A to Z"},
    [ORDER] = {.name = "order_id", .detail = ORDER_DETAIL, .optional = true},
};

enum extension_member { EXTENDING_REFERENCE, EXTEND, EXTENDED_ORDER, EXTENSION_MEMBERS };

static const struct sk_field extension_members[EXTENSION_MEMBERS] = {
    [EXTENDING_REFERENCE] = {.name = "reference", .detail = REFERENCE_DETAIL},
    [EXTEND] = {.name = "extend_s", .detail = "must be an integer from 1 to 86400", .optional = true},
    [EXTENDED_ORDER] = {.name = "order_id", .detail = ORDER_DETAIL, .optional = true},
};

enum refund_member { RESTOCK, WHY, REFUNDED_REFERENCE, REFUND_MEMBERS };

static const struct sk_field refund_members[REFUND_MEMBERS] = {
    [RESTOCK] = {.name = "restock", .detail = "must be true or false", .optional = true},
    [WHY] = {.name = "why", .detail = "must be a string of at most 200 bytes", .optional = true},
    [REFUNDED_REFERENCE] = {.name = "reference", .detail = REFERENCE_DETAIL, .optional = true},
};

static bool bodies_read_reference(const json_t *value, const char **reference)
{
    return sk_fields_text(value, 1, SK_REFERENCE_MAX, reference) && sk_text_within(*reference, '!', '~');
}

// `value`, where it is there, names the order in any form that a path may have.
static void bodies_check_order(struct sk_fields *read, const struct sk_field *member, const json_t *value,
                               const char *order_id, bool must)
{
    char id[SK_UUID_SIZE];
    const char *text = json_string_value(value);
    bool same = text != NULL && order_id != NULL && sk_uuid_read(text, strlen(text), id) && strcmp(id, order_id) == 0;
    sk_fields_check(read, member, value, same);
    if (value == NULL && must)
        sk_fields_refuse(read, member->name, "is required: the signature does not cover the path");
}

enum sk_verdict sk_payment_read(const char *body, size_t len, struct sk_payment *payment, struct sk_fields *read)
{
    const json_t *values[PAYMENT_MEMBERS];
    enum payment_member first = payment->reference == NULL ? REFERENCE : AMOUNT;
    if (sk_fields_open(read, body, len, &payment_members[first], PAYMENT_MEMBERS - first, &values[first])) {
        if (first == REFERENCE)
            sk_fields_check(read, &payment_members[REFERENCE], values[REFERENCE],
                            bodies_read_reference(values[REFERENCE], &payment->reference));
        sk_fields_check(read, &payment_members[AMOUNT], values[AMOUNT],
                        sk_fields_integer(values[AMOUNT], 0, amount_max_cents, &payment->amount_cents));
        sk_fields_check(read, &payment_members[CURRENCY], values[CURRENCY],
                        sk_fields_text(values[CURRENCY], SK_CURRENCY_CHARS, SK_CURRENCY_CHARS, &payment->currency) &&
                            sk_text_within(payment->currency, 'A', 'Z'));
        bodies_check_order(read, &payment_members[ORDER], values[ORDER], payment->order_id, payment->names_order);
    }
    return sk_fields_end(read);
}

enum sk_verdict sk_extension_read(const char *body, size_t len, struct sk_extension *extension, struct sk_fields *read)
{
    const json_t *values[EXTENSION_MEMBERS];
    extension->extend_s = 0;
    if (sk_fields_open(read, body, len, extension_members, EXTENSION_MEMBERS, values)) {
        sk_fields_check(read, &extension_members[EXTENDING_REFERENCE], values[EXTENDING_REFERENCE],
                        bodies_read_reference(values[EXTENDING_REFERENCE], &extension->reference));
        sk_fields_check(read, &extension_members[EXTEND], values[EXTEND],
                        sk_fields_integer(values[EXTEND], 1, extend_max_s, &extension->extend_s));
        bodies_check_order(read, &extension_members[EXTENDED_ORDER], values[EXTENDED_ORDER], extension->order_id,
                           extension->names_order);
    }
    return sk_fields_end(read);
}

enum sk_verdict sk_refund_read(const char *body, size_t len, struct sk_refund *refund, struct sk_fields *read)
{
    const json_t *values[REFUND_MEMBERS];
    *refund = (struct sk_refund){0};
    if (sk_fields_open(read, body, len, refund_members, REFUND_MEMBERS, values)) {
        sk_fields_check(read, &refund_members[RESTOCK], values[RESTOCK], json_is_boolean(values[RESTOCK]));
        sk_fields_check(read, &refund_members[WHY], values[WHY],
                        sk_fields_text(values[WHY], 0, SK_WHY_MAX, &refund->why));
        sk_fields_check(read, &refund_members[REFUNDED_REFERENCE], values[REFUNDED_REFERENCE],
                        bodies_read_reference(values[REFUNDED_REFERENCE], &refund->reference));
        refund->restock = json_is_true(values[RESTOCK]);
    }
    return sk_fields_end(read);
}

struct move {
    struct sk_query query;
    char order_id[SK_UUID_SIZE];
    char user[SK_USER_SIZE]; // whose order it must be; "": anyone's
    char by[SK_ADMIN_NAME_SIZE];
    char why[SK_WHY_MAX + 1];             // "": none
    char reference[SK_REFERENCE_MAX + 1]; // "": a refund names none
    char currency[SK_CURRENCY_CHARS + 1];
    int64_t amount_cents;
    int64_t extend_s; // 0: an extension names none
    enum sk_return_move returned_as;
    bool returned; // the units were returned; the order is read again
};

// The columns of pay_order.sql, extend_order.sql, find_for_move.sql and note_refunds.sql.
enum { PAY_OUTCOME, PAY_DOCUMENT, PAY_CENTS, PAY_CURRENCY };
enum { EXTEND_OUTCOME, EXTEND_STATUS, EXTEND_DOCUMENT };
enum { FOUND_VOUCHER, FOUND_STATUS, FOUND_ALLOWED, FOUND_DOCUMENT };
enum { REFUND_OUTCOME, REFUND_VOUCHER, REFUND_STATUS, REFUND_DOCUMENT };

// ---- all moves ----

static void move_put(char *out, size_t size, const char *text)
{
    size_t len = strlen(text);
    SK_ASSERT(len < size);
    memcpy(out, text, len + 1);
}

// NULL: the handle was answered.
static struct move *move_new(struct sk_control *control, enum sk_pg_class class, const char *order_id, const char *user,
                             const char *by, uint64_t handle, void (*start)(struct sk_query *query))
{
    struct move *move = sk_query_new(control, class, handle, NULL, sizeof *move, start);
    if (move == NULL)
        return NULL;
    move_put(move->order_id, sizeof move->order_id, order_id);
    move_put(move->user, sizeof move->user, user);
    move_put(move->by, sizeof move->by, by);
    return move;
}

// Reads the order, if it is the user's, and whether it may move to `status`.
static void move_find(struct move *move, const char *status, sk_pg_cb *done)
{
    char slot[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {sk_params_number(slot, sk_order_id_slot(move->order_id)), move->order_id, move->user,
                            status};
    move->query.shard = sk_query_shard_of_order(&move->query, move->order_id);
    sk_query_ask_pg(&move->query, SK_STATEMENT_FIND_FOR_MOVE, 4, params, done);
}

// PostgreSQL does not know the order: a lookup in both stores answers.
static void move_lookup(struct move *move)
{
    struct sk_control *control = move->query.control;
    char order_id[SK_UUID_SIZE], user[SK_USER_SIZE];
    uint64_t handle = sk_query_take_handle(&move->query);
    memcpy(order_id, move->order_id, sizeof order_id);
    memcpy(user, move->user, sizeof user);
    sk_query_end(&move->query, SK_VERDICT_PENDING, NULL);
    sk_order_lookup(control, SK_LOOKUP_FOR_MOVE, order_id, user, handle);
}

// Whether the user's order was found. False: the query has ended.
static bool move_is_found(struct move *move, const struct sk_rows *rows)
{
    if (rows == NULL)
        sk_query_end(&move->query, SK_VERDICT_UNAVAILABLE, NULL);
    else if (sk_rows_count(rows) == 0)
        move_lookup(move);
    else if (sk_rows_text(rows, 0, FOUND_DOCUMENT) == NULL) // another user's
        sk_query_end(&move->query, SK_VERDICT_NOT_FOUND, NULL);
    else
        return true;
    return false;
}

static void move_end_wrong(struct move *move, const char *status)
{
    struct sk_answer answer = {.verdict = SK_VERDICT_WRONG_STATE, .status = status};
    sk_query_end_with(&move->query, &answer);
}

// What a statement's outcome means. The last one is for all others.
struct move_end {
    const char *outcome;
    enum sk_verdict verdict;
};

static enum sk_verdict move_verdict(const struct sk_rows *rows, int column, const struct move_end *ends)
{
    if (rows == NULL)
        return SK_VERDICT_UNAVAILABLE;
    while (ends->outcome != NULL && strcmp(ends->outcome, sk_rows_text(rows, 0, column)) != 0)
        ends++;
    return ends->verdict;
}

// ---- returning units ----

static const char *move_why(const struct move *move)
{
    return move->why[0] == '\0' ? NULL : move->why;
}

static void return_on_end(void *arg, enum sk_return_end end)
{
    struct move *move = arg;
    if (end == SK_RETURN_LOADING || end == SK_RETURN_UNAVAILABLE) {
        sk_query_end(&move->query, end == SK_RETURN_LOADING ? SK_VERDICT_LOADING : SK_VERDICT_UNAVAILABLE, NULL);
        return;
    }
    move->returned = true;
    move->query.start(&move->query);
}

// Stale: the voucher is no longer retired, or not yet.
static void return_on_retired(void *arg, const struct sk_result *result)
{
    struct move *move = arg;
    const char *outcome = result->rows == NULL ? NULL : sk_rows_text(result->rows, 0, 0);
    if (outcome == NULL || strcmp(outcome, "stale") == 0) {
        sk_query_end(&move->query, SK_VERDICT_UNAVAILABLE, NULL);
        return;
    }
    move->returned = true;
    move->query.start(&move->query);
}

static void return_retired(struct move *move)
{
    static const char *const names[] = {[SK_RETURN_CANCELLED] = "cancelled",
                                        [SK_RETURN_REFUNDED] = "refunded",
                                        [SK_RETURN_REFUNDED_KEPT] = "refunded-kept"};
    char slot[SK_PARAM_NUMBER_SIZE], voucher[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {sk_params_number(slot, sk_order_id_slot(move->order_id)),
                            sk_params_number(voucher, move->query.finding.id),
                            move->order_id,
                            names[move->returned_as],
                            move->by,
                            move_why(move)};
    move->query.shard = sk_query_shard_of_order(&move->query, move->order_id);
    sk_query_ask_pg(&move->query, SK_STATEMENT_RETURN_RETIRED, 6, params, return_on_retired);
}

static void return_on_voucher(struct sk_query *query, enum sk_found found)
{
    struct move *move = (struct move *)query;
    if (found == SK_FOUND_OLD) {
        return_retired(move);
        return;
    }
    if (found != SK_FOUND_LISTED) {
        sk_query_end(query, SK_VERDICT_UNAVAILABLE, NULL);
        return;
    }
    enum sk_status status =
        sk_return_order(sk_sale_shard(query->control->sale, query->voucher)->returns, query->voucher, move->order_id,
                        move->returned_as, move->by, move_why(move), return_on_end, move);
    if (status != SK_OK)
        sk_query_end(query, status == SK_DOWN ? SK_VERDICT_UNAVAILABLE : SK_VERDICT_OVERLOADED, NULL);
}

// The order's status allows the return. If it still does after a return, none was made.
static void return_begin(struct move *move, int64_t voucher_id)
{
    if (move->returned)
        sk_query_end(&move->query, SK_VERDICT_UNAVAILABLE, NULL);
    else
        sk_query_find(&move->query, voucher_id, return_on_voucher);
}

// ---- pay ----

// Names the member that differs, and what is due. An order that another transaction has just changed may show nothing.
static void pay_end_wrong_amount(struct move *move, const struct sk_rows *rows)
{
    const char *cents = sk_rows_text(rows, 0, PAY_CENTS), *currency = sk_rows_text(rows, 0, PAY_CURRENCY);
    struct sk_answer answer = {.verdict = SK_VERDICT_WRONG_AMOUNT};
    char detail[64];
    if (cents != NULL && currency != NULL) {
        (void)snprintf(detail, sizeof detail, "must be %.20s %.3s, in its smallest unit", cents, currency);
        answer.member = strcmp(currency, move->currency) == 0 ? "amount_cents" : "currency";
        answer.detail = detail;
    }
    sk_query_end_with(&move->query, &answer);
}

static void pay_on_row(void *arg, const struct sk_result *result)
{
    static const struct move_end ends[] = {
        {"paid", SK_VERDICT_FOUND},
        {"already", SK_VERDICT_FOUND},
        {"to_refund", SK_VERDICT_FOUND},
        {"already_paid", SK_VERDICT_ALREADY_PAID},
        {"reference_used", SK_VERDICT_REFERENCE_USED},
        {"wrong_amount", SK_VERDICT_WRONG_AMOUNT},
        {NULL, SK_VERDICT_NOT_FOUND},
    };
    struct move *move = arg;
    enum sk_verdict verdict = move_verdict(result->rows, PAY_OUTCOME, ends);
    if (verdict == SK_VERDICT_NOT_FOUND)
        move_lookup(move);
    else if (verdict == SK_VERDICT_WRONG_AMOUNT)
        pay_end_wrong_amount(move, result->rows);
    else
        sk_query_end(&move->query, verdict,
                     verdict == SK_VERDICT_FOUND ? sk_rows_text(result->rows, 0, PAY_DOCUMENT) : NULL);
}

static void pay_start(struct sk_query *query)
{
    struct move *move = (struct move *)query;
    char slot[SK_PARAM_NUMBER_SIZE], cents[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {sk_params_number(slot, sk_order_id_slot(move->order_id)),
                            move->order_id,
                            move->reference,
                            sk_params_number(cents, move->amount_cents),
                            move->currency,
                            move->by};
    query->shard = sk_query_shard_of_order(query, move->order_id);
    sk_query_ask_pg(query, SK_STATEMENT_PAY_ORDER, 6, params, pay_on_row);
}

static void pay_own_on_row(void *arg, const struct sk_result *result)
{
    struct move *move = arg;
    if (move_is_found(move, result->rows))
        pay_start(&move->query);
}

static void pay_own_start(struct sk_query *query)
{
    move_find((struct move *)query, "paid", pay_own_on_row);
}

void sk_move_pay(struct sk_control *control, const char *order_id, const char *user, const struct sk_payment *payment,
                 const char *by, uint64_t handle)
{
    bool own = user[0] != '\0';
    struct move *move = move_new(control, own ? SK_PG_MOVES : SK_PG_COMMANDS, order_id, user, by, handle,
                                 own ? pay_own_start : pay_start);
    if (move == NULL)
        return;
    SK_ASSERT(payment->reference != NULL && payment->currency != NULL);
    move_put(move->reference, sizeof move->reference, payment->reference);
    move_put(move->currency, sizeof move->currency, payment->currency);
    move->amount_cents = payment->amount_cents;
    sk_query_start(&move->query);
}

// ---- extend ----

static void extend_on_row(void *arg, const struct sk_result *result)
{
    static const struct move_end ends[] = {
        {"extended", SK_VERDICT_FOUND},
        {"already_extended", SK_VERDICT_ALREADY_EXTENDED},
        {"reference_used", SK_VERDICT_REFERENCE_USED},
        {"off", SK_VERDICT_EXTENSION_OFF},
        {"kept", SK_VERDICT_WRONG_STATE},
        {NULL, SK_VERDICT_NOT_FOUND},
    };
    struct move *move = arg;
    enum sk_verdict verdict = move_verdict(result->rows, EXTEND_OUTCOME, ends);
    if (verdict == SK_VERDICT_NOT_FOUND)
        move_lookup(move);
    else if (verdict == SK_VERDICT_WRONG_STATE)
        move_end_wrong(move, sk_rows_text(result->rows, 0, EXTEND_STATUS));
    else
        sk_query_end(&move->query, verdict,
                     verdict == SK_VERDICT_FOUND ? sk_rows_text(result->rows, 0, EXTEND_DOCUMENT) : NULL);
}

static void extend_start(struct sk_query *query)
{
    struct move *move = (struct move *)query;
    char slot[SK_PARAM_NUMBER_SIZE], extend_s[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {sk_params_number(slot, sk_order_id_slot(move->order_id)), move->order_id, move->reference,
                            move->extend_s == 0 ? NULL : sk_params_number(extend_s, move->extend_s), move->by};
    query->shard = sk_query_shard_of_order(query, move->order_id);
    sk_query_ask_pg(query, SK_STATEMENT_EXTEND_ORDER, 5, params, extend_on_row);
}

void sk_move_extend(struct sk_control *control, const char *order_id, const struct sk_extension *extension,
                    const char *by, uint64_t handle)
{
    struct move *move = move_new(control, SK_PG_COMMANDS, order_id, "", by, handle, extend_start);
    if (move == NULL)
        return;
    SK_ASSERT(extension->reference != NULL);
    move_put(move->reference, sizeof move->reference, extension->reference);
    move->extend_s = extension->extend_s;
    sk_query_start(&move->query);
}

// ---- cancel ----

static void cancel_on_row(void *arg, const struct sk_result *result)
{
    struct move *move = arg;
    const struct sk_rows *rows = result->rows;
    if (!move_is_found(move, rows))
        return;
    const char *status = sk_rows_text(rows, 0, FOUND_STATUS);
    if (strcmp(status, "cancelled") == 0)
        sk_query_end(&move->query, SK_VERDICT_FOUND, sk_rows_text(rows, 0, FOUND_DOCUMENT));
    else if (strcmp(sk_rows_text(rows, 0, FOUND_ALLOWED), "t") != 0)
        move_end_wrong(move, status);
    else
        return_begin(move, sk_rows_number(rows, 0, FOUND_VOUCHER));
}

static void cancel_start(struct sk_query *query)
{
    move_find((struct move *)query, "cancelled", cancel_on_row);
}

void sk_move_cancel(struct sk_control *control, const char *order_id, const char *user, uint64_t handle)
{
    struct move *move = move_new(control, SK_PG_MOVES, order_id, user, "user", handle, cancel_start);
    if (move == NULL)
        return;
    move->returned_as = SK_RETURN_CANCELLED;
    sk_query_start(&move->query);
}

// ---- refund ----

static void refund_on_row(void *arg, const struct sk_result *result)
{
    struct move *move = arg;
    const struct sk_rows *rows = result->rows;
    if (rows == NULL) {
        sk_query_end(&move->query, SK_VERDICT_UNAVAILABLE, NULL);
        return;
    }
    const char *outcome = sk_rows_text(rows, 0, REFUND_OUTCOME);
    if (strcmp(outcome, "unknown") == 0)
        move_lookup(move);
    else if (strcmp(outcome, "refunded") == 0)
        sk_query_end(&move->query, SK_VERDICT_FOUND, sk_rows_text(rows, 0, REFUND_DOCUMENT));
    else if (strcmp(outcome, "unknown_payment") == 0)
        sk_query_end(&move->query, SK_VERDICT_UNKNOWN_PAYMENT, NULL);
    else if (strcmp(outcome, "returns") == 0)
        return_begin(move, sk_rows_number(rows, 0, REFUND_VOUCHER));
    else
        move_end_wrong(move, sk_rows_text(rows, 0, REFUND_STATUS));
}

static void refund_start(struct sk_query *query)
{
    struct move *move = (struct move *)query;
    char slot[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {sk_params_number(slot, sk_order_id_slot(move->order_id)), move->order_id, move->by,
                            move_why(move), move->reference[0] == '\0' ? NULL : move->reference};
    query->shard = sk_query_shard_of_order(query, move->order_id);
    sk_query_ask_pg(query, SK_STATEMENT_NOTE_REFUNDS, 5, params, refund_on_row);
}

void sk_move_refund(struct sk_control *control, const char *order_id, const struct sk_refund *refund, const char *by,
                    uint64_t handle)
{
    struct move *move = move_new(control, SK_PG_COMMANDS, order_id, "", by, handle, refund_start);
    if (move == NULL)
        return;
    if (refund->why != NULL)
        move_put(move->why, sizeof move->why, refund->why);
    if (refund->reference != NULL)
        move_put(move->reference, sizeof move->reference, refund->reference);
    move->returned_as = refund->restock ? SK_RETURN_REFUNDED : SK_RETURN_REFUNDED_KEPT;
    sk_query_start(&move->query);
}

// ---- the calls ----

void sk_handle_pay(const struct sk_context *context, struct sk_request *request)
{
    const struct sk_call *call = sk_call_of(request);
    struct sk_payment payment = {.order_id = call->order_id, .names_order = sk_auth_signs_body_alone(request)};
    struct sk_fields read;
    enum sk_verdict verdict = sk_payment_read(request->body.data, request->body.len, &payment, &read);
    if (sk_call_body_good(context, request, verdict, &read))
        sk_move_pay(context->control, call->order_id, "", &payment, call->by, request->handle);
    sk_fields_free(&read);
}

void sk_handle_extend(const struct sk_context *context, struct sk_request *request)
{
    const struct sk_call *call = sk_call_of(request);
    struct sk_extension extension = {.order_id = call->order_id, .names_order = sk_auth_signs_body_alone(request)};
    struct sk_fields read;
    enum sk_verdict verdict = sk_extension_read(request->body.data, request->body.len, &extension, &read);
    if (sk_call_body_good(context, request, verdict, &read))
        sk_move_extend(context->control, call->order_id, &extension, call->by, request->handle);
    sk_fields_free(&read);
}

void sk_handle_demo_pay(const struct sk_context *context, struct sk_request *request)
{
    const struct sk_call *call = sk_call_of(request);
    char reference[SK_REFERENCE_MAX + 1];
    struct sk_payment payment = {.reference = reference};
    struct sk_fields read;
    (void)snprintf(reference, sizeof reference, "demo-%s", call->order_id);
    enum sk_verdict verdict = sk_payment_read(request->body.data, request->body.len, &payment, &read);
    if (sk_call_body_good(context, request, verdict, &read))
        sk_move_pay(context->control, call->order_id, call->user, &payment, "demo", request->handle);
    sk_fields_free(&read);
}

void sk_handle_cancel(const struct sk_context *context, struct sk_request *request)
{
    const struct sk_call *call = sk_call_of(request);
    sk_move_cancel(context->control, call->order_id, call->user, request->handle);
}

void sk_handle_refund(const struct sk_context *context, struct sk_request *request)
{
    const struct sk_call *call = sk_call_of(request);
    struct sk_refund refund;
    struct sk_fields read;
    enum sk_verdict verdict = sk_refund_read(request->body.data, request->body.len, &refund, &read);
    if (sk_call_body_good(context, request, verdict, &read))
        sk_move_refund(context->control, call->order_id, &refund, call->by, request->handle);
    sk_fields_free(&read);
}
