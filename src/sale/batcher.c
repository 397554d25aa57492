// While Redis has not answered the last write, the next batch gathers: under load batches grow by
// themselves, and at rest a request waits for nothing.
#include "batcher.h"

#include <inttypes.h>
#include <string.h>

#include "failpoint.h"
#include "grant.h"
#include "log.h"
#include "trust.h"

enum {
    LOOKUPS_MAX = 64, // voucher ids nobody knows, being looked up
    RUSH_MS = 20,     // calls that follow each other closer than this are a rush
    RETRY_AFTER_MS = 1000,
};

struct sk_batcher {
    const struct sk_core *core;
    struct sk_admit *admit;
    struct sk_writer *writer;
    struct sk_segment *first; // vouchers with requests to ask about
    unsigned lookups;
    uint64_t asked_at_ms; // the last script call
};

// The requests of one script call, in the order of its arguments.
struct call {
    struct sk_batcher *batcher;
    struct sk_segment *segment;
    struct sk_order_list orders;
    uint64_t asked_at_ms;
};

struct sk_batcher *sk_batcher_open(const struct sk_core *core, struct sk_admit *admit, struct sk_writer *writer)
{
    struct sk_batcher *batcher = calloc(1, sizeof *batcher);
    if (batcher == NULL)
        return NULL;
    batcher->core = core;
    batcher->admit = admit;
    batcher->writer = writer;
    return batcher;
}

static void refuse(struct sk_batcher *batcher, struct sk_order *order, enum sk_verdict verdict, const char *order_id,
                   uint64_t retry_after_ms)
{
    sk_core_tell(batcher->core, order, verdict, order_id, retry_after_ms);
    sk_order_give(batcher->core->orders, order);
}

static void refuse_all(struct sk_batcher *batcher, struct sk_order_list *orders, enum sk_verdict verdict)
{
    struct sk_order *order;
    while ((order = sk_order_pop(orders)) != NULL)
        refuse(batcher, order, verdict, NULL, sk_verdict_http_status(verdict) == 503 ? RETRY_AFTER_MS : 0);
}

void sk_batcher_close(struct sk_batcher *batcher)
{
    if (batcher == NULL)
        return;
    for (struct sk_segment *segment = batcher->first; segment != NULL; segment = segment->asking.next)
        refuse_all(batcher, &segment->asking.orders, SK_VERDICT_UNAVAILABLE);
    free(batcher);
}

static void line_up(struct sk_batcher *batcher, struct sk_segment *segment)
{
    if (segment->asking.listed)
        return;
    segment->asking.listed = true;
    sk_segment_pin(segment);
    segment->asking.next = batcher->first;
    batcher->first = segment;
}

void sk_batcher_add(struct sk_batcher *batcher, struct sk_segment *segment, struct sk_order *order)
{
    sk_order_push(&segment->asking.orders, order);
    line_up(batcher, segment);
}

// ---- a voucher that Redis does not have ----

struct lookup {
    struct sk_batcher *batcher;
    struct sk_segment *segment;
    uint64_t asked_at_ms;
};

static void on_lookup(void *arg, const struct sk_result *result)
{
    const struct sk_rows *rows = result->rows;
    struct lookup *lookup = arg;
    struct sk_batcher *batcher = lookup->batcher;
    struct sk_segment *segment = lookup->segment;
    enum sk_verdict verdict = SK_VERDICT_UNAVAILABLE;
    segment->asking.looking_up = false;
    sk_segment_unpin(segment);
    batcher->lookups--;
    if (rows != NULL && sk_rows_count(rows) == 0) {
        struct sk_mark said = {.verdict = SK_VERDICT_UNKNOWN_VOUCHER};
        verdict = said.verdict;
        sk_admit_remember(batcher->admit, segment, &said, lookup->asked_at_ms);
    } else if (rows != NULL) {
        verdict = SK_VERDICT_LOADING;
        batcher->core->suspect(batcher->core->upkeep, segment);
    }
    refuse_all(batcher, &segment->asking.unknown, verdict);
    free(lookup);
}

// PostgreSQL knows whether there is such a voucher: then it is loaded, else all are told so.
static void look_up(struct sk_batcher *batcher, struct sk_segment *segment, struct sk_order_list *orders)
{
    struct sk_order *order;
    while ((order = sk_order_pop(orders)) != NULL)
        sk_order_push(&segment->asking.unknown, order);
    if (segment->asking.looking_up)
        return;
    if (sk_admit_knows_unknown(batcher->admit, segment)) {
        refuse_all(batcher, &segment->asking.unknown, SK_VERDICT_UNKNOWN_VOUCHER);
        return;
    }
    struct lookup *lookup = batcher->lookups < LOOKUPS_MAX ? malloc(sizeof *lookup) : NULL;
    char id[24];
    const char *params[] = {id};
    (void)snprintf(id, sizeof id, "%" PRId64, segment->voucher_id);
    if (lookup == NULL) {
        refuse_all(batcher, &segment->asking.unknown, SK_VERDICT_OVERLOADED);
        return;
    }
    *lookup = (struct lookup){batcher, segment, uv_now(batcher->core->loop)};
    if (sk_pg_call(batcher->core->pg, SK_STATEMENT_FIND_VOUCHER, 1, params, on_lookup, lookup) != SK_OK) {
        free(lookup);
        refuse_all(batcher, &segment->asking.unknown, SK_VERDICT_UNAVAILABLE);
        return;
    }
    segment->asking.looking_up = true;
    sk_segment_pin(segment);
    batcher->lookups++;
}

// ---- the script's reply ----

static void answer_each(struct sk_batcher *batcher, struct call *call, struct sk_grant *grant)
{
    struct sk_entry *entry = NULL;
    uint64_t begin_in_ms = grant->begin_ms > grant->now_ms ? (uint64_t)(grant->begin_ms - grant->now_ms) : 0;
    struct sk_order *order;
    for (size_t i = 0; (order = sk_order_pop(&call->orders)) != NULL; i++) {
        switch ((enum sk_grant_letter)grant->letters[i]) {
        case SK_GRANT_PLACED:
            order->epoch = grant->epoch;
            if (entry == NULL)
                entry = sk_entry_new(batcher->core, call->segment, SK_ENTRY_OWN, grant->journal_id);
            sk_core_tell(batcher->core, order, SK_VERDICT_ACCEPTED, order->id, 0);
            if (entry != NULL)
                sk_writer_add(batcher->writer, entry, order);
            else
                sk_order_give(batcher->core->orders, order); // out of memory: recovery finds it in the journal
            break;
        case SK_GRANT_ALREADY:
            refuse(batcher, order, SK_VERDICT_ALREADY_ORDERED, sk_grant_next_existing(grant), 0);
            break;
        case SK_GRANT_SOLD_OUT:
            refuse(batcher, order, SK_VERDICT_SOLD_OUT, NULL, 0);
            break;
        case SK_GRANT_NOT_STARTED:
            refuse(batcher, order, SK_VERDICT_NOT_STARTED, NULL, begin_in_ms);
            break;
        case SK_GRANT_ENDED:
            refuse(batcher, order, SK_VERDICT_ENDED, NULL, 0);
            break;
        case SK_GRANT_FULL:
            refuse(batcher, order, SK_VERDICT_OVERLOADED, NULL, RETRY_AFTER_MS);
            break;
        case SK_GRANT_RETURNED:
            refuse(batcher, order, SK_VERDICT_SOLD_OUT, NULL, 0);
            break;
        }
    }
}

static void remember(const struct call *call, const struct sk_grant *grant)
{
    struct sk_batcher *batcher = call->batcher;
    struct sk_mark said = {.begin_at_ms = uv_now(batcher->core->loop)};
    if (!sk_trust_is_version(grant->last))
        return;
    if (strchr(grant->letters, SK_GRANT_SOLD_OUT) != NULL)
        said.verdict = SK_VERDICT_SOLD_OUT;
    else if (strchr(grant->letters, SK_GRANT_ENDED) != NULL)
        said.verdict = SK_VERDICT_ENDED;
    else if (strchr(grant->letters, SK_GRANT_NOT_STARTED) != NULL && grant->begin_ms > grant->now_ms)
        said.verdict = SK_VERDICT_NOT_STARTED;
    else
        return;
    if (said.verdict == SK_VERDICT_NOT_STARTED)
        said.begin_at_ms += (uint64_t)(grant->begin_ms - grant->now_ms);
    memcpy(said.label, grant->last, strlen(grant->last) + 1);
    sk_admit_remember(batcher->admit, call->segment, &said, call->asked_at_ms);
}

// Anything that is not a clear answer is 503: never "sold out", never "unknown voucher". Where the call
// may have reached Redis the outcome is open; the journal and its recovery settle it (P7).
static void on_reply(void *arg, const struct sk_reply *reply)
{
    struct call *call = arg;
    struct sk_batcher *batcher = call->batcher;
    struct sk_segment *segment = call->segment;
    sk_segment_unpin(segment);
    SK_FAILPOINT("place.answered");
    if (reply == NULL) {
        refuse_all(batcher, &call->orders, SK_VERDICT_UNAVAILABLE);
        free(call);
        return;
    }
    struct sk_grant grant = sk_grant_read(reply, call->orders.count);
    switch (grant.status) {
    case SK_GRANT_OK:
        sk_grant_remember(&grant, segment);
        remember(call, &grant);
        answer_each(batcher, call, &grant);
        break;
    case SK_GRANT_MISSING:
        look_up(batcher, segment, &call->orders);
        break;
    case SK_GRANT_LOADING: // whoever is at it may have died
    case SK_GRANT_UNSURE:
        batcher->core->suspect(batcher->core->upkeep, segment);
        refuse_all(batcher, &call->orders, SK_VERDICT_LOADING);
        break;
    case SK_GRANT_MALFORMED: {
        const char *error = sk_reply_error(reply);
        sk_log_text(SK_WARN, "Redis refused place_orders", "reason", error == NULL ? "malformed reply" : error);
        refuse_all(batcher, &call->orders, SK_VERDICT_UNAVAILABLE);
        break;
    }
    }
    free(call);
}

// ---- the script's call ----

static void ask(struct sk_batcher *batcher, struct sk_segment *segment)
{
    struct call *call = calloc(1, sizeof *call);
    if (call == NULL) {
        refuse_all(batcher, &segment->asking.orders, SK_VERDICT_OVERLOADED);
        return;
    }
    call->batcher = batcher;
    call->segment = segment;
    call->asked_at_ms = uv_now(batcher->core->loop);
    size_t most = (size_t)batcher->core->config->batch_max;
    while (call->orders.count < most && segment->asking.orders.count > 0)
        sk_order_push(&call->orders, sk_order_pop(&segment->asking.orders));
    if (sk_grant_ask(batcher->core, segment, &call->orders, false, on_reply, call) != SK_OK) {
        refuse_all(batcher, &call->orders, SK_VERDICT_UNAVAILABLE);
        free(call);
        return;
    }
    sk_segment_pin(segment);
    batcher->asked_at_ms = call->asked_at_ms;
}

bool sk_batcher_flush(struct sk_batcher *batcher)
{
    if (sk_redis_busy(batcher->core->redis))
        return false;
    struct sk_segment *segment = batcher->first;
    bool asked = segment != NULL;
    batcher->first = NULL;
    while (segment != NULL) {
        struct sk_segment *next = segment->asking.next;
        segment->asking.listed = false;
        while (segment->asking.orders.count > 0)
            ask(batcher, segment);
        sk_segment_unpin(segment);
        segment = next;
    }
    return asked;
}

bool sk_batcher_busy(const struct sk_batcher *batcher)
{
    return batcher->first != NULL || uv_now(batcher->core->loop) < batcher->asked_at_ms + RUSH_MS;
}
