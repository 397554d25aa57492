// A dead letter ends when PostgreSQL has its orders, as placed or as refused; nothing else marks it. So after a lost
// answer, or the death of an instance half-way, the dead letter can be decided again.
#include "dead_letters.h"

#include <stdio.h>
#include <string.h>

#include "entry.h"
#include "params.h"

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
