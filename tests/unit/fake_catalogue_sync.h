// Fakes of the catalogue sync and the rebuilds, for units of the control plane: the test decides when a poll of the
// catalogue ends, and with which changes. Included by one source of a program.
#ifndef UNIT_FAKE_FOLLOW_H
#define UNIT_FAKE_FOLLOW_H

#include <check.h>

#include "catalogue_sync.h"
#include "maintenance.h"

static struct {
    bool complete;
    int64_t newest_id;
    size_t waits, hurries;
    struct sk_catalogue_sync_waiter *waiting;
} fake_catalogue_sync;

static struct {
    enum sk_status status; // for the next calls
    size_t count;
    struct sk_voucher *voucher;
    enum sk_rebuild_why why;
    sk_rebuild_cb *done;
    void *arg;
} fake_rebuild;

bool sk_catalogue_sync_complete(const struct sk_catalogue_sync *sync)
{
    (void)sync;
    return fake_catalogue_sync.complete;
}

int64_t sk_catalogue_sync_newest_id(const struct sk_catalogue_sync *sync)
{
    (void)sync;
    return fake_catalogue_sync.newest_id;
}

void sk_catalogue_sync_hurry(struct sk_catalogue_sync *sync)
{
    (void)sync;
    fake_catalogue_sync.hurries++;
}

void sk_catalogue_sync_wait(struct sk_catalogue_sync *sync, struct sk_catalogue_sync_waiter *waiter)
{
    (void)sync;
    waiter->next = fake_catalogue_sync.waiting;
    fake_catalogue_sync.waiting = waiter;
    fake_catalogue_sync.waits++;
}

// Ends a poll: all waiting callers are notified; those that arrive meanwhile wait for the next one.
static inline void follow_ends(bool ok)
{
    struct sk_catalogue_sync_waiter *waiter = fake_catalogue_sync.waiting;
    fake_catalogue_sync.waiting = NULL;
    fake_catalogue_sync.complete = fake_catalogue_sync.complete || ok;
    ck_assert_ptr_nonnull(waiter);
    while (waiter != NULL) {
        struct sk_catalogue_sync_waiter *next = waiter->next;
        waiter->done(waiter, ok);
        waiter = next;
    }
}

enum sk_status sk_rebuild(struct sk_rebuilds *rebuilds, struct sk_voucher *voucher, enum sk_rebuild_why why,
                          sk_rebuild_cb *done, void *arg)
{
    (void)rebuilds;
    fake_rebuild.count++;
    fake_rebuild.voucher = voucher;
    fake_rebuild.why = why;
    fake_rebuild.done = done;
    fake_rebuild.arg = arg;
    return fake_rebuild.status;
}

void sk_rebuild_soon(struct sk_rebuilds *rebuilds, struct sk_voucher *voucher, enum sk_doubt doubt)
{
    (void)rebuilds;
    (void)voucher;
    (void)doubt;
    ck_abort_msg("only purchases ask for it");
}

#endif
