// While PostgreSQL writes one batch the next one gathers, so batches grow under load by themselves. Vouchers take
// turns. A failure is answered as such, since nothing depends on the order yet.
#include "line.h"

#include <string.h>

#include "failpoint.h"
#include "full_line.h"
#include "params.h"

enum { COLUMN_N, COLUMN_OUTCOME, COLUMN_ORDER, COLUMN_PLACE, COLUMN_VOUCHER, COLUMN_JOINED }; // of join_orders.sql

struct sk_line {
    const struct sk_sale *sale;
    const struct sk_shard *shard;
    struct sk_voucher *first, *last; // those with orders that wait for a batch; pinned
    // The batch that PostgreSQL is writing.
    struct sk_voucher *voucher; // pinned; NULL: PostgreSQL has no batch
    uint64_t asked_at_ms;
    struct sk_order_list orders;
    struct sk_order **rows;                 // owned: in the order of the parameters; NULL: answered
    size_t n;                               // of them
    struct sk_buf ids, users, keys, offers; // owned: the parameters
};

// ---- the queue ----

static void line_enqueue(struct sk_line *line, struct sk_voucher *voucher)
{
    struct sk_joining *joining = &voucher->joining;
    if (joining->listed)
        return;
    sk_voucher_pin(voucher);
    joining->listed = true;
    joining->next = NULL;
    if (line->last == NULL)
        line->first = voucher;
    else
        line->last->joining.next = voucher;
    line->last = voucher;
}

// The caller unpins it.
static struct sk_voucher *line_dequeue(struct sk_line *line)
{
    struct sk_voucher *voucher = line->first;
    line->first = voucher->joining.next;
    if (line->first == NULL)
        line->last = NULL;
    voucher->joining.listed = false;
    return voucher;
}

void sk_line_add(struct sk_line *line, struct sk_voucher *voucher, struct sk_order *order)
{
    SK_ASSERT(order->quantity == 1);
    sk_order_move(line->sale->orders, order, SK_ORDER_JOINING, &voucher->joining.orders);
    line_enqueue(line, voucher);
}

// ---- answers ----

static void line_answer(const struct sk_line *line, struct sk_order *order, const struct sk_purchase_result *result)
{
    sk_sale_report_with(line->sale, order, result);
    sk_order_give(line->sale->orders, order);
}

static void line_answer_all(const struct sk_line *line, struct sk_order_list *orders, enum sk_purchase_code code)
{
    const struct sk_purchase_result result = {.code = code};
    while (orders->head != NULL)
        line_answer(line, orders->head, &result);
}

static enum sk_purchase_code line_code(const char *outcome)
{
    static const struct {
        const char *outcome;
        enum sk_purchase_code code;
    } all[] = {
        {"waiting", SK_PURCHASE_WAITING},
        {"already_ordered", SK_PURCHASE_ALREADY_ORDERED},
        {"repeated", SK_PURCHASE_ALREADY_ORDERED},
        {"reused", SK_PURCHASE_IDEMPOTENCY_KEY_REUSED},
        {"most", SK_PURCHASE_TOO_MANY_ORDERS},
        {"full", SK_PURCHASE_WAITLIST_FULL},
        {"held", SK_PURCHASE_WAITLIST_FULL}, // a place will be free in a moment
        {"none", SK_PURCHASE_SOLD_OUT},
        {"not_started", SK_PURCHASE_NOT_STARTED},
        {"paused", SK_PURCHASE_PAUSED},
        {"ended", SK_PURCHASE_ENDED},
    };
    for (size_t i = 0; outcome != NULL && i < sizeof all / sizeof all[0]; i++) {
        if (strcmp(all[i].outcome, outcome) == 0)
            return all[i].code;
    }
    return SK_PURCHASE_UNAVAILABLE;
}

static void line_answer_row(struct sk_line *line, const struct sk_rows *rows, size_t row)
{
    int64_t n = sk_rows_number(rows, row, COLUMN_N);
    const char *outcome = sk_rows_text(rows, row, COLUMN_OUTCOME);
    if (n < 1 || (size_t)n > line->n || line->rows[n - 1] == NULL)
        return;
    struct sk_order *order = line->rows[n - 1];
    line->rows[n - 1] = NULL;
    struct sk_purchase_result result = {.code = line_code(outcome),
                                        .order_id = sk_rows_text(rows, row, COLUMN_ORDER),
                                        .voucher_id = sk_rows_number(rows, row, COLUMN_VOUCHER),
                                        .price = order->price.currency[0] == '\0' ? NULL : &order->price};
    if (result.code == SK_PURCHASE_WAITING)
        result.left = sk_rows_number(rows, row, COLUMN_PLACE);
    result.repeats = result.code == SK_PURCHASE_ALREADY_ORDERED && strcmp(outcome, "repeated") == 0;
    if (outcome != NULL && strcmp(outcome, "full") == 0)
        sk_full_line_note(line->sale, line->voucher, line->asked_at_ms, sk_rows_number(rows, row, COLUMN_JOINED));
    sk_metrics_add(line->sale->metrics, SK_METRIC_ORDERS_JOINED, result.code == SK_PURCHASE_WAITING);
    line_answer(line, order, &result);
}

static void line_on_joined(void *arg, const struct sk_result *result)
{
    struct sk_line *line = arg;
    struct sk_voucher *voucher = line->voucher;
    SK_FAILPOINT("line.joined");
    for (size_t row = 0; result->rows != NULL && row < sk_rows_count(result->rows); row++)
        line_answer_row(line, result->rows, row);
    line_answer_all(line, &line->orders, SK_PURCHASE_UNAVAILABLE); // who has no row
    line->voucher = NULL;
    sk_voucher_unpin(voucher);
    sk_line_flush(line);
}

// ---- batches ----

static enum sk_status line_send(struct sk_line *line, struct sk_voucher *voucher)
{
    char slot[SK_PARAM_NUMBER_SIZE], id[SK_PARAM_NUMBER_SIZE], number[SK_PARAM_NUMBER_SIZE];
    char key[SK_JOURNAL_KEY_SIZE];
    struct sk_order *order;
    line->n = 0;
    sk_params_begin(&line->ids);
    sk_params_begin(&line->users);
    sk_params_begin(&line->keys);
    sk_params_begin(&line->offers);
    while (line->n < (size_t)line->sale->options->batch_max && (order = voucher->joining.orders.head) != NULL) {
        sk_order_move(line->sale->orders, order, SK_ORDER_JOINING, &line->orders);
        line->rows[line->n++] = order;
        sk_params_add(&line->ids, order->id);
        sk_params_add_text(&line->users, order->user);
        sk_params_add(&line->keys, order->key == 0 ? "NULL" : sk_journal_key(order->key, key));
        sk_params_add(&line->offers, sk_params_number(number, order->offer));
    }
    const char *params[] = {
        sk_params_number(slot, voucher->slot), sk_params_number(id, voucher->id), sk_params_end(&line->ids),
        sk_params_end(&line->users),           sk_params_end(&line->keys),        sk_params_end(&line->offers)};
    for (size_t i = 0; i < sizeof params / sizeof params[0]; i++) {
        if (params[i] == NULL)
            return SK_NO_MEM;
    }
    line->asked_at_ms = uv_now(line->sale->loop);
    return sk_pg_call(line->shard->orders, SK_STATEMENT_JOIN_ORDERS, 6, params, line_on_joined, line);
}

void sk_line_flush(struct sk_line *line)
{
    while (line->voucher == NULL && line->first != NULL) {
        struct sk_voucher *voucher = line_dequeue(line);
        if (line_send(line, voucher) == SK_OK)
            line->voucher = voucher;
        else
            line_answer_all(line, &line->orders, SK_PURCHASE_UNAVAILABLE);
        if (voucher->joining.orders.head != NULL)
            line_enqueue(line, voucher);
        if (line->voucher == NULL)
            sk_voucher_unpin(voucher);
    }
}

bool sk_line_idle(const struct sk_line *line)
{
    return line->voucher == NULL && line->first == NULL;
}

// ---- opening, and closing ----

struct sk_line *sk_line_open(const struct sk_sale *sale, const struct sk_shard *shard)
{
    struct sk_line *line = calloc(1, sizeof *line);
    if (line == NULL)
        return NULL;
    line->sale = sale;
    line->shard = shard;
    line->rows = calloc((size_t)sale->options->batch_max, sizeof(struct sk_order *));
    if (line->rows != NULL)
        return line;
    sk_line_close(line);
    return NULL;
}

void sk_line_close(struct sk_line *line)
{
    if (line == NULL)
        return;
    while (line->first != NULL) {
        struct sk_voucher *voucher = line_dequeue(line);
        line_answer_all(line, &voucher->joining.orders, SK_PURCHASE_UNAVAILABLE);
        sk_voucher_unpin(voucher);
    }
    sk_buf_free(&line->ids);
    sk_buf_free(&line->users);
    sk_buf_free(&line->keys);
    sk_buf_free(&line->offers);
    free(line->rows);
    free(line);
}
