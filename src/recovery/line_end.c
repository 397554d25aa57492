// PostgreSQL compares the window once more, by its own clock and under the voucher's row lock: nobody joins after it.
#include "line_end.h"

#include <stdlib.h>

#include "clock.h"
#include "maintenance.h"
#include "params.h"

enum { BATCH = 500 }; // short enough for other vouchers' statements on the link

struct line_end {
    const struct sk_sale *sale;
    struct sk_voucher *voucher; // pinned
};

static void line_end_on_refused(void *arg, const struct sk_result *result);

static void line_end_stop(struct line_end *end)
{
    end->voucher->maintenance->line_ending = false;
    sk_voucher_unpin(end->voucher);
    free(end);
}

static void line_end_ask(struct line_end *end)
{
    char slot[SK_PARAM_NUMBER_SIZE], id[SK_PARAM_NUMBER_SIZE], most[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {sk_params_number(slot, end->voucher->slot), sk_params_number(id, end->voucher->id),
                            sk_params_number(most, BATCH)};
    if (sk_pg_call_as(sk_sale_shard(end->sale, end->voucher)->queries, SK_PG_QUERIES, SK_STATEMENT_REFUSE_WAITING, 3,
                      params, line_end_on_refused, end) != SK_OK)
        line_end_stop(end);
}

// All are left: it is not over by PostgreSQL's clock.
static void line_end_on_refused(void *arg, const struct sk_result *result)
{
    struct line_end *end = arg;
    bool more = result->rows != NULL && sk_rows_count(result->rows) == 1 && sk_rows_number(result->rows, 0, 0) > 0 &&
                sk_rows_number(result->rows, 0, 1) > 0;
    if (more)
        line_end_ask(end);
    else
        line_end_stop(end);
}

void sk_line_end(const struct sk_sale *sale, struct sk_voucher *voucher, const struct sk_account *account)
{
    bool over = account->terms.state == SK_VOUCHER_CLOSED || (int64_t)sk_wall_ms() >= account->terms.end_ms;
    if (!over || account->waiting == 0 || voucher->maintenance->line_ending)
        return;
    struct line_end *end = calloc(1, sizeof *end);
    if (end == NULL)
        return;
    *end = (struct line_end){sale, voucher};
    voucher->maintenance->line_ending = true;
    sk_voucher_pin(voucher);
    line_end_ask(end);
}
