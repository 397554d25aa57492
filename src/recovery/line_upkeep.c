// PostgreSQL compares the window once more, by its own clock and under the voucher's row lock: nobody joins after it,
// and nobody is promoted.
#include "line_upkeep.h"

#include <stdlib.h>

#include "clock.h"
#include "maintenance.h"
#include "params.h"
#include "returns.h"

enum { REFUSED_MOST = 500 }; // short enough for other vouchers' statements on the link

struct line_upkeep {
    const struct sk_sale *sale;
    struct sk_voucher *voucher; // pinned
};

static void line_upkeep_on_refused(void *arg, const struct sk_result *result);
static void line_upkeep_on_promoted(void *arg, enum sk_return_end end, size_t promoted);

static void line_upkeep_stop(struct line_upkeep *upkeep)
{
    upkeep->voucher->maintenance->line_moves = false;
    sk_voucher_unpin(upkeep->voucher);
    free(upkeep);
}

// ---- the end ----

static void line_upkeep_refuse(struct line_upkeep *upkeep)
{
    const struct sk_voucher *voucher = upkeep->voucher;
    char slot[SK_PARAM_NUMBER_SIZE], id[SK_PARAM_NUMBER_SIZE], most[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {sk_params_number(slot, voucher->slot), sk_params_number(id, voucher->id),
                            sk_params_number(most, REFUSED_MOST)};
    if (sk_pg_call_as(sk_sale_shard(upkeep->sale, voucher)->queries, SK_PG_QUERIES, SK_STATEMENT_REFUSE_WAITING, 3,
                      params, line_upkeep_on_refused, upkeep) != SK_OK)
        line_upkeep_stop(upkeep);
}

// All are left: it is not over by PostgreSQL's clock.
static void line_upkeep_on_refused(void *arg, const struct sk_result *result)
{
    struct line_upkeep *upkeep = arg;
    bool more = result->rows != NULL && sk_rows_count(result->rows) == 1 && sk_rows_number(result->rows, 0, 0) > 0 &&
                sk_rows_number(result->rows, 0, 1) > 0;
    if (more)
        line_upkeep_refuse(upkeep);
    else
        line_upkeep_stop(upkeep);
}

// ---- units ----

static void line_upkeep_promote(struct line_upkeep *upkeep, size_t most)
{
    if (sk_promote(sk_sale_shard(upkeep->sale, upkeep->voucher)->returns, upkeep->voucher, most,
                   line_upkeep_on_promoted, upkeep) != SK_OK)
        line_upkeep_stop(upkeep);
}

// A whole batch: there may be more of both.
static void line_upkeep_on_promoted(void *arg, enum sk_return_end end, size_t promoted)
{
    struct line_upkeep *upkeep = arg;
    if (end == SK_RETURN_DONE && promoted == SK_RETURNS_MAX)
        line_upkeep_promote(upkeep, SK_RETURNS_MAX);
    else
        line_upkeep_stop(upkeep);
}

bool sk_line_upkeep(const struct sk_sale *sale, struct sk_voucher *voucher, const struct sk_account *account,
                    const struct sk_snapshot *seen)
{
    bool over = account->terms.state == SK_VOUCHER_CLOSED || (int64_t)sk_wall_ms() >= account->terms.end_ms;
    bool promotes = !over && account->terms.state == SK_VOUCHER_OPEN && seen->stock > 0;
    int64_t most = seen->stock < account->waiting ? seen->stock : account->waiting;
    if (account->waiting == 0 || voucher->maintenance->line_moves || !(over || promotes))
        return promotes && voucher->maintenance->line_moves;
    struct line_upkeep *upkeep = calloc(1, sizeof *upkeep);
    if (upkeep == NULL)
        return false;
    *upkeep = (struct line_upkeep){sale, voucher};
    voucher->maintenance->line_moves = true;
    sk_voucher_pin(voucher);
    if (over)
        line_upkeep_refuse(upkeep);
    else
        line_upkeep_promote(upkeep, most < SK_RETURNS_MAX ? (size_t)most : SK_RETURNS_MAX);
    return promotes;
}
