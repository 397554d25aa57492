// A fake of sale/returns.c: keeps the last requested return until the test ends it. Included by one source of a
// program.
#ifndef UNIT_FAKE_RETURNS_H
#define UNIT_FAKE_RETURNS_H

#include <check.h>
#include <stdio.h>
#include <string.h>

#include "returns.h"
#include "uuid.h"

static struct {
    enum sk_status status; // for the next calls
    size_t count, ended;
    const struct sk_returns *returns;
    const struct sk_voucher *voucher;
    char order_id[SK_UUID_SIZE];
    enum sk_return_move move;
    char by[128], why[256]; // "-": none
    sk_return_cb *done;
    void *arg;
} fake_returns;

enum sk_status sk_return_order(struct sk_returns *returns, struct sk_voucher *voucher, const char *order_id,
                               enum sk_return_move move, const char *by, const char *why, sk_return_cb *done, void *arg)
{
    if (fake_returns.status != SK_OK)
        return fake_returns.status;
    ck_assert_uint_eq(fake_returns.count, fake_returns.ended); // one at a time
    fake_returns.count++;
    fake_returns.returns = returns;
    fake_returns.voucher = voucher;
    fake_returns.move = move;
    fake_returns.done = done;
    fake_returns.arg = arg;
    (void)snprintf(fake_returns.order_id, sizeof fake_returns.order_id, "%s", order_id);
    (void)snprintf(fake_returns.by, sizeof fake_returns.by, "%s", by);
    (void)snprintf(fake_returns.why, sizeof fake_returns.why, "%s", why == NULL ? "-" : why);
    return SK_OK;
}

static inline void return_ends(enum sk_return_end end)
{
    ck_assert_uint_eq(fake_returns.count, fake_returns.ended + 1);
    fake_returns.ended++;
    fake_returns.done(fake_returns.arg, end);
}

#endif
