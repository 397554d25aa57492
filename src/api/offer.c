// The catalogue answers, at once. A voucher that it does not have is looked for as a purchase of it would be.
#include "offer.h"

#include <inttypes.h>
#include <stdio.h>

#include "beside.h"
#include "params.h"

struct offer_query {
    struct sk_talk talk;
    int64_t id;
};

static void offer_start(struct sk_talk *talk);
static void offer_on_found(struct sk_talk *talk, enum sk_beside beside);
static void offer_on_retired(void *arg, const struct sk_result *result);

void sk_query_offer(struct sk_control *control, int64_t voucher_id, uint64_t handle)
{
    const struct sk_sale *sale = control->sale;
    const struct sk_outcome outcome = {.verdict = SK_VERDICT_FOUND,
                                       .voucher = sk_catalogue_find(sale->catalogue, voucher_id)};
    char key[SK_TALK_KEY_SIZE];
    if (outcome.voucher != NULL) {
        sale->on_outcome(sale->arg, handle, &outcome);
        return;
    }
    (void)snprintf(key, sizeof key, "offer:%" PRId64, voucher_id);
    struct offer_query *query = sk_talk_new(control, SK_PG_QUESTIONS, handle, key, sizeof *query, offer_start);
    if (query == NULL)
        return;
    query->id = voucher_id;
    sk_talk_start(&query->talk);
}

static void offer_start(struct sk_talk *talk)
{
    sk_beside_find(talk, ((struct offer_query *)talk)->id, offer_on_found);
}

static void offer_on_found(struct sk_talk *talk, enum sk_beside beside)
{
    char id[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {sk_params_number(id, talk->finding.id)};
    const struct sk_outcome outcome = {.verdict = SK_VERDICT_FOUND, .voucher = talk->voucher};
    if (beside == SK_BESIDE_FOUND)
        sk_talk_end_with(talk, &outcome);
    else if (beside == SK_BESIDE_OLD)
        sk_talk_ask_pg(talk, SK_STATEMENT_FIND_VOUCHER, 1, params, offer_on_retired);
    else
        sk_talk_end(talk, SK_VERDICT_UNKNOWN_VOUCHER, NULL);
}

static void offer_on_retired(void *arg, const struct sk_result *result)
{
    struct sk_talk *talk = arg;
    if (result->rows == NULL)
        sk_talk_end(talk, SK_VERDICT_UNAVAILABLE, NULL);
    else
        sk_talk_end(talk, sk_rows_count(result->rows) == 0 ? SK_VERDICT_UNKNOWN_VOUCHER : SK_VERDICT_ENDED, NULL);
}
