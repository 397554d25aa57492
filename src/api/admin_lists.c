// Each list is one statement. Equal requests share no query, since admins are few. So a query has one round, and the
// call that makes it begins it.
#include "admin_lists.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cursor.h"
#include "entry.h"
#include "feed.h"
#include "moves.h"
#include "params.h"
#include "regrant.h"
#include "text.h"
#include "user_orders.h"
#include "verdict.h"

// What makes a list differ from the others.
struct admin_form {
    enum sk_cursor_kind kind;
    const char *name; // of the member with the rows
    struct sk_page_columns columns;
};

struct admin_list {
    struct sk_query query;
    const struct admin_form *form;
    struct sk_page page;
    struct sk_gather gather; // of the lists of all shards
};

// NULL: the handle was answered. `scope` NULL: that of a voucher's list.
static struct admin_list *admin_list_new(struct sk_control *control, const struct admin_form *form, const char *scope,
                                         int64_t voucher_id, const struct sk_page_asked *ask, uint64_t handle)
{
    char of_voucher[SK_PARAM_NUMBER_SIZE];
    struct sk_page page;
    if (scope == NULL)
        scope = sk_params_number(of_voucher, voucher_id);
    if (!sk_page_begin(&page, control, form->kind, scope, ask, handle))
        return NULL;
    struct admin_list *list = sk_query_new(control, SK_PG_COMMANDS, handle, NULL, sizeof *list, NULL);
    if (list == NULL)
        return NULL;
    list->form = form;
    list->page = page;
    list->query.shard = sk_query_shard_of_voucher(&list->query, voucher_id);
    return list;
}

static void admin_list_show(struct sk_query *query, struct sk_gathered *gathered)
{
    struct admin_list *list = (struct admin_list *)query;
    sk_buf_printf(&query->body, "{\"%s\":[", list->form->name);
    sk_page_add(&list->page, &query->body, gathered, &list->form->columns);
    sk_buf_puts(&query->body, gathered->complete ? "]" : "],\"complete\":false");
    sk_page_end(&list->page, query);
}

static void admin_list_on_rows(void *arg, const struct sk_result *result)
{
    struct sk_query *query = arg;
    if (result->rows == NULL) {
        sk_query_end(query, SK_VERDICT_UNAVAILABLE, NULL);
        return;
    }
    struct sk_gathered alone = {.rows = {result->rows}, .counts = {sk_rows_count(result->rows)}, .complete = true};
    admin_list_show(query, &alone);
}

// Reads the parameter `voucher`. False: the request was refused.
static bool lists_read_voucher(const struct sk_context *context, struct sk_request *request, int64_t *id)
{
    const char *text = sk_request_query(request, "voucher", NULL);
    return (text != NULL && sk_text_voucher_id(text, id)) ||
           sk_answer_parameter(context->answers, request, "voucher",
                               text == NULL ? "is required" : sk_verdict_title(SK_VERDICT_BAD_VOUCHER_ID));
}

// ---- orders ----

// Whether orders in PostgreSQL may have this status.
static bool orders_may_be(const char *status)
{
    static const char *const all[] = {"waiting", "unpaid", "paid", "cancelled", "expired", "refused", "refunded"};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (strcmp(status, all[i]) == 0)
            return true;
    }
    return false;
}

void sk_list_all_orders(struct sk_control *control, const struct sk_order_filter *filter,
                        const struct sk_page_asked *ask, uint64_t handle)
{
    static const struct admin_form form = {
        SK_CURSOR_ADMIN_ORDERS, "orders", {.first = 0, .document = 1, .behind = true}};
    char scope[SK_CURSOR_SCOPE_MAX + 1], voucher[SK_PARAM_NUMBER_SIZE], before[SK_UUID_SIZE];
    char from[SK_PARAM_NUMBER_SIZE] = "", to[SK_PARAM_NUMBER_SIZE] = "", most[SK_PARAM_NUMBER_SIZE];
    const char *status = filter->status;
    SK_ASSERT(status == NULL || orders_may_be(status));
    const char *since = filter->from == NULL ? NULL : sk_params_number(from, *filter->from);
    const char *until = filter->to == NULL ? NULL : sk_params_number(to, *filter->to);
    (void)snprintf(scope, sizeof scope, "%" PRId64 ":%s:%s:%s", filter->voucher_id, status == NULL ? "" : status, from,
                   to);
    struct admin_list *list = admin_list_new(control, &form, scope, filter->voucher_id, ask, handle);
    if (list == NULL)
        return;
    const char *params[] = {sk_params_number(voucher, filter->voucher_id),
                            status,
                            since,
                            until,
                            sk_page_id(&list->page, 0, before),
                            sk_page_most(&list->page, most)};
    sk_query_ask_pg(&list->query, SK_STATEMENT_LIST_ALL_ORDERS, 6, params, admin_list_on_rows);
}

// *given is NULL if the parameter was not sent. False: the request was refused.
static bool orders_read_time(const struct sk_context *context, struct sk_request *request, const char *name,
                             int64_t *unix_ms, const int64_t **given)
{
    const char *text = sk_request_query(request, name, NULL);
    *given = text == NULL ? NULL : unix_ms;
    return text == NULL || sk_text_time(text, unix_ms) ||
           sk_answer_parameter(context->answers, request, name, SK_TIME_DETAIL);
}

void sk_handle_admin_orders(const struct sk_context *context, struct sk_request *request)
{
    struct sk_page_asked asked;
    struct sk_order_filter filter = {.status = sk_request_query(request, "status", NULL)};
    int64_t from, to;
    if (!sk_page_read_query(context, request, "cursor", &asked) ||
        !lists_read_voucher(context, request, &filter.voucher_id))
        return;
    if (filter.status != NULL && !orders_may_be(filter.status))
        (void)sk_answer_parameter(context->answers, request, "status",
                                  "must be unpaid, paid, cancelled, expired, refused or refunded");
    else if (orders_read_time(context, request, "from", &from, &filter.from) &&
             orders_read_time(context, request, "to", &to, &filter.to))
        sk_list_all_orders(context->control, &filter, &asked, request->handle);
}

// The list that the user gets.
void sk_handle_find_orders(const struct sk_context *context, struct sk_request *request)
{
    struct sk_page_asked asked;
    const char *user = sk_request_query(request, "user", NULL);
    if (user == NULL || !sk_text_user(user))
        (void)sk_answer_parameter(context->answers, request, "user", "must be 1-64 of A-Z a-z 0-9 _ . -");
    else if (sk_page_read_query(context, request, "cursor", &asked))
        sk_user_orders(context->control, SK_PG_COMMANDS, user, &asked, request->handle);
}

// ---- payments ----

void sk_list_payments(struct sk_control *control, int64_t voucher_id, const struct sk_page_asked *ask, uint64_t handle)
{
    static const struct admin_form form = {SK_CURSOR_PAYMENTS, "payments", {.first = 0, .document = 1}};
    char voucher[SK_PARAM_NUMBER_SIZE], before[SK_UUID_SIZE], most[SK_PARAM_NUMBER_SIZE];
    struct admin_list *list = admin_list_new(control, &form, NULL, voucher_id, ask, handle);
    if (list == NULL)
        return;
    const char *params[] = {sk_params_number(voucher, voucher_id), sk_page_id(&list->page, 0, before),
                            sk_page_most(&list->page, most)};
    sk_query_ask_pg(&list->query, SK_STATEMENT_LIST_PAYMENTS, 3, params, admin_list_on_rows);
}

void sk_list_to_refund(struct sk_control *control, int64_t voucher_id, const struct sk_page_asked *ask, uint64_t handle)
{
    static const struct admin_form form = {SK_CURSOR_TO_REFUND, "payments", {.first = 0, .document = 1}};
    char voucher[SK_PARAM_NUMBER_SIZE], before[SK_UUID_SIZE], most[SK_PARAM_NUMBER_SIZE];
    const char *of_voucher = voucher_id == 0 ? NULL : sk_params_number(voucher, voucher_id);
    struct admin_list *list = admin_list_new(control, &form, NULL, voucher_id, ask, handle);
    if (list == NULL)
        return;
    sk_gather_begin(&list->gather, &list->query, admin_list_show);
    for (size_t i = 0; i < list->page.places; i++) {
        const char *params[] = {of_voucher, sk_page_id(&list->page, i, before), sk_page_most(&list->page, most)};
        sk_gather_ask(&list->gather, i, SK_STATEMENT_LIST_TO_REFUND, 3, params);
    }
    sk_gather_end(&list->gather);
}

void sk_handle_admin_payments(const struct sk_context *context, struct sk_request *request)
{
    struct sk_page_asked asked;
    int64_t voucher_id = 0;
    const char *state = sk_request_query(request, "state", NULL);
    bool of_all = state != NULL && sk_request_query(request, "voucher", NULL) == NULL;
    if (!sk_page_read_query(context, request, "cursor", &asked))
        return;
    if (state != NULL && strcmp(state, "to_refund") != 0)
        (void)sk_answer_parameter(context->answers, request, "state", "must be to_refund");
    else if (of_all || lists_read_voucher(context, request, &voucher_id))
        (state == NULL ? sk_list_payments : sk_list_to_refund)(context->control, voucher_id, &asked, request->handle);
}

// ---- lists without pages, of all shards ----

struct whole_list {
    struct sk_query query;
    struct sk_gather gather;
    const char *name; // of the member with the rows
    bool with_shard;  // each document begins with the number of its shard
};

static void whole_on_rows(struct sk_query *query, struct sk_gathered *gathered)
{
    enum { DOCUMENT = 1 };
    const struct whole_list *list = (const struct whole_list *)query;
    const char *comma = "";
    sk_buf_printf(&query->body, "{\"%s\":[", list->name);
    for (size_t i = 0; i < query->control->sale->shard_count; i++) {
        for (size_t row = 0; gathered->rows[i] != NULL && row < gathered->counts[i]; row++) {
            const char *document = sk_rows_text(gathered->rows[i], row, DOCUMENT);
            if (list->with_shard)
                sk_buf_printf(&query->body, "%s{\"shard\":%zu,%s", comma, i, document + 1);
            else
                sk_buf_printf(&query->body, "%s%s", comma, document);
            comma = ",";
        }
    }
    sk_buf_puts(&query->body, gathered->complete ? "]}" : "],\"complete\":false}");
    sk_query_end(query, SK_VERDICT_FOUND, query->body.data);
}

// NULL: the handle was answered.
static struct whole_list *whole_list_new(struct sk_control *control, const char *name, uint64_t handle)
{
    struct whole_list *list = sk_query_new(control, SK_PG_COMMANDS, handle, NULL, sizeof *list, NULL);
    if (list != NULL)
        list->name = name;
    return list;
}

// `param` NULL: the statement has none.
static void whole_list_ask(struct whole_list *list, enum sk_statement statement, const char *param)
{
    sk_gather_begin(&list->gather, &list->query, whole_on_rows);
    for (size_t i = 0; i < list->query.control->sale->shard_count; i++)
        sk_gather_ask(&list->gather, i, statement, param == NULL ? 0 : 1, &param);
    sk_gather_end(&list->gather);
}

void sk_find_payment(struct sk_control *control, const char *reference, uint64_t handle)
{
    struct whole_list *list = whole_list_new(control, "payments", handle);
    if (list != NULL)
        whole_list_ask(list, SK_STATEMENT_FIND_PAYMENT, reference);
}

void sk_handle_find_payment(const struct sk_context *context, struct sk_request *request)
{
    const char *reference = sk_request_query(request, "reference", NULL);
    size_t len = reference == NULL ? 0 : strlen(reference);
    if (len == 0 || len > SK_REFERENCE_MAX || !sk_text_within(reference, '!', '~'))
        (void)sk_answer_parameter(context->answers, request, "reference", "must be 1-64 visible ASCII characters");
    else
        sk_find_payment(context->control, reference, request->handle);
}

void sk_list_troubles(struct sk_control *control, uint64_t handle)
{
    char most[SK_PARAM_NUMBER_SIZE];
    struct whole_list *list = whole_list_new(control, "troubles", handle);
    if (list != NULL)
        whole_list_ask(list, SK_STATEMENT_TROUBLES, sk_params_number(most, SK_PAGE_MOST));
}

void sk_handle_troubles(const struct sk_context *context, struct sk_request *request)
{
    sk_list_troubles(context->control, request->handle);
}

// A receiver has a cursor of its own in each shard's feed, and may fail in one and not in another.
void sk_list_webhooks(struct sk_control *control, uint64_t handle)
{
    struct whole_list *list = whole_list_new(control, "receivers", handle);
    if (list == NULL)
        return;
    list->with_shard = control->sale->shard_count > 1;
    whole_list_ask(list, SK_STATEMENT_WEBHOOK_RECEIVERS, NULL);
}

void sk_handle_webhooks(const struct sk_context *context, struct sk_request *request)
{
    sk_list_webhooks(context->control, request->handle);
}

// ---- the audit log of operators ----

void sk_list_admin_events(struct sk_control *control, int64_t voucher_id, const struct sk_page_asked *ask,
                          uint64_t handle)
{
    static const struct admin_form form = {SK_CURSOR_ADMIN_EVENTS, "events", {.first = 0, .second = 1, .document = 2}};
    char voucher[SK_PARAM_NUMBER_SIZE], tx[SK_PARAM_NUMBER_SIZE], seq[SK_PARAM_NUMBER_SIZE], most[SK_PARAM_NUMBER_SIZE];
    struct admin_list *list = admin_list_new(control, &form, NULL, voucher_id, ask, handle);
    if (list == NULL)
        return;
    const char *params[] = {sk_params_number(voucher, voucher_id), sk_page_first(&list->page, 0, tx),
                            sk_page_second(&list->page, 0, seq), sk_page_most(&list->page, most)};
    sk_query_ask_pg(&list->query, SK_STATEMENT_LIST_ADMIN_EVENTS, 4, params, admin_list_on_rows);
}

void sk_handle_admin_events(const struct sk_context *context, struct sk_request *request)
{
    struct sk_page_asked asked;
    if (sk_page_read_query(context, request, "cursor", &asked))
        sk_list_admin_events(context->control, sk_call_of(request)->voucher_id, &asked, request->handle);
}

// ---- the feed of order events ----

// The end of the feed was asked for: the page begins right before the first row of each shard. A shard without rows has
// no event yet. A shard that is away has an end, but it is not known here: a cursor without it would begin at that
// shard's first event.
static void order_events_on_latest(struct sk_query *query, struct sk_gathered *gathered)
{
    struct admin_list *list = (struct admin_list *)query;
    const struct sk_page_columns *columns = &list->form->columns;
    if (!gathered->complete) {
        sk_query_end(query, SK_VERDICT_UNAVAILABLE, NULL);
        return;
    }
    for (size_t i = 0; i < list->page.places; i++) {
        if (gathered->counts[i] > 0)
            list->page.after[i] =
                (struct sk_position){(uint64_t)sk_rows_number(gathered->rows[i], 0, columns->first),
                                     (uint64_t)sk_rows_number(gathered->rows[i], 0, columns->second) - 1};
    }
    admin_list_show(query, gathered);
}

void sk_list_order_events(struct sk_control *control, const struct sk_page_asked *ask, unsigned last, const char *only,
                          uint64_t handle)
{
    static const struct admin_form form = {
        SK_CURSOR_ORDER_EVENTS, "events", {.first = 0, .second = 1, .document = 2, .ids = true}};
    char tx[SK_PARAM_NUMBER_SIZE], seq[SK_PARAM_NUMBER_SIZE], before_end[SK_PARAM_NUMBER_SIZE];
    char limit[SK_PARAM_NUMBER_SIZE];
    SK_ASSERT(last == 0 || ask->cursor == NULL);
    struct admin_list *list = admin_list_new(control, &form, "", 0, ask, handle);
    if (list == NULL)
        return;
    const char *latest[] = {sk_params_number(before_end, last), sk_params_number(limit, list->page.limit), only};
    sk_gather_begin(&list->gather, &list->query, last > 0 ? order_events_on_latest : admin_list_show);
    for (size_t i = 0; i < list->page.places; i++) {
        const char *after[] = {sk_page_first(&list->page, i, tx), sk_page_second(&list->page, i, seq), limit, only};
        if (last > 0)
            sk_gather_ask(&list->gather, i, SK_STATEMENT_LATEST_EVENTS, 3, latest);
        else
            sk_gather_ask(&list->gather, i, SK_STATEMENT_ORDER_EVENTS, 4, after);
    }
    sk_gather_end(&list->gather);
}

// Reads the parameters of the feed. `last`: how many events before its end it begins; it excludes a cursor. False: the
// request was refused.
static bool order_events_read(const struct sk_context *context, struct sk_request *request, struct sk_page_asked *asked,
                              unsigned *last, const char **only)
{
    const char *from_end = sk_request_query(request, "last", NULL);
    uint64_t number = 0;
    const char *kind = sk_request_query(request, "only", NULL);
    *only = kind == NULL ? NULL : sk_feed_kind(kind);
    if (!sk_page_read_query(context, request, "after", asked) || !sk_call_read_wait(context, request))
        return false;
    if (from_end != NULL && asked->cursor != NULL)
        return sk_answer_parameter(context->answers, request, "last", "excludes after");
    if (from_end != NULL && (!sk_text_number(from_end, SK_PAGE_MOST, &number) || number == 0))
        return sk_answer_parameter(context->answers, request, "last", SK_PAGE_LIMIT_DETAIL);
    if (kind != NULL && *only == NULL)
        return sk_answer_parameter(context->answers, request, "only", "must be placed, moves or sales");
    *last = (unsigned)number;
    return true;
}

static void order_events_ask(const struct sk_context *context, struct sk_request *request)
{
    struct sk_page_asked asked;
    unsigned last = 0;
    const char *only = NULL;
    if (order_events_read(context, request, &asked, &last, &only))
        sk_list_order_events(context->control, &asked, last, only, request->handle);
}

static void order_events_on_page(const struct sk_context *context, struct sk_request *request,
                                 const struct sk_answer *answer);

// The page is read again. Should it be empty, the reader waits on.
static void order_events_on_news(const struct sk_context *context, struct sk_request *request,
                                 const struct sk_answer *answer)
{
    sk_call_of(request)->on_answer = order_events_on_page;
    if (answer->verdict == SK_VERDICT_FOUND)
        order_events_ask(context, request);
    else
        sk_answer_send(context->answers, request, answer);
}

// No event came in time: the page is read once more, and sent as it is.
static void order_events_on_overtime(const struct sk_context *context, struct sk_request *request)
{
    struct sk_call *call = sk_call_of(request);
    if (context->control == NULL) {
        sk_answer_refusal(context->answers, request, SK_VERDICT_UNAVAILABLE);
        return;
    }
    call->on_answer = NULL;
    call->on_expired = NULL;
    sk_request_extend(request, context->stores_ms);
    if (sk_feed_leave(context->control->feed, request->handle))
        order_events_ask(context, request);
}

static void order_events_on_gone(const struct sk_context *context, struct sk_request *request)
{
    (void)sk_feed_leave(context->control->feed, request->handle);
}

static void order_events_on_page(const struct sk_context *context, struct sk_request *request,
                                 const struct sk_answer *answer)
{
    struct sk_call *call = sk_call_of(request);
    struct sk_position after[SK_SHARDS_MAX] = {{0}};
    const char *cursor = sk_request_query(request, "after", NULL), *kind = sk_request_query(request, "only", NULL);
    size_t shards = context->control->sale->shard_count;
    bool waits = answer->verdict == SK_VERDICT_FOUND && answer->no_rows && !context->draining &&
                 (cursor == NULL || sk_cursor_read(cursor, SK_CURSOR_ORDER_EVENTS, "", after, shards));
    if (!waits ||
        !sk_feed_add(context->control->feed, after, kind == NULL ? NULL : sk_feed_kind(kind), request->handle)) {
        sk_answer_send(context->answers, request, answer);
        return;
    }
    call->on_answer = order_events_on_news;
    if (call->on_expired == NULL)
        sk_request_park(request, call->wait_s * UINT64_C(1000));
    call->on_expired = order_events_on_overtime;
    call->on_gone = order_events_on_gone;
}

void sk_handle_order_events(const struct sk_context *context, struct sk_request *request)
{
    struct sk_call *call = sk_call_of(request);
    struct sk_page_asked asked;
    unsigned last = 0;
    const char *only = NULL;
    if (!order_events_read(context, request, &asked, &last, &only))
        return;
    if (call->wait_s > 0) {
        if (!sk_call_hold(context, request))
            return;
        call->on_answer = order_events_on_page;
    }
    sk_list_order_events(context->control, &asked, last, only, request->handle);
}

// ---- dead letters ----
//
// A dead letter ends when PostgreSQL has its orders, as placed or as refused; nothing else marks it. So after a lost
// answer, or the death of an instance half-way, the dead letter can be decided again. A retired voucher has no open
// one.

static void letters_on_voucher(struct sk_query *query, enum sk_found found)
{
    struct admin_list *list = (struct admin_list *)query;
    if (found != SK_FOUND_LISTED) {
        sk_query_end(query, SK_VERDICT_FOUND, "{\"dead_letters\":[]}");
        return;
    }
    char slot[SK_PARAM_NUMBER_SIZE], id[SK_PARAM_NUMBER_SIZE], after[SK_PARAM_NUMBER_SIZE], most[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {sk_params_number(slot, query->voucher->slot), sk_params_number(id, query->voucher->id),
                            sk_page_first(&list->page, 0, after), sk_page_most(&list->page, most)};
    sk_query_ask_pg(query, SK_STATEMENT_LIST_DEAD_LETTERS, 4, params, admin_list_on_rows);
}

void sk_list_dead_letters(struct sk_control *control, int64_t voucher_id, const struct sk_page_asked *ask,
                          uint64_t handle)
{
    static const struct admin_form form = {SK_CURSOR_DEAD_LETTERS, "dead_letters", {.first = 0, .document = 1}};
    struct admin_list *list = admin_list_new(control, &form, NULL, voucher_id, ask, handle);
    if (list != NULL)
        sk_query_find(&list->query, voucher_id, letters_on_voucher);
}

void sk_handle_dead_letters(const struct sk_context *context, struct sk_request *request)
{
    struct sk_page_asked asked;
    if (sk_page_read_query(context, request, "cursor", &asked))
        sk_list_dead_letters(context->control, sk_call_of(request)->voucher_id, &asked, request->handle);
}

// ---- one dead letter ----

struct dead_letter_query {
    struct sk_query query;
    int64_t letter;
    bool write_off;
};

static void dead_letter_ask(struct dead_letter_query *letter, enum sk_statement statement, sk_pg_cb *done)
{
    const struct sk_voucher *its = letter->query.voucher;
    char slot[SK_PARAM_NUMBER_SIZE], voucher[SK_PARAM_NUMBER_SIZE], id[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {sk_params_number(slot, its->slot), sk_params_number(voucher, its->id),
                            sk_params_number(id, letter->letter)};
    sk_query_ask_pg(&letter->query, statement, 3, params, done);
}

// Answers with the number of its orders.
static void dead_letter_end(struct sk_query *query, const char *what, size_t orders)
{
    sk_buf_printf(&query->body, "{\"%s\":%zu}", what, orders);
    sk_query_end(query, SK_VERDICT_FOUND, query->body.data);
}

static void dead_letter_requeue(struct sk_query *query, const char *orders, int32_t offer)
{
    const struct sk_sale *sale = query->control->sale;
    struct sk_order_list list = {0};
    size_t requeued = 0;
    if (sk_journal_parse(orders, strlen(orders), NULL, NULL) < 0) {
        sk_query_end(query, SK_VERDICT_UNREADABLE, NULL);
        return;
    }
    struct sk_entry *entry = sk_entry_new(sale, query->voucher, SK_ENTRY_LOOSE, 0);
    if (entry == NULL || !sk_entry_read_orders(sale, query->voucher, orders, strlen(orders), offer, &list)) {
        sk_entry_forget(entry);
        sk_query_end(query, SK_VERDICT_OVERLOADED, NULL);
        return;
    }
    for (; list.head != NULL; requeued++)
        sk_regrant_requeue(query->control->recovery->regrant, entry, list.head);
    dead_letter_end(query, "requeued", requeued);
}

// PostgreSQL has refused the orders; Redis takes back the units of those that it still holds.
static void dead_letter_on_written_off(void *arg, const struct sk_result *result)
{
    struct sk_query *query = arg;
    const struct sk_rows *rows = result->rows;
    struct sk_entry *entry =
        rows == NULL ? NULL : sk_entry_new(query->control->sale, query->voucher, SK_ENTRY_LOOSE, 0);
    if (entry == NULL) {
        sk_query_end(query, SK_VERDICT_UNAVAILABLE, NULL);
        return;
    }
    for (size_t i = 0; i < sk_rows_count(rows); i++)
        sk_entry_note_refused(entry, sk_rows_text(rows, i, 0), sk_rows_text(rows, i, 1),
                              (unsigned)sk_rows_number(rows, i, 2), NULL);
    sk_entry_end(entry);
    dead_letter_end(query, "written_off", sk_rows_count(rows));
}

static void dead_letter_on_row(void *arg, const struct sk_result *result)
{
    struct dead_letter_query *letter = arg;
    struct sk_query *query = &letter->query;
    const struct sk_rows *rows = result->rows;
    if (rows == NULL) {
        sk_query_end(query, SK_VERDICT_UNAVAILABLE, NULL);
        return;
    }
    bool waits = sk_rows_count(rows) > 0 && strcmp(sk_rows_text(rows, 0, 1), "t") == 0; // not written off
    if (sk_rows_count(rows) == 0 || (!waits && !letter->write_off))
        sk_query_end(query, SK_VERDICT_NOT_FOUND, NULL);
    else if (letter->write_off)
        dead_letter_ask(letter, SK_STATEMENT_WRITE_OFF, dead_letter_on_written_off);
    else if (sk_rows_text(rows, 0, 0) == NULL)
        sk_query_end(query, SK_VERDICT_UNREADABLE, NULL);
    else
        dead_letter_requeue(query, sk_rows_text(rows, 0, 0), (int32_t)sk_rows_number(rows, 0, 2));
}

static void dead_letter_on_voucher(struct sk_query *query, enum sk_found found)
{
    if (found == SK_FOUND_LISTED)
        dead_letter_ask((struct dead_letter_query *)query, SK_STATEMENT_FIND_DEAD_LETTER, dead_letter_on_row);
    else
        sk_query_end(query, SK_VERDICT_NOT_FOUND, NULL);
}

void sk_decide_dead_letter(struct sk_control *control, int64_t voucher_id, int64_t letter, bool write_off,
                           uint64_t handle)
{
    struct dead_letter_query *query = sk_query_new(control, SK_PG_COMMANDS, handle, NULL, sizeof *query, NULL);
    if (query == NULL)
        return;
    query->letter = letter;
    query->write_off = write_off;
    sk_query_find(&query->query, voucher_id, dead_letter_on_voucher);
}

void sk_handle_requeue(const struct sk_context *context, struct sk_request *request)
{
    const struct sk_call *call = sk_call_of(request);
    sk_decide_dead_letter(context->control, call->voucher_id, call->dead_letter_id, false, request->handle);
}

void sk_handle_write_off(const struct sk_context *context, struct sk_request *request)
{
    const struct sk_call *call = sk_call_of(request);
    sk_decide_dead_letter(context->control, call->voucher_id, call->dead_letter_id, true, request->handle);
}
