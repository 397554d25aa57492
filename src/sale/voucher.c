// A hash table of bounded size. Ids come from clients, made-up ones included, so when it is full the
// voucher that has been idle longest in the bucket makes room; one with anything under way never goes.
#include "voucher.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { BUCKETS = 1024, PER_BUCKET = 8 };

struct sk_vouchers {
    size_t care_size;
    struct sk_voucher *buckets[BUCKETS];
};

struct sk_vouchers *sk_vouchers_new(size_t care_size)
{
    struct sk_vouchers *vouchers = calloc(1, sizeof *vouchers);
    if (vouchers != NULL)
        vouchers->care_size = care_size;
    return vouchers;
}

static void free_voucher(struct sk_voucher *voucher)
{
    sk_filter_free(voucher->gate.filter);
    free(voucher->care);
    free(voucher->document);
    free(voucher);
}

void sk_vouchers_free(struct sk_vouchers *vouchers)
{
    for (int i = 0; vouchers != NULL && i < BUCKETS; i++) {
        struct sk_voucher *voucher = vouchers->buckets[i];
        while (voucher != NULL) {
            struct sk_voucher *next = voucher->next_in_bucket;
            free_voucher(voucher);
            voucher = next;
        }
    }
    free(vouchers);
}

// Unlinks the idle voucher that was used least recently. Returns false if none is idle.
static bool evict(struct sk_voucher **bucket)
{
    struct sk_voucher **victim = NULL;
    for (struct sk_voucher **at = bucket; *at != NULL; at = &(*at)->next_in_bucket) {
        if ((*at)->pins == 0 && (victim == NULL || (*at)->used_ms < (*victim)->used_ms))
            victim = at;
    }
    if (victim == NULL)
        return false;
    struct sk_voucher *gone = *victim;
    *victim = gone->next_in_bucket;
    free_voucher(gone);
    return true;
}

struct sk_voucher *sk_vouchers_get(struct sk_vouchers *vouchers, int64_t id, uint64_t now_ms)
{
    struct sk_voucher **bucket = &vouchers->buckets[sk_hash((const char *)&id, sizeof id) % BUCKETS];
    int count = 0;
    for (struct sk_voucher *v = *bucket; v != NULL; v = v->next_in_bucket, count++) {
        if (v->id == id) {
            v->used_ms = now_ms;
            return v;
        }
    }
    if (count >= PER_BUCKET && !evict(bucket))
        return NULL;
    struct sk_voucher *voucher = calloc(1, sizeof *voucher);
    if (voucher == NULL)
        return NULL;
    voucher->care = calloc(1, vouchers->care_size);
    if (voucher->care == NULL) {
        free(voucher);
        return NULL;
    }
    voucher->id = id;
    voucher->used_ms = now_ms;
    // The braces make the id the hash tag: all keys of a voucher live in one cluster slot.
    (void)snprintf(voucher->voucher_key, sizeof voucher->voucher_key, "seckill:{%" PRId64 "}:voucher", id);
    (void)snprintf(voucher->buyers_key, sizeof voucher->buyers_key, "seckill:{%" PRId64 "}:buyers", id);
    (void)snprintf(voucher->journal_key, sizeof voucher->journal_key, "seckill:{%" PRId64 "}:journal", id);
    voucher->next_in_bucket = *bucket;
    *bucket = voucher;
    return voucher;
}
