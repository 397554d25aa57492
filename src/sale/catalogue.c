// Two hash tables over the same vouchers: by id, which grows, and by slot, with a fixed place for each slot. Background
// jobs walk an array of all vouchers.
#include "catalogue.h"

#include <stdlib.h>
#include <string.h>

#include "hash.h"
#include "slot.h"

enum { BUCKETS_FIRST = 256 };

struct sk_catalogue {
    size_t maintenance_size;
    struct sk_voucher **buckets; // by id: `room`, a power of two
    struct sk_voucher **vouchers;
    size_t count, room;
    struct sk_listed *listed; // with room for all
    size_t listed_count;
    bool sorted;             // `listed` is up to date
    struct sk_voucher *open; // see struct sk_entries
    struct sk_voucher *slots[SK_SLOTS];
};

struct sk_catalogue *sk_catalogue_new(size_t maintenance_size)
{
    struct sk_catalogue *catalogue = calloc(1, sizeof *catalogue);
    if (catalogue != NULL)
        catalogue->maintenance_size = maintenance_size;
    return catalogue;
}

void sk_catalogue_free(struct sk_catalogue *catalogue)
{
    if (catalogue == NULL)
        return;
    for (size_t i = 0; i < catalogue->count; i++)
        sk_voucher_free(catalogue->vouchers[i]);
    free((void *)catalogue->vouchers);
    free(catalogue->listed);
    free((void *)catalogue->buckets);
    free(catalogue);
}

// ---- changes ----

static struct sk_voucher **catalogue_bucket(struct sk_voucher **buckets, size_t count, int64_t id)
{
    return &buckets[sk_hash((const char *)&id, sizeof id) & (count - 1)];
}

struct sk_voucher *sk_catalogue_find(const struct sk_catalogue *catalogue, int64_t id)
{
    if (catalogue->room == 0)
        return NULL;
    struct sk_voucher *voucher = *catalogue_bucket(catalogue->buckets, catalogue->room, id);
    while (voucher != NULL && voucher->id != id)
        voucher = voucher->next_in_bucket;
    return voucher;
}

static enum sk_status catalogue_make_room(struct sk_catalogue *catalogue)
{
    if (catalogue->count < catalogue->room)
        return SK_OK;
    size_t room = catalogue->room == 0 ? BUCKETS_FIRST : catalogue->room * 2;
    struct sk_voucher **buckets = calloc(room, sizeof(struct sk_voucher *));
    struct sk_voucher **vouchers =
        buckets == NULL ? NULL : realloc((void *)catalogue->vouchers, room * sizeof(struct sk_voucher *));
    catalogue->vouchers = vouchers == NULL ? catalogue->vouchers : vouchers;
    struct sk_listed *listed = vouchers == NULL ? NULL : realloc(catalogue->listed, room * sizeof *listed);
    if (listed == NULL) {
        free((void *)buckets);
        return SK_NO_MEM;
    }
    catalogue->listed = listed;
    catalogue->room = room;
    for (size_t i = 0; i < catalogue->count; i++) {
        struct sk_voucher *voucher = catalogue->vouchers[i], **bucket = catalogue_bucket(buckets, room, voucher->id);
        voucher->next_in_bucket = *bucket;
        *bucket = voucher;
    }
    free((void *)catalogue->buckets);
    catalogue->buckets = buckets;
    return SK_OK;
}

static struct sk_voucher *catalogue_add(struct sk_catalogue *catalogue, const struct sk_catalogue_row *row)
{
    struct sk_voucher *voucher = NULL;
    if (catalogue_make_room(catalogue) == SK_OK)
        voucher = sk_voucher_new(row->voucher_id, row->tag, catalogue->maintenance_size);
    if (voucher == NULL)
        return NULL;
    struct sk_voucher **bucket = catalogue_bucket(catalogue->buckets, catalogue->room, voucher->id);
    voucher->shard = (uint16_t)row->shard;
    voucher->next_in_bucket = *bucket;
    *bucket = voucher;
    voucher->next_in_slot = catalogue->slots[voucher->slot];
    catalogue->slots[voucher->slot] = voucher;
    voucher->at = catalogue->count;
    catalogue->vouchers[catalogue->count++] = voucher;
    voucher->entries.open = &catalogue->open;
    return voucher;
}

static void catalogue_remove(struct sk_catalogue *catalogue, struct sk_voucher *voucher)
{
    struct sk_voucher **link = catalogue_bucket(catalogue->buckets, catalogue->room, voucher->id);
    while (*link != voucher)
        link = &(*link)->next_in_bucket;
    *link = voucher->next_in_bucket;
    link = &catalogue->slots[voucher->slot];
    while (*link != voucher)
        link = &(*link)->next_in_slot;
    *link = voucher->next_in_slot;
    struct sk_voucher *last = catalogue->vouchers[--catalogue->count];
    catalogue->vouchers[voucher->at] = last;
    last->at = voucher->at;
    voucher->left = true;
    sk_voucher_pin(voucher);
    sk_voucher_unpin(voucher); // frees it, unless it is pinned
}

enum sk_status sk_catalogue_put(struct sk_catalogue *catalogue, const struct sk_catalogue_row *row)
{
    if (row->voucher_id <= 0 || row->tag[0] == '\0' || strlen(row->tag) >= SK_TAG_SIZE)
        return SK_FAIL;
    struct sk_voucher *voucher = sk_catalogue_find(catalogue, row->voucher_id);
    catalogue->sorted = false;
    if (row->state == SK_VOUCHER_RETIRED) {
        if (voucher != NULL && row->change >= voucher->change)
            catalogue_remove(catalogue, voucher);
        return SK_OK;
    }
    if (voucher == NULL)
        voucher = catalogue_add(catalogue, row);
    if (voucher == NULL)
        return SK_NO_MEM;
    if (row->change >= voucher->change) {
        voucher->change = row->change;
        voucher->state = row->state;
        voucher->begin_ms = row->begin_ms;
        voucher->end_ms = row->end_ms;
        voucher->user_limit = row->user_limit;
        voucher->orders_per_user = row->orders_per_user;
        voucher->pay_within_s = row->pay_within_s;
        voucher->has_line = row->has_line;
        voucher->ticket = row->ticket;
        voucher->work_bits = row->work_bits;
        voucher->offer = row->offer;
        voucher->price = row->price;
    }
    return SK_OK;
}

// ---- lookup ----

struct sk_voucher *sk_catalogue_at_slot(const struct sk_catalogue *catalogue, unsigned slot)
{
    return catalogue->slots[slot % SK_SLOTS];
}

struct sk_voucher *sk_catalogue_open(const struct sk_catalogue *catalogue)
{
    return catalogue->open;
}

size_t sk_catalogue_count(const struct sk_catalogue *catalogue)
{
    return catalogue->count;
}

struct sk_voucher *sk_catalogue_at(const struct sk_catalogue *catalogue, size_t i)
{
    SK_ASSERT(i < catalogue->count);
    return catalogue->vouchers[i];
}

static int catalogue_compare(const void *left, const void *right)
{
    const struct sk_listed *one = left, *other = right;
    return one->id < other->id ? 1 : -1;
}

const struct sk_listed *sk_catalogue_listed(struct sk_catalogue *catalogue, size_t *count)
{
    if (!catalogue->sorted) {
        catalogue->listed_count = 0;
        for (size_t i = 0; i < catalogue->count; i++) {
            struct sk_voucher *voucher = catalogue->vouchers[i];
            if (voucher->state == SK_VOUCHER_OPEN || voucher->state == SK_VOUCHER_PAUSED)
                catalogue->listed[catalogue->listed_count++] = (struct sk_listed){voucher->id, voucher};
        }
        if (catalogue->listed_count > 0)
            qsort(catalogue->listed, catalogue->listed_count, sizeof(struct sk_listed), catalogue_compare);
        catalogue->sorted = true;
    }
    *count = catalogue->listed_count;
    return catalogue->listed;
}
