// A document of the catalogue has the units of the moment at which PostgreSQL wrote it. They are replaced: by Redis's
// number, or by null.
#include "stale.h"

#include <jansson.h>
#include <stdlib.h>

#include "phase.h"
#include "rates.h"
#include "voucher_books.h"
#include "vouchers.h"

enum { NOT_KNOWN = -1 };

struct stale_voucher {
    struct sk_stale *stale;
    struct sk_voucher *voucher; // pinned
    int64_t remaining;          // or NOT_KNOWN
};

struct sk_stale {
    struct sk_query *query;
    void (*done)(struct sk_query *query);
    size_t count, waiting;
    struct stale_voucher vouchers[SK_PAGE_MOST];
};

struct sk_stale *sk_stale_new(struct sk_query *query, void (*done)(struct sk_query *query))
{
    struct sk_stale *stale = calloc(1, sizeof *stale);
    if (stale == NULL)
        return NULL;
    stale->query = query;
    stale->done = done;
    return stale;
}

void sk_stale_free(struct sk_stale *stale)
{
    if (stale == NULL)
        return;
    SK_ASSERT(stale->waiting == 0);
    for (size_t i = 0; i < stale->count; i++)
        sk_voucher_unpin(stale->vouchers[i].voucher);
    free(stale);
}

bool sk_stale_add(struct sk_stale *stale, struct sk_voucher *voucher)
{
    SK_ASSERT(stale->count < SK_PAGE_MOST);
    if (voucher->document == NULL)
        return false;
    stale->vouchers[stale->count++] = (struct stale_voucher){stale, voucher, NOT_KNOWN};
    sk_voucher_pin(voucher);
    return true;
}

static void stale_answered(struct sk_stale *stale)
{
    SK_ASSERT(stale->waiting > 0);
    if (--stale->waiting == 0)
        stale->done(stale->query);
}

static void stale_on_snapshot(void *arg, const struct sk_reply *reply)
{
    struct stale_voucher *shown = arg;
    struct sk_snapshot seen;
    if (reply != NULL && sk_snapshot_read(reply, &seen) && seen.present && !seen.loading && seen.same_run)
        shown->remaining = seen.stock;
    stale_answered(shown->stale);
}

void sk_stale_ask(struct sk_stale *stale)
{
    struct sk_control *control = stale->query->control;
    stale->waiting = 1; // until all have been asked
    for (size_t i = 0; i < stale->count; i++) {
        struct stale_voucher *shown = &stale->vouchers[i];
        if (!sk_pace_take(&control->shown->stale_reads, uv_now(control->sale->loop)))
            break;
        stale->waiting += sk_snapshot_ask(sk_sale_ask_redis(control->sale, shown->voucher), &shown->voucher->keys, NULL,
                                          stale_on_snapshot, shown) == SK_OK;
    }
    stale_answered(stale);
}

void sk_stale_put(const struct sk_stale *stale, struct sk_buf *out, struct sk_phase_span *span)
{
    for (size_t i = 0; i < stale->count; i++) {
        const struct stale_voucher *shown = &stale->vouchers[i];
        json_t *members = json_loads(shown->voucher->document, 0, NULL);
        json_t *remaining = shown->remaining == NOT_KNOWN ? json_null() : json_integer(shown->remaining);
        bool good = json_object_set_new(members, "remaining", remaining) == 0;
        char *document = good ? json_dumps(members, JSON_COMPACT) : NULL;
        if (i > 0)
            sk_buf_puts(out, ",");
        if (document != NULL)
            sk_phase_put(out, document, span);
        else
            out->failed = true;
        free(document);
        json_decref(members);
    }
}
