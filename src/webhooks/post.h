// One POST to a receiver, by libcurl: blocking, with the connection kept for the next one.
//
// It follows no redirect, uses no proxy of the environment, sends no user's password, and reads a body of any length to
// nothing. A post ends within SK_POST_MAX_MS.
#ifndef SK_WEBHOOKS_POST_H
#define SK_WEBHOOKS_POST_H

#include <stdbool.h>
#include <stdint.h>

#include "message.h"
#include "receivers.h"

enum { SK_POST_MAX_MS = 30000, SK_POST_WHY_SIZE = 128 };

struct sk_poster;

struct sk_post_answer {
    unsigned status; // of HTTP; 0: there was no answer
    uint32_t retry_after_s;
    char why[SK_POST_WHY_SIZE]; // "HTTP 500", "Connection refused"
};

// The main thread, before all others, and after them.
enum sk_status sk_posts_begin(void) SK_MUST_CHECK;
void sk_posts_end(void);

// The poster's thread, as the two below. Borrows the receiver. `given_up` is asked while a post runs: true ends it;
// NULL: nobody ends it. NULL: out of memory.
struct sk_poster *sk_poster_open(const struct sk_receiver *receiver, bool (*given_up)(void *arg), void *arg);
void sk_poster_close(struct sk_poster *poster); // NULL is fine

void sk_poster_send(struct sk_poster *poster, const struct sk_message *message, struct sk_post_answer *answer);

#endif
