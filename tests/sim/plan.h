// What is to happen in a world: which servers there are, what is on sale, what people do, and what goes wrong. All of
// it is drawn from the seed before the world begins; or read from a file, where a story is kept. So each line can be
// left out, and the others stay. What the network does is drawn later, and apart.
#ifndef SIM_PLAN_H
#define SIM_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "people.h"
#include "trouble.h"

enum { ACTS_MAX = 128, TROUBLES_MAX = 16 };

struct plan_voucher {
    int64_t stock, price_cents, pay_within_s;
    unsigned limit;
    int64_t begins_ms, ends_ms; // after it is created
};

struct plan_act {
    uint64_t at_ms;
    enum call_kind kind;
    unsigned instance, voucher, user, quantity; // modulo what there is
    int64_t units;
    bool low_priority;
    unsigned key;   // Idempotency-Key, of the user; 0: none
    unsigned about; // which of the orders so far
};

struct plan_trouble {
    uint64_t at_ms, for_ms;
    enum trouble_kind kind;
    unsigned instance, server;
    uint64_t dice; // all else
};

struct plan {
    uint64_t seed; // of the network, too
    uint64_t for_ms;
    unsigned instances, users;
    unsigned redis; // enum servers_kind
    unsigned shards;
    bool standbys, reader; // of PostgreSQL; of the feed
    unsigned orders_max;   // in progress, in each instance
    bool scope;            // of all vouchers together a user has one order
    struct plan_voucher vouchers[VOUCHERS_MAX];
    size_t voucher_count;
    struct plan_act acts[ACTS_MAX];
    size_t act_count;
    struct plan_trouble troubles[TROUBLES_MAX];
    size_t trouble_count;
};

void plan_draw(struct plan *plan, uint64_t seed);
// As plan_print() has it; lines that begin with # are comments. False: a line is wrong, and was printed.
bool plan_read(struct plan *plan, const char *path);
void plan_print(const struct plan *plan);

#endif
