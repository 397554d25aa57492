// Order ids made in the process: UUIDv7, a time stamp in ms and random bits. They need no call and cannot be lost.
// Within a process they are ordered, between processes to the ms.
#include "ids.h"

static enum outcome buy(struct worker *worker, const char *user)
{
    char id[SK_UUID_SIZE];
    uint64_t began_us = ids_now_us();
    (void)user;
    sk_uuid_next(&worker->ids, id);
    ids_keep(worker, began_us, id);
    return BOUGHT;
}

const struct approach approach_uuid_v7 = {
    .number = 31,
    .title = "order ids: UUIDv7",
    .source = "the service",
    .claim = "unique without a call",
    .guards = AN_ID,
    .predicted = 0,
    .buy = buy,
};
