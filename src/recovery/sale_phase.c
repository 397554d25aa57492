// A pause is no event: an operator's change is in the audit log. A paused sale stays what it was until its window is
// over. Redis's stock counts, since it refuses buyers; PostgreSQL compares the window once more, by its own clock.
#include "sale_phase.h"

#include <inttypes.h>
#include <string.h>

#include "clock.h"
#include "log.h"
#include "params.h"

// NULL: it stays what it was.
static const char *sale_phase_now(const struct sk_terms_seen *terms, int64_t stock, int64_t now_ms)
{
    if (terms->state == SK_VOUCHER_CLOSED || terms->state == SK_VOUCHER_RETIRED || now_ms >= terms->end_ms)
        return "ended";
    if (terms->state == SK_VOUCHER_PAUSED || now_ms < terms->begin_ms)
        return NULL;
    return stock == 0 ? "sold_out" : "open";
}

static void sale_phase_on_noted(void *arg, const struct sk_result *result)
{
    (void)arg;
    (void)result; // the next audit reads what was noted
}

void sk_sale_phase_note(const struct sk_sale *sale, const struct sk_voucher *voucher, const struct sk_account *account,
                        const struct sk_snapshot *seen)
{
    char slot[SK_PARAM_NUMBER_SIZE], id[SK_PARAM_NUMBER_SIZE];
    const char *phase = sale_phase_now(&account->terms, seen->stock, (int64_t)sk_wall_ms());
    const char *params[] = {sk_params_number(slot, voucher->slot), sk_params_number(id, voucher->id), phase};
    if (phase == NULL || strcmp(phase, account->phase) == 0)
        return;
    if (sk_pg_call(sale->shards[voucher->shard].queries, SK_STATEMENT_NOTE_PHASE, 3, params, sale_phase_on_noted,
                   NULL) != SK_OK)
        sk_log(SK_LOG_DEBUG, "a sale's phase is not noted now", "voucher=%" PRId64, voucher->id);
}
