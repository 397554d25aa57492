// A sale for units between fake stores: its loop, catalogue, orders and metrics, and what it reports. Included by one
// source of a program.
#ifndef UNIT_STAGE_H
#define UNIT_STAGE_H

#include <check.h>
#include <stdio.h>
#include <uv.h>

#include "distribution.h"
#include "entry.h"
#include "fake_catalogue.h"
#include "fake_stores.h"
#include "sale.h"

enum { TOLD_MAX = 4096 };

static uv_loop_t loop;
static struct sk_sale_options options;
static struct sk_shard shards[SK_SHARDS_MAX];
static struct sk_sale sale;
static struct sk_metrics metrics;

// The results of purchases, in the order in which they came.
static struct told {
    uint64_t handle;
    enum sk_purchase_code code;
    char order_id[SK_UUID_SIZE];
    uint64_t retry_after_ms;
    int64_t left, created_ms, expires_ms, voucher_id;
    bool repeats;
} told[TOLD_MAX];
static size_t told_count;

static int suspicions, orphans;
static enum sk_doubt last_doubt;

static void stage_on_result(void *arg, uint64_t handle, const struct sk_purchase_result *result)
{
    (void)arg;
    ck_assert_uint_lt(told_count, TOLD_MAX);
    struct told *one = &told[told_count++];
    *one = (struct told){.handle = handle,
                         .code = result->code,
                         .retry_after_ms = result->retry_after_ms,
                         .left = result->left,
                         .voucher_id = result->voucher_id,
                         .created_ms = result->created_ms,
                         .expires_ms = result->expires_ms,
                         .repeats = result->repeats};
    (void)snprintf(one->order_id, sizeof one->order_id, "%s", result->order_id == NULL ? "" : result->order_id);
}

static void stage_on_suspect(void *recovery, struct sk_voucher *voucher, enum sk_doubt doubt)
{
    ck_assert_ptr_eq(recovery, &suspicions);
    ck_assert_ptr_nonnull(voucher);
    last_doubt = doubt;
    suspicions++;
}

static void stage_on_orphaned(void *recovery, struct sk_voucher *voucher)
{
    ck_assert_ptr_eq(recovery, &suspicions);
    ck_assert_ptr_nonnull(voucher);
    orphans++;
}

// `maintenance_size`: of each voucher's block. At most `orders` are under way; 0: there are none.
static void stage_open(struct sk_sale_options with, size_t maintenance_size, size_t orders)
{
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    options = with;
    memset(shards, 0, sizeof shards);
    sale = (struct sk_sale){.loop = &loop,
                            .shards = shards,
                            .shard_count = 1,
                            .options = &options,
                            .metrics = &metrics,
                            .catalogue = sk_catalogue_new(maintenance_size),
                            .orders = orders == 0 ? NULL : sk_order_pool_new(orders, 1),
                            .on_result = stage_on_result,
                            .suspect = stage_on_suspect,
                            .orphaned = stage_on_orphaned,
                            .recovery = &suspicions};
    ck_assert_ptr_nonnull(sale.catalogue);
}

// An entry that this reactor's own call has made.
static inline struct sk_entry *own_entry(struct sk_voucher *voucher, int64_t epoch, const char *journal_id)
{
    struct sk_entry *entry = sk_entry_new(&sale, voucher, SK_ENTRY_OWN, fake_redis.run_number);
    sk_entry_name(entry, epoch, journal_id);
    return entry;
}

// ---- what was said ----

// The last result of a purchase.
static inline const struct told *told_to(uint64_t handle)
{
    size_t i = told_count;
    while (i > 0 && told[i - 1].handle != handle)
        i--;
    ck_assert_msg(i > 0, "handle %d is told nothing", (int)handle);
    return &told[i - 1];
}

static inline void purchase_must_be(uint64_t handle, enum sk_purchase_code code)
{
    ck_assert_msg(told_to(handle)->code == code, "handle %d is told %s instead of %s", (int)handle,
                  sk_purchase_code_name(told_to(handle)->code), sk_purchase_code_name(code));
}

// The arguments of a call from one on as a text, by blanks; "null": SQL's NULL, "''": empty.
static inline const char *words_from(const struct asked *asked, int at)
{
    static struct sk_buf text;
    sk_buf_clear(&text);
    for (; at < asked->argc; at++) {
        const char *word = asked->argv[at];
        sk_buf_printf(&text, "%s%s", text.len == 0 ? "" : " ", word == NULL ? "null" : word[0] == '\0' ? "''" : word);
    }
    return text.data;
}

static inline uint64_t counted(enum sk_metric metric)
{
    return sk_metrics_read(&metrics, metric);
}

static inline struct sk_distributed measured(enum sk_distribution_id id)
{
    struct sk_distributed values = {.sum = 0};
    sk_distribution_read(&metrics.distributions[id], &values);
    return values;
}

static inline uint64_t measured_count(enum sk_distribution_id id)
{
    struct sk_distributed values = measured(id);
    uint64_t count = 0;
    for (size_t i = 0; i <= SK_DISTRIBUTION_BOUNDS; i++)
        count += values.counts[i];
    return count;
}

// After the unit was closed: nothing of it may be left.
static void stage_close(void)
{
    (void)uv_run(&loop, UV_RUN_DEFAULT); // lets handles close
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    if (sale.orders != NULL)
        ck_assert_uint_eq(sk_order_pool_out(sale.orders), 0);
    for (size_t i = 0; i < sk_catalogue_count(sale.catalogue); i++)
        ck_assert_uint_eq(sk_catalogue_at(sale.catalogue, i)->pins, 0);
    sk_order_pool_free(sale.orders);
    sk_catalogue_free(sale.catalogue);
    fake_stores_forget();
}

#endif
