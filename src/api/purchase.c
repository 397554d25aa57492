// A voucher that is not in the catalogue is newer than it, retired, or made up. Who has won a retired one and asks
// again is told so from PostgreSQL (P6), and all others that it has ended. When its orders have been archived nothing
// is said of the user any more, but that.
#include "purchase.h"

#include <stdio.h>
#include <string.h>

#include "beside.h"
#include "params.h"
#include "probe.h"

enum { COLUMN_STATE = 0, COLUMN_ORDER = 1 };

struct late_purchase {
    struct sk_talk talk;
    struct sk_ask ask;
    char user[SK_USER_SIZE]; // ask.user
};

static bool purchase_from(struct sk_control *control, struct sk_voucher *voucher, const struct sk_ask *ask,
                          uint64_t handle, struct sk_outcome *outcome);
static bool purchase_later(struct sk_control *control, const struct sk_ask *ask, uint64_t handle);
static void purchase_start(struct sk_talk *talk);
static void purchase_on_found(struct sk_talk *talk, enum sk_beside beside);
static void purchase_on_retired(void *arg, const struct sk_result *result);

bool sk_purchase(struct sk_control *control, const struct sk_ask *ask, uint64_t handle, struct sk_outcome *outcome)
{
    const struct sk_sale *sale = control->sale;
    struct sk_voucher *voucher = sk_catalogue_find(sale->catalogue, ask->voucher_id);
    // Without Redis nothing is certain, not even what was remembered a moment ago.
    *outcome = (struct sk_outcome){.verdict = SK_VERDICT_UNAVAILABLE};
    if (!sk_redis_ready(sale->redis))
        return false;
    if (voucher != NULL)
        return purchase_from(control, voucher, ask, handle, outcome);
    outcome->verdict = SK_VERDICT_OVERLOADED;
    return purchase_later(control, ask, handle);
}

static bool purchase_from(struct sk_control *control, struct sk_voucher *voucher, const struct sk_ask *ask,
                          uint64_t handle, struct sk_outcome *outcome)
{
    const struct sk_sale *sale = control->sale;
    const struct sk_sent_ticket sent = {.kind = ask->ticket, .offer = (int32_t)ask->offer};
    if (sk_offered_refuses(sale, voucher, &sent, ask->quantity, outcome))
        return false;
    if (sk_admit_refuses(control->admit, voucher, ask->user, outcome)) {
        SK_PROBE3(refused, handle, sk_verdict_code(outcome->verdict), "memory");
        return false;
    }
    struct sk_order *order = sk_order_take(sale->orders);
    if (order == NULL) {
        *outcome = (struct sk_outcome){.verdict = SK_VERDICT_OVERLOADED};
        return false;
    }
    sk_order_name(sale->orders, order, voucher->slot, voucher->seen.epoch);
    order->handle = handle;
    order->patient = ask->patient;
    order->quantity = (uint16_t)ask->quantity;
    order->key = ask->key;
    order->sent = sent;
    sk_offered_agree(voucher, order);
    size_t len = strlen(ask->user);
    SK_ASSERT(len < sizeof order->user);
    memcpy(order->user, ask->user, len + 1);
    SK_PROBE3(admitted, handle, order->id, ask->voucher_id);
    sk_batcher_add(control->batcher, voucher, order);
    return true;
}

// ---- a voucher that is not in the catalogue ----

static bool purchase_later(struct sk_control *control, const struct sk_ask *ask, uint64_t handle)
{
    struct late_purchase *late = sk_talk_try_new(control, handle, sizeof *late, purchase_start);
    if (late == NULL)
        return false;
    late->ask = *ask;
    (void)snprintf(late->user, sizeof late->user, "%s", ask->user);
    late->ask.user = late->user;
    sk_talk_start(&late->talk);
    return true;
}

static void purchase_start(struct sk_talk *talk)
{
    sk_beside_find_later(talk, ((struct late_purchase *)talk)->ask.voucher_id, purchase_on_found);
}

static void purchase_on_found(struct sk_talk *talk, enum sk_beside beside)
{
    struct late_purchase *late = (struct late_purchase *)talk;
    struct sk_outcome outcome = {.verdict = SK_VERDICT_UNKNOWN_VOUCHER};
    if (beside == SK_BESIDE_OLD) {
        char id[SK_PARAM_NUMBER_SIZE];
        const char *params[] = {sk_params_number(id, late->ask.voucher_id), late->user};
        sk_talk_ask_pg(talk, SK_STATEMENT_FIND_RETIRED, 2, params, purchase_on_retired);
        return;
    }
    if (beside == SK_BESIDE_FOUND) {
        struct sk_control *control = talk->control;
        struct sk_voucher *voucher = talk->voucher;
        uint64_t handle = sk_talk_take_handle(talk);
        bool refused = !purchase_from(control, voucher, &late->ask, handle, &outcome);
        const struct sk_sale *sale = control->sale;
        sk_talk_end(talk, SK_VERDICT_FOUND, NULL);
        if (refused)
            sale->on_outcome(sale->arg, handle, &outcome);
        return;
    }
    sk_talk_end_with(talk, &outcome);
}

static void purchase_on_retired(void *arg, const struct sk_result *result)
{
    struct sk_talk *talk = arg;
    struct sk_outcome outcome = {.verdict = SK_VERDICT_ENDED};
    const char *state = NULL;
    if (result->rows == NULL) {
        sk_talk_end(talk, SK_VERDICT_UNAVAILABLE, NULL);
        return;
    }
    if (sk_rows_count(result->rows) == 1) {
        state = sk_rows_text(result->rows, 0, COLUMN_STATE);
        outcome.order_id = sk_rows_text(result->rows, 0, COLUMN_ORDER);
    }
    bool archived = state != NULL && strcmp(state, "archived") == 0;
    if (state == NULL)
        outcome.verdict = SK_VERDICT_UNKNOWN_VOUCHER;
    else if (!archived && strcmp(state, "retired") != 0)
        outcome.verdict = SK_VERDICT_LOADING; // recalled a moment ago
    else if (outcome.order_id != NULL)
        outcome.verdict = SK_VERDICT_ALREADY_ORDERED;
    else if (archived)
        outcome.verdict = SK_VERDICT_ARCHIVED;
    sk_talk_end_with(talk, &outcome);
}
