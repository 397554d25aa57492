// Each list is one statement. Equal requests share no query: admins are few.
#include "admin_lists.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "entry.h"
#include "params.h"

enum { STATUS_SIZE = 16 };

struct admin_list {
    struct sk_query query;
    struct sk_page page;
    int64_t voucher_id;
    char status[STATUS_SIZE];                                  // empty: any
    char from[SK_PARAM_NUMBER_SIZE], to[SK_PARAM_NUMBER_SIZE]; // Unix ms; empty: any
    unsigned last;
};

static void orders_start(struct sk_query *query);
static void orders_on_rows(void *arg, const struct sk_result *result);
static void payments_start(struct sk_query *query);
static void payments_on_rows(void *arg, const struct sk_result *result);
static void admin_events_start(struct sk_query *query);
static void admin_events_on_rows(void *arg, const struct sk_result *result);
static void order_events_start(struct sk_query *query);
static void order_events_on_rows(void *arg, const struct sk_result *result);

// False: there are no rows, and the query was ended.
static bool admin_list_add(struct admin_list *list, const struct sk_result *result, const char *name,
                           const struct sk_page_columns *columns)
{
    struct sk_query *query = &list->query;
    if (result->rows == NULL) {
        sk_query_end(query, SK_VERDICT_UNAVAILABLE, NULL);
        return false;
    }
    sk_buf_printf(&query->body, "{\"%s\":[", name);
    sk_page_add(&list->page, &query->body, result->rows, sk_rows_count(result->rows), columns);
    sk_buf_puts(&query->body, "]");
    return true;
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

// *unix_ms is unchanged, and *given NULL, if the parameter was not sent.
static bool orders_read_time(const struct sk_request *request, const char *name, int64_t *unix_ms,
                             const int64_t **given)
{
    const char *text;
    if (!sk_page_parameter(request, name, &text))
        return false;
    *given = text == NULL ? NULL : unix_ms;
    return text == NULL || sk_text_time(text, unix_ms);
}

static bool orders_read_filter(const struct sk_request *request, struct sk_order_filter *filter, int64_t *from,
                               int64_t *to)
{
    const char *voucher;
    return sk_page_parameter(request, "voucher", &voucher) && voucher != NULL &&
           sk_text_voucher_id(voucher, &filter->voucher_id) && sk_page_parameter(request, "status", &filter->status) &&
           (filter->status == NULL || sk_order_status_valid(filter->status)) &&
           orders_read_time(request, "from", from, &filter->from) && orders_read_time(request, "to", to, &filter->to);
}

void sk_handle_admin_orders(const struct sk_context *context, struct sk_request *request)
{
    struct sk_page_asked asked;
    struct sk_order_filter filter = {0};
    int64_t from, to;
    if (sk_page_read_query(request, "cursor", &asked) && orders_read_filter(request, &filter, &from, &to))
        sk_list_all_orders(context->control, &filter, &asked, request->handle);
    else
        sk_answer_refusal(context->answers, request, SK_VERDICT_BAD_PARAMETER);
}

void sk_list_all_orders(struct sk_control *control, const struct sk_order_filter *filter,
                        const struct sk_page_asked *ask, uint64_t handle)
{
    char scope[SK_CURSOR_SCOPE_MAX + 1], from[SK_PARAM_NUMBER_SIZE], to[SK_PARAM_NUMBER_SIZE];
    struct sk_page page;
    const char *status = filter->status == NULL ? "" : filter->status;
    SK_ASSERT(filter->status == NULL || sk_order_status_valid(status));
    orders_put_time(from, filter->from);
    orders_put_time(to, filter->to);
    (void)snprintf(scope, sizeof scope, "%" PRId64 ":%s:%s:%s", filter->voucher_id, status, from, to);
    if (!sk_page_begin(&page, control, SK_CURSOR_ADMIN_ORDERS, scope, ask, handle))
        return;
    struct admin_list *list = sk_query_new(control, SK_PG_COMMANDS, handle, NULL, sizeof *list, orders_start);
    if (list == NULL)
        return;
    list->page = page;
    list->voucher_id = filter->voucher_id;
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
                            sk_page_id(&list->page, before),
                            sk_page_most(&list->page, most)};
    sk_query_ask_pg(query, SK_STATEMENT_LIST_ALL_ORDERS, 6, params, orders_on_rows);
}

static void orders_on_rows(void *arg, const struct sk_result *result)
{
    enum { ID, DOCUMENT };
    static const struct sk_page_columns columns = {.first = ID, .document = DOCUMENT, .behind = true};
    struct admin_list *list = arg;
    if (admin_list_add(list, result, "orders", &columns))
        sk_page_end(&list->page, &list->query);
}

// ---- payments ----

void sk_handle_admin_payments(const struct sk_context *context, struct sk_request *request)
{
    struct sk_page_asked asked;
    const char *voucher;
    int64_t voucher_id;
    if (sk_page_read_query(request, "cursor", &asked) && sk_page_parameter(request, "voucher", &voucher) &&
        voucher != NULL && sk_text_voucher_id(voucher, &voucher_id))
        sk_list_payments(context->control, voucher_id, &asked, request->handle);
    else
        sk_answer_refusal(context->answers, request, SK_VERDICT_BAD_PARAMETER);
}

void sk_list_payments(struct sk_control *control, int64_t voucher_id, const struct sk_page_asked *ask, uint64_t handle)
{
    char scope[SK_PARAM_NUMBER_SIZE];
    struct sk_page page;
    if (!sk_page_begin(&page, control, SK_CURSOR_PAYMENTS, sk_params_number(scope, voucher_id), ask, handle))
        return;
    struct admin_list *list = sk_query_new(control, SK_PG_COMMANDS, handle, NULL, sizeof *list, payments_start);
    if (list == NULL)
        return;
    list->page = page;
    list->voucher_id = voucher_id;
    sk_query_start(&list->query);
}

static void payments_start(struct sk_query *query)
{
    struct admin_list *list = (struct admin_list *)query;
    char voucher[SK_PARAM_NUMBER_SIZE], before[SK_UUID_SIZE], most[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {sk_params_number(voucher, list->voucher_id), sk_page_id(&list->page, before),
                            sk_page_most(&list->page, most)};
    sk_query_ask_pg(query, SK_STATEMENT_LIST_PAYMENTS, 3, params, payments_on_rows);
}

static void payments_on_rows(void *arg, const struct sk_result *result)
{
    enum { ID, DOCUMENTS };
    static const struct sk_page_columns columns = {.first = ID, .document = DOCUMENTS};
    struct admin_list *list = arg;
    if (admin_list_add(list, result, "payments", &columns))
        sk_page_end(&list->page, &list->query);
}

// ---- the audit log of operators ----

void sk_handle_admin_events(const struct sk_context *context, struct sk_request *request)
{
    struct sk_page_asked asked;
    if (sk_page_read_query(request, "cursor", &asked))
        sk_list_admin_events(context->control, sk_call_of(request)->voucher_id, &asked, request->handle);
    else
        sk_answer_refusal(context->answers, request, SK_VERDICT_BAD_PARAMETER);
}

void sk_list_admin_events(struct sk_control *control, int64_t voucher_id, const struct sk_page_asked *ask,
                          uint64_t handle)
{
    char scope[SK_PARAM_NUMBER_SIZE];
    struct sk_page page;
    if (!sk_page_begin(&page, control, SK_CURSOR_ADMIN_EVENTS, sk_params_number(scope, voucher_id), ask, handle))
        return;
    struct admin_list *list = sk_query_new(control, SK_PG_COMMANDS, handle, NULL, sizeof *list, admin_events_start);
    if (list == NULL)
        return;
    list->page = page;
    list->voucher_id = voucher_id;
    sk_query_start(&list->query);
}

static void admin_events_start(struct sk_query *query)
{
    struct admin_list *list = (struct admin_list *)query;
    char voucher[SK_PARAM_NUMBER_SIZE], tx[SK_PARAM_NUMBER_SIZE], seq[SK_PARAM_NUMBER_SIZE], most[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {sk_params_number(voucher, list->voucher_id), sk_page_first(&list->page, tx),
                            sk_page_second(&list->page, seq), sk_page_most(&list->page, most)};
    sk_query_ask_pg(query, SK_STATEMENT_LIST_ADMIN_EVENTS, 4, params, admin_events_on_rows);
}

static const struct sk_page_columns event_columns = {.first = 0, .second = 1, .document = 2};

static void admin_events_on_rows(void *arg, const struct sk_result *result)
{
    struct admin_list *list = arg;
    if (admin_list_add(list, result, "events", &event_columns))
        sk_page_end(&list->page, &list->query);
}

// ---- the feed of order events ----

// Reads how many events before its end the feed begins; 0: not sent. It excludes a cursor.
static bool order_events_read_last(const struct sk_request *request, const struct sk_page_asked *asked, unsigned *last)
{
    const char *text;
    uint64_t number = 0;
    if (!sk_page_parameter(request, "last", &text))
        return false;
    if (text != NULL && (asked->cursor != NULL || !sk_text_number(text, SK_PAGE_MOST, &number) || number == 0))
        return false;
    *last = (unsigned)number;
    return true;
}

void sk_handle_order_events(const struct sk_context *context, struct sk_request *request)
{
    struct sk_page_asked asked;
    unsigned last;
    if (sk_page_read_query(request, "after", &asked) && order_events_read_last(request, &asked, &last))
        sk_list_order_events(context->control, &asked, last, request->handle);
    else
        sk_answer_refusal(context->answers, request, SK_VERDICT_BAD_PARAMETER);
}

void sk_list_order_events(struct sk_control *control, const struct sk_page_asked *ask, unsigned last, uint64_t handle)
{
    struct sk_page page;
    SK_ASSERT(last == 0 || ask->cursor == NULL);
    if (!sk_page_begin(&page, control, SK_CURSOR_ORDER_EVENTS, "", ask, handle))
        return;
    struct admin_list *list = sk_query_new(control, SK_PG_COMMANDS, handle, NULL, sizeof *list, order_events_start);
    if (list == NULL)
        return;
    list->page = page;
    list->last = last;
    sk_query_start(&list->query);
}

static void order_events_start(struct sk_query *query)
{
    struct admin_list *list = (struct admin_list *)query;
    char tx[SK_PARAM_NUMBER_SIZE], seq[SK_PARAM_NUMBER_SIZE], last[SK_PARAM_NUMBER_SIZE], most[SK_PARAM_NUMBER_SIZE];
    const char *after[] = {sk_page_first(&list->page, tx), sk_page_second(&list->page, seq),
                           sk_params_number(most, list->page.limit)};
    const char *latest[] = {sk_params_number(last, list->last), after[2]};
    if (list->last > 0)
        sk_query_ask_pg(query, SK_STATEMENT_LATEST_EVENTS, 2, latest, order_events_on_rows);
    else
        sk_query_ask_pg(query, SK_STATEMENT_ORDER_EVENTS, 3, after, order_events_on_rows);
}

// `next` follows the last event, even if there is no later event yet.
static void order_events_on_rows(void *arg, const struct sk_result *result)
{
    struct admin_list *list = arg;
    struct sk_page_columns columns = event_columns;
    columns.ids = true;
    if (!admin_list_add(list, result, "events", &columns))
        return;
    struct sk_position last = list->page.after;
    size_t count = sk_rows_count(result->rows);
    if (count > 0) {
        last.first = (uint64_t)sk_rows_number(result->rows, count - 1, columns.first);
        last.second = (uint64_t)sk_rows_number(result->rows, count - 1, columns.second);
    }
    sk_cursor_put(list->page.next, list->page.kind, list->page.scope, &last);
    sk_page_end(&list->page, &list->query);
}

// ---- dead letters ----
//
// A dead letter ends when PostgreSQL has its orders, as placed or as refused; nothing else marks it. So after a lost
// answer, or the death of an instance half-way, the dead letter can be decided again.

struct dead_letter_query {
    struct sk_query query;
    struct sk_page page; // of the list
    int64_t voucher_id, letter;
    bool write_off;
    size_t orders;
};

static void dead_letter_start(struct sk_query *query);
static void dead_letter_on_voucher(struct sk_query *query, enum sk_found found);
static void dead_letter_on_row(void *arg, const struct sk_result *result);
static void dead_letter_requeue(struct dead_letter_query *letter, const char *orders, int32_t offer);
static void dead_letter_on_written_off(void *arg, const struct sk_result *result);

static void list_start(struct sk_query *query);
static void list_on_voucher(struct sk_query *query, enum sk_found found);
static void list_on_rows(void *arg, const struct sk_result *result);

// ---- the list ----

void sk_handle_dead_letters(const struct sk_context *context, struct sk_request *request)
{
    struct sk_page_asked asked;
    if (sk_page_read_query(request, "cursor", &asked))
        sk_dead_letters_list(context->control, sk_call_of(request)->voucher_id, &asked, request->handle);
    else
        sk_answer_refusal(context->answers, request, SK_VERDICT_BAD_PARAMETER);
}

void sk_dead_letters_list(struct sk_control *control, int64_t voucher_id, const struct sk_page_asked *ask,
                          uint64_t handle)
{
    char scope[SK_PARAM_NUMBER_SIZE];
    struct sk_page page;
    if (!sk_page_begin(&page, control, SK_CURSOR_DEAD_LETTERS, sk_params_number(scope, voucher_id), ask, handle))
        return;
    struct dead_letter_query *letter = sk_query_new(control, SK_PG_COMMANDS, handle, NULL, sizeof *letter, list_start);
    if (letter == NULL)
        return;
    letter->page = page;
    letter->voucher_id = voucher_id;
    sk_query_start(&letter->query);
}

static void list_start(struct sk_query *query)
{
    sk_query_find(query, ((struct dead_letter_query *)query)->voucher_id, list_on_voucher);
}

static void list_on_voucher(struct sk_query *query, enum sk_found found)
{
    struct dead_letter_query *letter = (struct dead_letter_query *)query;
    if (found != SK_FOUND_LISTED) { // a retired voucher has no open dead letter
        sk_query_end(query, SK_VERDICT_FOUND, "{\"dead_letters\":[]}");
        return;
    }
    char slot[SK_PARAM_NUMBER_SIZE], id[SK_PARAM_NUMBER_SIZE], after[SK_PARAM_NUMBER_SIZE], most[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {sk_params_number(slot, query->voucher->slot), sk_params_number(id, letter->voucher_id),
                            sk_page_first(&letter->page, after), sk_page_most(&letter->page, most)};
    sk_query_ask_pg(query, SK_STATEMENT_LIST_DEAD_LETTERS, 4, params, list_on_rows);
}

static void list_on_rows(void *arg, const struct sk_result *result)
{
    struct dead_letter_query *letter = arg;
    struct sk_query *query = &letter->query;
    const struct sk_rows *rows = result->rows;
    if (rows == NULL) {
        sk_query_end(query, SK_VERDICT_UNAVAILABLE, NULL);
        return;
    }
    sk_buf_puts(&query->body, "{\"dead_letters\":[");
    sk_page_add(&letter->page, &query->body, rows, sk_rows_count(rows),
                &(struct sk_page_columns){.first = 0, .document = 1});
    sk_buf_puts(&query->body, "]");
    sk_page_end(&letter->page, query);
}

// ---- one dead letter ----

void sk_handle_requeue(const struct sk_context *context, struct sk_request *request)
{
    const struct sk_call *call = sk_call_of(request);
    sk_dead_letters_requeue(context->control, call->voucher_id, call->dead_letter_id, request->handle);
}

void sk_handle_write_off(const struct sk_context *context, struct sk_request *request)
{
    const struct sk_call *call = sk_call_of(request);
    sk_dead_letters_write_off(context->control, call->voucher_id, call->dead_letter_id, request->handle);
}

static void dead_letter_begin(struct sk_control *control, int64_t voucher_id, int64_t id, bool write_off,
                              uint64_t handle)
{
    struct dead_letter_query *letter =
        sk_query_new(control, SK_PG_COMMANDS, handle, NULL, sizeof *letter, dead_letter_start);
    if (letter == NULL)
        return;
    letter->voucher_id = voucher_id;
    letter->letter = id;
    letter->write_off = write_off;
    sk_query_start(&letter->query);
}

void sk_dead_letters_requeue(struct sk_control *control, int64_t voucher_id, int64_t letter, uint64_t handle)
{
    dead_letter_begin(control, voucher_id, letter, false, handle);
}

void sk_dead_letters_write_off(struct sk_control *control, int64_t voucher_id, int64_t letter, uint64_t handle)
{
    dead_letter_begin(control, voucher_id, letter, true, handle);
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
    struct sk_entry *entry = sk_entry_new(sale, letter->query.voucher, SK_ENTRY_LOOSE, "");
    if (entry == NULL || !sk_entry_read_orders(sale, orders, strlen(orders), offer, &list)) {
        if (entry != NULL)
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
    struct sk_entry *entry = rows == NULL ? NULL : sk_entry_new(sale, letter->query.voucher, SK_ENTRY_LOOSE, "");
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
