// One way to guard a stock, or a user's single order: its name, its source's claim, our prediction, and its few
// functions. Each approach is one file NN_name.c; compare two of them as a diff.
#ifndef APPROACH_APPROACH_H
#define APPROACH_APPROACH_H

#include <stdbool.h>

struct worker; // one buyer at a time: its connections, its clock (worker.h)

enum outcome { BOUGHT, SOLD_OUT, ALREADY, GAVE_UP, BROKEN };

// A sale is a stock, in SQL unless the approach has its own, and its orders; A_SALE_ONCE has one order per user. All
// values that guard a stock come before A_USER.
enum guards { A_STOCK, A_STOCK_IN_SQL, A_SALE, A_SALE_ONCE, A_USER, AN_ID };

// Where the lock is kept decides which accidents can affect it.
enum lives { NO_LOCK, IN_THE_PROCESS, IN_REDIS, IN_FIVE_REDISES, IN_ZOOKEEPER, IN_POSTGRES };

// What may go wrong: predicted before the run, and measured by it.
enum trouble {
    LOSES_UPDATES = 1 << 0,        // two buyers, one unit less
    OVERSELLS = 1 << 1,            // more buyers than units
    BUYS_TWICE = 1 << 2,           // a user with two orders, or an id that is returned twice
    STUCK = 1 << 3,                // its holder was killed, and no other ever continues
    STUCK_BETWEEN = 1 << 4,        // the same, between two commands that should be one
    TWO_WHEN_SLOW = 1 << 5,        // two holders, because the first one's work took longer than the TTL
    TWO_WHEN_PAUSED = 1 << 6,      // ... because the first one's process was paused
    FREES_ANOTHERS = 1 << 7,       // releases another's lock
    FORGETS = 1 << 8,              // two holders, or an order too many, after the lock's server restarted empty
    TRUSTS_CLOCKS = 1 << 9,        // two holders, because a clock was stepped
    MINORITY_DECIDES = 1 << 10,    // the same because of one of five servers
    TWO_AT_TAKEOVER = 1 << 11,     // two holders, because both took over an expired lock
    FORGETS_IN_FAILOVER = 1 << 12, // two holders, after a replica that lacks the lock was promoted
    LOSES_A_UNIT = 1 << 13,        // a unit is neither in stock nor in an order, often after its process was killed
    TURNS_AWAY = 1 << 14,          // buyers leave without a unit, while there are units for all
    WAITS_FOR_ITSELF = 1 << 15,    // an owner that takes the lock again does not get it (it is not re-entrant)
    TROUBLES = 16
};

struct approach {
    int number;
    const char *title;
    const char *source; // where it comes from
    const char *claim;  // what that source claims
    enum guards guards;
    enum lives lives;
    bool one_process;   // the crowd is the threads of one process
    unsigned predicted; // of enum trouble

    // A lock around the careless purchase (careless.h). lock() returns false if it gave up waiting.
    bool (*lock)(struct worker *worker, const char *user);
    void (*unlock)(struct worker *worker, const char *user);
    // Or its own purchase.
    enum outcome (*buy)(struct worker *worker, const char *user);

    // For an approach that keeps its stock elsewhere.
    bool (*prepare)(struct worker *worker, long units);
    long long (*left)(struct worker *worker);
};

extern const struct approach *const approaches[]; // in their order; ends with NULL

#endif
