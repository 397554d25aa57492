// Requests that wait for the feed's next event. However many a reactor has, they share one statement for each shard
// every 100 ms: where the feed ends. Without any, nothing is asked, and purchases notify nobody: a NOTIFY would make
// their commits take turns.
//
// The reactor's thread, as all functions.
#ifndef SK_API_FEED_H
#define SK_API_FEED_H

#include "cursor.h"
#include "query.h"

struct sk_feed;

// NULL: out of memory. Borrows control.
struct sk_feed *sk_feed_open(struct sk_control *control);
// Answers all waiting requests with UNAVAILABLE. Call after closing the links and before the queries. NULL is fine.
void sk_feed_close(struct sk_feed *feed);

// The kinds of events that a reader can want alone: "placed", "moves", "sales". NULL: no such kind.
const char *sk_feed_kind(const char *name);

// The handle waits until a shard has an event of this kind (NULL: any) behind its position (`after` has one for each).
// Then it is answered FOUND, without a body, and waits no longer; it does not wait again before that answer has
// returned. False: out of memory, and the handle does not wait.
bool sk_feed_add(struct sk_feed *feed, const struct sk_position *after, const char *kind, uint64_t handle);

// The handle waits no longer, and is not answered. False: it did not wait.
bool sk_feed_leave(struct sk_feed *feed, uint64_t handle);

#endif
