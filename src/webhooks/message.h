// A page of events as it is posted: its body, its id, and where the feed goes on behind it.
//
// Events are those of the feed (docs/http.md), each with the id that it has there, so a receiver that gets one again,
// or reads it there, knows it. The message's id is that of its last event: it stays the same for each try.
#ifndef SK_WEBHOOKS_MESSAGE_H
#define SK_WEBHOOKS_MESSAGE_H

#include <stddef.h>

#include "buf.h"
#include "cursor.h"
#include "params.h"
#include "pg_result.h"
#include "receivers.h"
#include "status.h"
#include "text.h"

// A place in a shard's feed: numbers as PostgreSQL writes them.
struct sk_feed_place {
    char tx[SK_PARAM_NUMBER_SIZE], seq[SK_PARAM_NUMBER_SIZE];
};

// Starts zeroed.
struct sk_message {
    struct sk_buf body; // owned
    char id[SK_CURSOR_SIZE];
    char first_at[SK_TIME_SIZE + 8]; // of its first event, as the feed has it
    size_t events;                   // 0: the receiver wants none of the rows
    struct sk_feed_place behind;     // all rows up to here are in it, or not wanted
};

// One thread. Reads the rows of SK_KEEPING_WEBHOOK_PAGE, at least one, of `shard` of so many. SK_NO_MEM: out of memory.
enum sk_status sk_message_make(struct sk_message *message, const struct sk_receiver *receiver,
                               const struct sk_rows *rows, size_t shard, size_t shards) SK_MUST_CHECK;

// A test message without events, to try a receiver. now_ms: Unix time.
enum sk_status sk_message_make_test(struct sk_message *message, int64_t now_ms) SK_MUST_CHECK;

void sk_message_free(struct sk_message *message);

#endif
