// What a reactor sees of each server of the stores: whether it is connected, and how long it takes to answer. A short
// table, which one thread writes as a whole a few times a second, and any thread reads.
#ifndef SK_BASE_SERVER_TABLE_H
#define SK_BASE_SERVER_TABLE_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

enum { SK_SERVERS_MAX = 96, SK_SERVER_NAME_SIZE = 264 };

struct sk_server_row {
    const char *store; // a constant
    char name[SK_SERVER_NAME_SIZE];
    uint64_t up;                   // 1: its connections are ready; of several reactors their sum
    uint64_t lost;                 // connections that ended
    uint64_t answers, answered_ns; // how often its connections have waited for it, and how long together
};

struct sk_server_rows {
    struct sk_server_row rows[SK_SERVERS_MAX]; // each server once
    size_t count;
};

// Starts zeroed.
struct sk_server_table {
    pthread_mutex_t lock;
    struct sk_server_rows kept; // under the lock
};

// The row of a server, which is added with zeros if it is new. NULL: the table is full. A name is a label of /metrics:
// characters that may not stand there become `?`.
struct sk_server_row *sk_server_table_row(struct sk_server_rows *rows, const char *store, const char *name);

// The writer's thread. Never waits: while a reader has the lock, the older table stays.
void sk_server_table_publish(struct sk_server_table *servers, const struct sk_server_rows *rows);

// Any thread. Adds the table to *out.
void sk_server_table_read(struct sk_server_table *servers, struct sk_server_rows *out);

#endif
