// Each list is one statement. Equal requests share no query: admins are few.
#include "admin_lists.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cursor.h"
#include "entry.h"
#include "moves.h"
#include "params.h"
#include "regrant.h"
#include "text.h"
#include "user_orders.h"
#include "verdict.h"

enum { STATUS_SIZE = 16 };

// What makes a list differ from the others.
struct admin_form {
    enum sk_cursor_kind kind;
    const char *name; // of the member with the rows
    struct sk_page_columns columns;
    void (*start)(struct sk_query *query);
};

struct admin_list {
    struct sk_query query;
    const struct admin_form *form;
    struct sk_page page;
    struct sk_gather gather;                                   // of the lists of all shards
    int64_t voucher_id;                                        // 0: it is no voucher's
    char status[STATUS_SIZE];                                  // empty: any
    char from[SK_PARAM_NUMBER_SIZE], to[SK_PARAM_NUMBER_SIZE]; // Unix ms; empty: any
    unsigned last;
};

static void orders_start(struct sk_query *query);
static void payments_start(struct sk_query *query);
static void to_refund_start(struct sk_query *query);
static void to_refund_on_rows(struct sk_query *query, struct sk_gathered *gathered);
static void admin_events_start(struct sk_query *query);
static void order_events_start(struct sk_query *query);
static void order_events_on_rows(struct sk_query *query, struct sk_gathered *gathered);
static void letters_start(struct sk_query *query);
static void letters_on_voucher(struct sk_query *query, enum sk_found found);

static const struct admin_form orders_form = {
    SK_CURSOR_ADMIN_ORDERS, "orders", {.first = 0, .document = 1, .behind = true}, orders_start};
static const struct admin_form payments_form = {
    SK_CURSOR_PAYMENTS, "payments", {.first = 0, .document = 1}, payments_start};
static const struct admin_form to_refund_form = {
    SK_CURSOR_TO_REFUND, "payments", {.first = 0, .document = 1}, to_refund_start};
static const struct admin_form admin_events_form = {
    SK_CURSOR_ADMIN_EVENTS, "events", {.first = 0, .second = 1, .document = 2}, admin_events_start};
static const struct admin_form order_events_form = {
    SK_CURSOR_ORDER_EVENTS, "events", {.first = 0, .second = 1, .document = 2, .ids = true}, order_events_start};
static const struct admin_form letters_form = {
    SK_CURSOR_DEAD_LETTERS, "dead_letters", {.first = 0, .document = 1}, letters_start};

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
    struct admin_list *list = sk_query_new(control, SK_PG_COMMANDS, handle, NULL, sizeof *list, form->start);
    if (list == NULL)
        return NULL;
    list->form = form;
    list->page = page;
    list->voucher_id = voucher_id;
    list->query.shard = sk_query_shard_of_voucher(&list->query, voucher_id);
    return list;
}

// A list that depends on nothing but its voucher.
static void admin_list_of_voucher(struct sk_control *control, const struct admin_form *form, int64_t voucher_id,
                                  const struct sk_page_asked *ask, uint64_t handle)
{
    struct admin_list *list = admin_list_new(control, form, NULL, voucher_id, ask, handle);
    if (list != NULL)
        sk_query_start(&list->query);
}

static void admin_list_add(struct admin_list *list, const struct sk_gathered *gathered)
{
    struct sk_query *query = &list->query;
    sk_buf_printf(&query->body, "{\"%s\":[", list->form->name);
    sk_page_add(&list->page, &query->body, gathered, &list->form->columns);
    sk_buf_puts(&query->body, gathered->complete ? "]" : "],\"complete\":false");
}

static void admin_list_on_rows(void *arg, const struct sk_result *result)
{
    struct admin_list *list = arg;
    if (result->rows == NULL) {
        sk_query_end(&list->query, SK_VERDICT_UNAVAILABLE, NULL);
        return;
    }
    struct sk_gathered alone = {.rows = {result->rows}, .counts = {sk_rows_count(result->rows)}, .complete = true};
    admin_list_add(list, &alone);
    sk_page_end(&list->page, &list->query);
}

// ---- orders ----

bool sk_order_status_valid(const char *status)
{
    static const char *const all[] = {"unpaid", "paid", "cancelled", "expired", "refused", "refunded"};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (strcmp(status, all[i]) == 0)
            return true;
    }
    return false;
}

static void orders_put_time(char out[SK_PARAM_NUMBER_SIZE], const int64_t *unix_ms)
{
    out[0] = '\0';
    if (unix_ms != NULL)
        (void)sk_params_number(out, *unix_ms);
}

// The readers return false if the request was refused.
static bool lists_read_voucher(const struct sk_context *context, struct sk_request *request, int64_t *id)
{
    const char *text = sk_request_query(request, "voucher", NULL);
    return (text != NULL && sk_text_voucher_id(text, id)) ||
           sk_answer_parameter(context->answers, request, "voucher",
                               text == NULL ? "is required" : sk_verdict_title(SK_VERDICT_BAD_VOUCHER_ID));
}

// *unix_ms is unchanged, and *given NULL, if the parameter was not sent.
static bool orders_read_time(const struct sk_context *context, struct sk_request *request, const char *name,
                             int64_t *unix_ms, const int64_t **given)
{
    const char *text = sk_request_query(request, name, NULL);
    *given = text == NULL ? NULL : unix_ms;
    return text == NULL || sk_text_time(text, unix_ms) ||
           sk_answer_parameter(context->answers, request, name, SK_TIME_DETAIL);
}

static bool orders_read_filter(const struct sk_context *context, struct sk_request *request,
                               struct sk_order_filter *filter, int64_t *from, int64_t *to)
{
    if (!lists_read_voucher(context, request, &filter->voucher_id))
        return false;
    filter->status = sk_request_query(request, "status", NULL);
    if (filter->status != NULL && !sk_order_status_valid(filter->status))
        return sk_answer_parameter(context->answers, request, "status",
                                   "must be unpaid, paid, cancelled, expired, refused or refunded");
    return orders_read_time(context, request, "from", from, &filter->from) &&
           orders_read_time(context, request, "to", to, &filter->to);
}

void sk_handle_admin_orders(const struct sk_context *context, struct sk_request *request)
{
    struct sk_page_asked asked;
    struct sk_order_filter filter = {0};
    int64_t from, to;
    if (sk_page_read_query(context, request, "cursor", &asked) &&
        orders_read_filter(context, request, &filter, &from, &to))
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

void sk_list_all_orders(struct sk_control *control, const struct sk_order_filter *filter,
                        const struct sk_page_asked *ask, uint64_t handle)
{
    char scope[SK_CURSOR_SCOPE_MAX + 1], from[SK_PARAM_NUMBER_SIZE], to[SK_PARAM_NUMBER_SIZE];
    const char *status = filter->status == NULL ? "" : filter->status;
    SK_ASSERT(filter->status == NULL || sk_order_status_valid(status));
    orders_put_time(from, filter->from);
    orders_put_time(to, filter->to);
    (void)snprintf(scope, sizeof scope, "%" PRId64 ":%s:%s:%s", filter->voucher_id, status, from, to);
    struct admin_list *list = admin_list_new(control, &orders_form, scope, filter->voucher_id, ask, handle);
    if (list == NULL)
        return;
    (void)snprintf(list->status, sizeof list->status, "%s", status);
    memcpy(list->from, from, sizeof from);
    memcpy(list->to, to, sizeof to);
    sk_query_start(&list->query);
}

static const char *orders_or_null(const char *text)
{
    return text[0] == '\0' ? NULL : text;
}

static void orders_start(struct sk_query *query)
{
    struct admin_list *list = (struct admin_list *)query;
    char voucher[SK_PARAM_NUMBER_SIZE], before[SK_UUID_SIZE], most[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {sk_params_number(voucher, list->voucher_id),
                            orders_or_null(list->status),
                            orders_or_null(list->from),
                            orders_or_null(list->to),
                            sk_page_id(&list->page, 0, before),
                            sk_page_most(&list->page, most)};
    sk_query_ask_pg(query, SK_STATEMENT_LIST_ALL_ORDERS, 6, params, admin_list_on_rows);
}

// ---- payments ----

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

void sk_handle_find_payment(const struct sk_context *context, struct sk_request *request)
{
    const char *reference = sk_request_query(request, "reference", NULL);
    size_t len = reference == NULL ? 0 : strlen(reference);
    if (len == 0 || len > SK_REFERENCE_MAX || !sk_text_within(reference, '!', '~'))
        (void)sk_answer_parameter(context->answers, request, "reference", "must be 1-64 visible ASCII characters");
    else
        sk_find_payment(context->control, reference, request->handle);
}

void sk_list_payments(struct sk_control *control, int64_t voucher_id, const struct sk_page_asked *ask, uint64_t handle)
{
    admin_list_of_voucher(control, &payments_form, voucher_id, ask, handle);
}

static void payments_start(struct sk_query *query)
{
    struct admin_list *list = (struct admin_list *)query;
    char voucher[SK_PARAM_NUMBER_SIZE], before[SK_UUID_SIZE], most[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {sk_params_number(voucher, list->voucher_id), sk_page_id(&list->page, 0, before),
                            sk_page_most(&list->page, most)};
    sk_query_ask_pg(query, SK_STATEMENT_LIST_PAYMENTS, 3, params, admin_list_on_rows);
}

void sk_list_to_refund(struct sk_control *control, int64_t voucher_id, const struct sk_page_asked *ask, uint64_t handle)
{
    admin_list_of_voucher(control, &to_refund_form, voucher_id, ask, handle);
}

static void to_refund_start(struct sk_query *query)
{
    struct admin_list *list = (struct admin_list *)query;
    char voucher[SK_PARAM_NUMBER_SIZE], before[SK_UUID_SIZE], most[SK_PARAM_NUMBER_SIZE];
    const char *of_voucher = list->voucher_id == 0 ? NULL : sk_params_number(voucher, list->voucher_id);
    sk_gather_begin(&list->gather, query, to_refund_on_rows);
    for (unsigned i = 0; i < (unsigned)list->page.places; i++) {
        const char *params[] = {of_voucher, sk_page_id(&list->page, i, before), sk_page_most(&list->page, most)};
        sk_gather_ask(&list->gather, i, SK_STATEMENT_LIST_TO_REFUND, 3, params);
    }
    sk_gather_end(&list->gather);
}

static void to_refund_on_rows(struct sk_query *query, struct sk_gathered *gathered)
{
    struct admin_list *list = (struct admin_list *)query;
    admin_list_add(list, gathered);
    sk_page_end(&list->page, query);
}

// ---- lists without pages, of all shards ----

struct whole_list {
    struct sk_query query;
    struct sk_gather gather;
    const char *name; // of the member with the rows
    enum sk_statement statement;
    char param[SK_REFERENCE_MAX + 1];
};

static void whole_start(struct sk_query *query);
static void whole_on_rows(struct sk_query *query, struct sk_gathered *gathered);

static void whole_ask(struct sk_control *control, const char *name, enum sk_statement statement, const char *param,
                      uint64_t handle)
{
    struct whole_list *list = sk_query_new(control, SK_PG_COMMANDS, handle, NULL, sizeof *list, whole_start);
    if (list == NULL)
        return;
    list->name = name;
    list->statement = statement;
    (void)snprintf(list->param, sizeof list->param, "%s", param);
    sk_query_start(&list->query);
}

void sk_find_payment(struct sk_control *control, const char *reference, uint64_t handle)
{
    whole_ask(control, "payments", SK_STATEMENT_FIND_PAYMENT, reference, handle);
}

void sk_handle_troubles(const struct sk_context *context, struct sk_request *request)
{
    sk_list_troubles(context->control, request->handle);
}

void sk_list_troubles(struct sk_control *control, uint64_t handle)
{
    char most[SK_PARAM_NUMBER_SIZE];
    whole_ask(control, "troubles", SK_STATEMENT_TROUBLES, sk_params_number(most, SK_PAGE_MOST), handle);
}

static void whole_start(struct sk_query *query)
{
    struct whole_list *list = (struct whole_list *)query;
    const char *params[] = {list->param};
    sk_gather_begin(&list->gather, query, whole_on_rows);
    for (size_t i = 0; i < query->control->sale->shard_count; i++)
        sk_gather_ask(&list->gather, i, list->statement, 1, params);
    sk_gather_end(&list->gather);
}

static void whole_on_rows(struct sk_query *query, struct sk_gathered *gathered)
{
    enum { DOCUMENT = 1 };
    const struct whole_list *list = (struct whole_list *)query;
    const char *comma = "";
    sk_buf_printf(&query->body, "{\"%s\":[", list->name);
    for (size_t i = 0; i < query->control->sale->shard_count; i++) {
        for (size_t row = 0; gathered->rows[i] != NULL && row < gathered->counts[i]; row++) {
            sk_buf_printf(&query->body, "%s%s", comma, sk_rows_text(gathered->rows[i], row, DOCUMENT));
            comma = ",";
        }
    }
    sk_buf_puts(&query->body, gathered->complete ? "]}" : "],\"complete\":false}");
    sk_query_end(query, SK_VERDICT_FOUND, query->body.data);
}

// ---- the audit log of operators ----

void sk_handle_admin_events(const struct sk_context *context, struct sk_request *request)
{
    struct sk_page_asked asked;
    if (sk_page_read_query(context, request, "cursor", &asked))
        sk_list_admin_events(context->control, sk_call_of(request)->voucher_id, &asked, request->handle);
}

void sk_list_admin_events(struct sk_control *control, int64_t voucher_id, const struct sk_page_asked *ask,
                          uint64_t handle)
{
    admin_list_of_voucher(control, &admin_events_form, voucher_id, ask, handle);
}

static void admin_events_start(struct sk_query *query)
{
    struct admin_list *list = (struct admin_list *)query;
    char voucher[SK_PARAM_NUMBER_SIZE], tx[SK_PARAM_NUMBER_SIZE], seq[SK_PARAM_NUMBER_SIZE], most[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {sk_params_number(voucher, list->voucher_id), sk_page_first(&list->page, 0, tx),
                            sk_page_second(&list->page, 0, seq), sk_page_most(&list->page, most)};
    sk_query_ask_pg(query, SK_STATEMENT_LIST_ADMIN_EVENTS, 4, params, admin_list_on_rows);
}

// ---- the feed of order events ----

// Reads how many events before its end the feed begins; 0: not sent. It excludes a cursor. False: the request was
// refused.
static bool order_events_read_last(const struct sk_context *context, struct sk_request *request,
                                   const struct sk_page_asked *asked, unsigned *last)
{
    const char *text = sk_request_query(request, "last", NULL);
    uint64_t number = 0;
    if (text != NULL && asked->cursor != NULL)
        return sk_answer_parameter(context->answers, request, "last", "excludes after");
    if (text != NULL && (!sk_text_number(text, SK_PAGE_MOST, &number) || number == 0))
        return sk_answer_parameter(context->answers, request, "last", SK_PAGE_LIMIT_DETAIL);
    *last = (unsigned)number;
    return true;
}

void sk_handle_order_events(const struct sk_context *context, struct sk_request *request)
{
    struct sk_page_asked asked;
    unsigned last = 0;
    if (sk_page_read_query(context, request, "after", &asked) &&
        order_events_read_last(context, request, &asked, &last))
        sk_list_order_events(context->control, &asked, last, request->handle);
}

void sk_list_order_events(struct sk_control *control, const struct sk_page_asked *ask, unsigned last, uint64_t handle)
{
    SK_ASSERT(last == 0 || ask->cursor == NULL);
    struct admin_list *list = admin_list_new(control, &order_events_form, "", 0, ask, handle);
    if (list == NULL)
        return;
    list->last = last;
    sk_query_start(&list->query);
}

static void order_events_start(struct sk_query *query)
{
    struct admin_list *list = (struct admin_list *)query;
    unsigned shards = (unsigned)list->page.places;
    char tx[SK_PARAM_NUMBER_SIZE], seq[SK_PARAM_NUMBER_SIZE], last[SK_PARAM_NUMBER_SIZE], most[SK_PARAM_NUMBER_SIZE];
    const char *latest[] = {sk_params_number(last, list->last), sk_params_number(most, list->page.limit)};
    sk_gather_begin(&list->gather, query, order_events_on_rows);
    for (unsigned i = 0; i < shards; i++) {
        const char *after[] = {sk_page_first(&list->page, i, tx), sk_page_second(&list->page, i, seq), latest[1]};
        if (list->last > 0)
            sk_gather_ask(&list->gather, i, SK_STATEMENT_LATEST_EVENTS, 2, latest);
        else
            sk_gather_ask(&list->gather, i, SK_STATEMENT_ORDER_EVENTS, 3, after);
    }
    sk_gather_end(&list->gather);
}

// The end of the feed was asked for: the page begins right before the first row of each shard. A shard without rows has
// no event yet.
static void order_events_begin(struct admin_list *list, const struct sk_gathered *gathered)
{
    const struct sk_page_columns *columns = &list->form->columns;
    for (size_t i = 0; i < list->page.places; i++) {
        if (gathered->counts[i] > 0)
            list->page.after[i] =
                (struct sk_position){(uint64_t)sk_rows_number(gathered->rows[i], 0, columns->first),
                                     (uint64_t)sk_rows_number(gathered->rows[i], 0, columns->second) - 1};
    }
}

// `next` follows the last event, even if there is no later event yet. A shard that is away has an end, but it is not
// known here: a cursor without it would begin at that shard's first event.
static void order_events_on_rows(struct sk_query *query, struct sk_gathered *gathered)
{
    struct admin_list *list = (struct admin_list *)query;
    if (list->last > 0 && !gathered->complete) {
        sk_query_end(query, SK_VERDICT_UNAVAILABLE, NULL);
        return;
    }
    if (list->last > 0)
        order_events_begin(list, gathered);
    admin_list_add(list, gathered);
    sk_page_go_on(&list->page);
    sk_page_end(&list->page, query);
}

// ---- dead letters ----
//
// A dead letter ends when PostgreSQL has its orders, as placed or as refused; nothing else marks it. So after a lost
// answer, or the death of an instance half-way, the dead letter can be decided again.

struct dead_letter_query {
    struct sk_query query;
    int64_t voucher_id, letter;
    bool write_off;
    size_t orders;
};

static void dead_letter_start(struct sk_query *query);
static void dead_letter_on_voucher(struct sk_query *query, enum sk_found found);
static void dead_letter_on_row(void *arg, const struct sk_result *result);
static void dead_letter_requeue(struct dead_letter_query *letter, const char *orders, int32_t offer);
static void dead_letter_on_written_off(void *arg, const struct sk_result *result);

void sk_list_dead_letters(struct sk_control *control, int64_t voucher_id, const struct sk_page_asked *ask,
                          uint64_t handle)
{
    admin_list_of_voucher(control, &letters_form, voucher_id, ask, handle);
}

void sk_handle_dead_letters(const struct sk_context *context, struct sk_request *request)
{
    struct sk_page_asked asked;
    if (sk_page_read_query(context, request, "cursor", &asked))
        sk_list_dead_letters(context->control, sk_call_of(request)->voucher_id, &asked, request->handle);
}

static void letters_start(struct sk_query *query)
{
    sk_query_find(query, ((struct admin_list *)query)->voucher_id, letters_on_voucher);
}

static void letters_on_voucher(struct sk_query *query, enum sk_found found)
{
    struct admin_list *list = (struct admin_list *)query;
    if (found != SK_FOUND_LISTED) { // a retired voucher has no open dead letter
        sk_query_end(query, SK_VERDICT_FOUND, "{\"dead_letters\":[]}");
        return;
    }
    char slot[SK_PARAM_NUMBER_SIZE], id[SK_PARAM_NUMBER_SIZE], after[SK_PARAM_NUMBER_SIZE], most[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {sk_params_number(slot, query->voucher->slot), sk_params_number(id, list->voucher_id),
                            sk_page_first(&list->page, 0, after), sk_page_most(&list->page, most)};
    sk_query_ask_pg(query, SK_STATEMENT_LIST_DEAD_LETTERS, 4, params, admin_list_on_rows);
}

// ---- one dead letter ----

void sk_decide_dead_letter(struct sk_control *control, int64_t voucher_id, int64_t letter, bool write_off,
                           uint64_t handle)
{
    struct dead_letter_query *query =
        sk_query_new(control, SK_PG_COMMANDS, handle, NULL, sizeof *query, dead_letter_start);
    if (query == NULL)
        return;
    query->voucher_id = voucher_id;
    query->letter = letter;
    query->write_off = write_off;
    sk_query_start(&query->query);
}

static void dead_letter_decide(const struct sk_context *context, struct sk_request *request, bool write_off)
{
    const struct sk_call *call = sk_call_of(request);
    sk_decide_dead_letter(context->control, call->voucher_id, call->dead_letter_id, write_off, request->handle);
}

void sk_handle_requeue(const struct sk_context *context, struct sk_request *request)
{
    dead_letter_decide(context, request, false);
}

void sk_handle_write_off(const struct sk_context *context, struct sk_request *request)
{
    dead_letter_decide(context, request, true);
}

static void dead_letter_ask(struct dead_letter_query *letter, enum sk_statement statement, sk_pg_cb *done)
{
    char slot[SK_PARAM_NUMBER_SIZE], voucher[SK_PARAM_NUMBER_SIZE], id[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {sk_params_number(slot, letter->query.voucher->slot),
                            sk_params_number(voucher, letter->voucher_id), sk_params_number(id, letter->letter)};
    sk_query_ask_pg(&letter->query, statement, 3, params, done);
}

static void dead_letter_start(struct sk_query *query)
{
    sk_query_find(query, ((struct dead_letter_query *)query)->voucher_id, dead_letter_on_voucher);
}

// A retired voucher has no open dead letter.
static void dead_letter_on_voucher(struct sk_query *query, enum sk_found found)
{
    if (found == SK_FOUND_LISTED)
        dead_letter_ask((struct dead_letter_query *)query, SK_STATEMENT_FIND_DEAD_LETTER, dead_letter_on_row);
    else
        sk_query_end(query, SK_VERDICT_NOT_FOUND, NULL);
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
    if (sk_rows_count(rows) == 0 || (!waits && !letter->write_off)) {
        sk_query_end(query, SK_VERDICT_NOT_FOUND, NULL);
        return;
    }
    if (letter->write_off)
        dead_letter_ask(letter, SK_STATEMENT_WRITE_OFF, dead_letter_on_written_off);
    else if (sk_rows_text(rows, 0, 0) == NULL)
        sk_query_end(query, SK_VERDICT_UNREADABLE, NULL);
    else
        dead_letter_requeue(letter, sk_rows_text(rows, 0, 0), (int32_t)sk_rows_number(rows, 0, 2));
}

// Answers with the number of its orders.
static void dead_letter_end_counted(struct dead_letter_query *letter, const char *what)
{
    sk_buf_printf(&letter->query.body, "{\"%s\":%zu}", what, letter->orders);
    sk_query_end(&letter->query, SK_VERDICT_FOUND, letter->query.body.data);
}

static void dead_letter_requeue(struct dead_letter_query *letter, const char *orders, int32_t offer)
{
    const struct sk_sale *sale = letter->query.control->sale;
    struct sk_order_list list = {0};
    if (sk_journal_parse(orders, strlen(orders), NULL, NULL) < 0) {
        sk_query_end(&letter->query, SK_VERDICT_UNREADABLE, NULL);
        return;
    }
    struct sk_entry *entry = sk_entry_new(sale, letter->query.voucher, SK_ENTRY_LOOSE, 0);
    if (entry == NULL || !sk_entry_read_orders(sale, letter->query.voucher, orders, strlen(orders), offer, &list)) {
        sk_entry_forget(entry);
        sk_query_end(&letter->query, SK_VERDICT_OVERLOADED, NULL);
        return;
    }
    for (; list.head != NULL; letter->orders++)
        sk_regrant_requeue(letter->query.control->recovery->regrant, entry, list.head);
    dead_letter_end_counted(letter, "requeued");
}

// PostgreSQL has refused the orders; Redis takes back the units of those that it still holds.
static void dead_letter_on_written_off(void *arg, const struct sk_result *result)
{
    struct dead_letter_query *letter = arg;
    const struct sk_sale *sale = letter->query.control->sale;
    const struct sk_rows *rows = result->rows;
    struct sk_entry *entry = rows == NULL ? NULL : sk_entry_new(sale, letter->query.voucher, SK_ENTRY_LOOSE, 0);
    if (entry == NULL) {
        sk_query_end(&letter->query, SK_VERDICT_UNAVAILABLE, NULL);
        return;
    }
    for (size_t i = 0; i < sk_rows_count(rows); i++) {
        sk_entry_note_refused(entry, sk_rows_text(rows, i, 0), sk_rows_text(rows, i, 1),
                              (unsigned)sk_rows_number(rows, i, 2), NULL);
        letter->orders++;
    }
    sk_entry_end(entry);
    dead_letter_end_counted(letter, "written_off");
}
