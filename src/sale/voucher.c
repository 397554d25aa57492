#include "voucher.h"

#include <stdlib.h>
#include <string.h>

#include "hash.h"

static const char *const state_names[] = {"open", "paused", "closed", "retired"};

enum sk_voucher_state sk_voucher_state_of(const char *name)
{
    for (int i = 0; i < SK_VOUCHER_RETIRED; i++) {
        if (strcmp(name, state_names[i]) == 0)
            return (enum sk_voucher_state)i;
    }
    return SK_VOUCHER_RETIRED;
}

const char *sk_voucher_state_name(enum sk_voucher_state state)
{
    return state_names[state];
}

struct sk_voucher *sk_voucher_new(int64_t id, unsigned segment_count)
{
    struct sk_voucher *voucher = calloc(1, sizeof *voucher + segment_count * sizeof(struct sk_segment *));
    if (voucher == NULL)
        return NULL;
    voucher->id = id;
    voucher->segment_count = segment_count;
    return voucher;
}

void sk_voucher_free(struct sk_voucher *voucher)
{
    if (voucher == NULL)
        return;
    SK_ASSERT(voucher->pins == 0);
    for (unsigned i = 0; i < voucher->segment_count; i++)
        sk_segment_free(voucher->segments[i]);
    free(voucher->shown.document);
    free(voucher);
}

enum sk_status sk_voucher_add_segment(struct sk_voucher *voucher, unsigned number, const char *tag, size_t care_size)
{
    SK_ASSERT(number < voucher->segment_count && voucher->segments[number] == NULL);
    voucher->segments[number] = sk_segment_new(voucher, voucher->id, number, tag, care_size);
    return voucher->segments[number] == NULL ? SK_NO_MEM : SK_OK;
}

struct sk_segment *sk_voucher_segment_of(struct sk_voucher *voucher, const char *user)
{
    unsigned number =
        voucher->segment_count == 1 ? 0 : (unsigned)(sk_hash(user, strlen(user)) % voucher->segment_count);
    return voucher->segments[number];
}

void sk_voucher_pin(struct sk_voucher *voucher)
{
    voucher->pins++;
}

void sk_voucher_unpin(struct sk_voucher *voucher)
{
    SK_ASSERT(voucher->pins > 0);
    if (--voucher->pins == 0 && voucher->left)
        sk_voucher_free(voucher);
}
