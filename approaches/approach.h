// One way to guard a stock, or a user's single order: what it is called, what is said of it, what we expect, and
// the few functions that are it. Each approach is one file NN_name.c; two of them are best read as a diff.
#ifndef APPROACH_APPROACH_H
#define APPROACH_APPROACH_H

#include <stdbool.h>

struct worker; // one buyer at a time: its connections, its clock (worker.h)

enum outcome { BOUGHT, SOLD_OUT, ALREADY, GAVE_UP, BROKEN };

// A sale is a stock in SQL and its orders. All that guard a stock stand before A_USER.
enum guards { A_STOCK, A_STOCK_IN_SQL, A_SALE, A_USER, AN_ID };

// Where the lock lives decides which accidents can meet it.
enum lives { NO_LOCK, IN_THE_PROCESS, IN_REDIS, IN_FIVE_REDISES, IN_ZOOKEEPER, IN_POSTGRES };

// What may go wrong. It is written down before the run, and found out by it.
enum trouble {
    LOSES_UPDATES = 1 << 0,        // two buyers, one unit less
    OVERSELLS = 1 << 1,            // more buyers than units
    BUYS_TWICE = 1 << 2,           // a user with two orders, or an id that is given out twice
    STUCK = 1 << 3,                // its holder was killed, and no other ever goes on
    STUCK_BETWEEN = 1 << 4,        // the same, between two commands that should be one
    TWO_WHEN_SLOW = 1 << 5,        // two inside, because the first one's work took longer than the TTL
    TWO_WHEN_PAUSED = 1 << 6,      // ... because the first one's process stood still
    FREES_ANOTHERS = 1 << 7,       // releases another's lock
    FORGETS = 1 << 8,              // two inside, or an order too many, after the lock's server came back empty
    TRUSTS_CLOCKS = 1 << 9,        // two inside, because a clock was stepped
    MINORITY_DECIDES = 1 << 10,    // the same because of one of five servers
    TWO_AT_TAKEOVER = 1 << 11,     // two inside, because both took over an expired lock
    FORGETS_IN_FAILOVER = 1 << 12, // two inside, after a replica that lacks the lock was promoted
    LOSES_A_UNIT = 1 << 13,        // its process was killed, and a unit is neither in stock nor in an order
    TROUBLES = 14
};

struct approach {
    int number;
    const char *title;
    const char *source; // where it comes from
    const char *claim;  // what is said of it there
    enum guards guards;
    enum lives lives;
    unsigned predicted; // of enum trouble

    // A lock around the careless way of buying (careless.h). lock() is false if it gave up waiting.
    bool (*lock)(struct worker *worker, const char *user);
    void (*unlock)(struct worker *worker, const char *user);
    // Or a way of its own.
    enum outcome (*buy)(struct worker *worker, const char *user);

    // Where it keeps its stock, if not where the others do.
    bool (*prepare)(struct worker *worker, long units);
    long long (*left)(struct worker *worker);
};

extern const struct approach *const approaches[]; // in their order; ends with NULL

#endif
