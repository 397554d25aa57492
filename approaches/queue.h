// One way from the script to the row: Redis decides, the buyer has an answer, and a consumer writes the order later.
// What a queue may lose on that way is found out by queues.c. Each way is one file; two of them are best read as a
// diff.
#ifndef APPROACH_QUEUE_H
#define APPROACH_QUEUE_H

#include "worker.h"

enum { QUEUE_FULL = 1000, QUEUE_USER_SIZE = 24 };

// What goes wrong with orders that buyers were told they have.
enum queue_trouble {
    LOST_WITH_CONSUMER = 1 << 0, // the consumer's process is killed with an order in its hand
    LOST_WHEN_FULL = 1 << 1,     // the consumer stands still, and more orders come than the queue holds
    BLOCKS_WHEN_FULL = 1 << 2,   // ... then buyers wait
    GROWS_WHEN_FULL = 1 << 3,    // ... then the queue has no bound but the memory
    LOST_ON_RESTART = 1 << 4,    // Redis is killed, and comes back with its file
    LOST_WHEN_EMPTY = 1 << 5,    // ... without it
    QUEUE_TROUBLES = 6
};

struct queue_way {
    int number;
    const char *title, *source, *claim;
    unsigned predicted; // of enum queue_trouble

    // Asks the script. BOUGHT: the buyer is told so. GAVE_UP: refused, or not answered.
    enum outcome (*buy)(struct worker *worker, const char *user);
    // The next order, waited for a little; false: none.
    bool (*take)(struct worker *worker, char user[QUEUE_USER_SIZE]);
    void (*written)(struct worker *worker); // the row of the taken one is there
    bool (*prepare)(struct worker *worker, long units);
};

extern const struct queue_way *const queue_ways[]; // in their order; ends with NULL

// The script's answer as an outcome; for the ways that differ in their script alone.
enum outcome queue_grant(struct worker *worker, const struct sk_embedded *script, const char *user);

#endif
