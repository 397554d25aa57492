// Each list is one statement. Equal requests share no query: admins are few.
#include "admin_lists.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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
