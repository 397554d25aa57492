// One way from the script to the row: Redis decides, the buyer gets an answer, and a consumer writes the order later.
// queues.c measures what a queue may lose on the way. Each way is one file; compare two of them as a diff.
#ifndef APPROACH_QUEUE_H
#define APPROACH_QUEUE_H

#include "worker.h"

enum { QUEUE_FULL = 1000, QUEUE_USER_SIZE = 24 };

// What goes wrong with orders that buyers were promised.
enum queue_trouble {
    LOST_WITH_CONSUMER = 1 << 0, // the consumer's process is killed while it writes an order
    LOST_WHEN_FULL = 1 << 1,     // the consumer is paused, and more orders arrive than the queue holds
    BLOCKS_WHEN_FULL = 1 << 2,   // ... then buyers wait
    GROWS_WHEN_FULL = 1 << 3,    // ... then only memory limits the queue
    LOST_ON_RESTART = 1 << 4,    // Redis is killed, and restarts with its file
    LOST_WHEN_EMPTY = 1 << 5,    // ... without it
    QUEUE_TROUBLES = 6
};

struct queue_way {
    int number;
    const char *title, *source, *claim;
    unsigned predicted; // of enum queue_trouble

    // Runs the script. BOUGHT: the buyer is promised an order. GAVE_UP: refused, or not answered.
    enum outcome (*buy)(struct worker *worker, const char *user);
    // Waits a short time for the next order; false: none.
    bool (*take)(struct worker *worker, char user[QUEUE_USER_SIZE]);
    void (*written)(struct worker *worker); // the row of the order taken is written
    bool (*prepare)(struct worker *worker, long units);
};

extern const struct queue_way *const queue_ways[]; // in their order; ends with NULL

// The script's answer as an outcome; for ways that differ only in their script.
enum outcome queue_grant(struct worker *worker, const struct sk_embedded *script, const char *user);

#endif
