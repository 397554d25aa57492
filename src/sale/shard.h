// One PostgreSQL server, as a reactor uses it: the links to it, and what writes to it. A voucher is on one of them.
#ifndef SK_SALE_SHARD_H
#define SK_SALE_SHARD_H

#include <stdbool.h>

struct sk_pg;
struct sk_writer;
struct sk_line;
struct sk_returns;

struct sk_shard {
    struct sk_pg *orders;  // of the order path
    struct sk_pg *queries; // for everything else, and the catalogue
    struct sk_pg *reports; // for statements that take PostgreSQL seconds, and the heartbeats
    struct sk_writer *writer;
    struct sk_line *line;
    struct sk_returns *returns;
    // Not used: restored from an older copy, or not yet known not to be (recovery/shard_heartbeats.h, which sets it).
    // The first two links are held then. A single shard never is.
    bool closed;
};

#endif
