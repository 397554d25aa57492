// What is left of vouchers on sale: a short table that is written as a whole by one thread, about once a second, and
// read by any. Room for SK_REMAINING_MAX: with more vouchers on sale, those with the highest ids are in it.
#ifndef SK_BASE_REMAINING_H
#define SK_BASE_REMAINING_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

enum { SK_REMAINING_MAX = 100 };

struct sk_remaining_row {
    int64_t voucher_id, units;
};

struct sk_remaining_rows {
    struct sk_remaining_row rows[SK_REMAINING_MAX]; // each voucher once, by id, the highest first
    size_t count;
};

// Starts zeroed.
struct sk_remaining {
    pthread_mutex_t lock;
    struct sk_remaining_rows kept; // under the lock
};

// Adds units to a voucher's row. A voucher that finds no room is left out, or takes the place of one with a lower id.
void sk_remaining_note(struct sk_remaining_rows *rows, int64_t voucher_id, int64_t units);

// Its thread. Never waits: while it is being read, the older table stays.
void sk_remaining_publish(struct sk_remaining *remaining, const struct sk_remaining_rows *rows);

// Any thread. Adds it to *out.
void sk_remaining_read(struct sk_remaining *remaining, struct sk_remaining_rows *out);

#endif
