#include "voucher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "filter.h"
#include "histogram.h"
#include "slot.h"

static const char *const state_names[] = {"open", "paused", "closed", "retired"};

enum sk_voucher_state sk_voucher_state_of(const char *name)
{
    for (int i = 0; i < SK_VOUCHER_RETIRED; i++) {
        if (strcmp(name, state_names[i]) == 0)
            return (enum sk_voucher_state)i;
    }
    return SK_VOUCHER_RETIRED;
}

bool sk_voucher_state_known(const char *name)
{
    enum sk_voucher_state state = sk_voucher_state_of(name);
    return strcmp(name, state_names[state]) == 0;
}

const char *sk_voucher_state_name(enum sk_voucher_state state)
{
    return state_names[state];
}

struct sk_voucher *sk_voucher_new(int64_t id, const char *tag, size_t maintenance_size)
{
    struct sk_voucher *voucher = calloc(1, sizeof *voucher);
    struct sk_maintenance *maintenance = calloc(1, maintenance_size);
    if (voucher == NULL || maintenance == NULL) {
        free(maintenance);
        free(voucher);
        return NULL;
    }
    voucher->id = id;
    voucher->maintenance = maintenance;
    sk_list_begin(&voucher->entries.own);
    (void)snprintf(voucher->tag, sizeof voucher->tag, "%s", tag);
    voucher->slot = sk_slot(tag, strlen(tag));
    sk_keys_of_voucher(id, voucher->tag, &voucher->keys);
    return voucher;
}

void sk_voucher_free(struct sk_voucher *voucher)
{
    SK_ASSERT(voucher->pins == 0);
    SK_ASSERT(!voucher->asking.listed && sk_list_is_empty(&voucher->entries.own)); // these have a pin
    sk_filter_free(voucher->refusals.filter);
    sk_filter_free(voucher->full_line.filter);
    sk_histogram_close(voucher->durable);
    free(voucher->document);
    free(voucher->maintenance);
    free(voucher);
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

enum sk_status sk_voucher_keep_document(struct sk_voucher *voucher, const char *document)
{
    char *copy = strdup(document);
    if (copy == NULL)
        return SK_NO_MEM;
    free(voucher->document);
    voucher->document = copy;
    return SK_OK;
}

const char *sk_purchase_code_name(enum sk_purchase_code code)
{
    static const char *const names[] = {
#define VOUCHER_CODE_NAME(name) #name,
        SK_PURCHASE_CODES(VOUCHER_CODE_NAME)
#undef VOUCHER_CODE_NAME
    };
    return names[code];
}
