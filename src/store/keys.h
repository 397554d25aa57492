// The names of Redis's keys: one place makes them.
//
// A segment's tag stands in braces in each of its keys, so that all of them are in one slot of Redis Cluster: "7" for
// the first segment of voucher 7, "7.s" and what else evens the slots out for the others.
#ifndef SK_STORE_KEYS_H
#define SK_STORE_KEYS_H

enum { SK_TAG_SIZE = 32, SK_KEY_SIZE = 64 };

struct sk_segment_keys {
    char voucher[SK_KEY_SIZE]; // hash: stock, window, state, epoch ...
    char buyers[SK_KEY_SIZE];  // hash: user -> order id
    char journal[SK_KEY_SIZE]; // stream: orders on their way to PostgreSQL
};

// Any thread. The tag is shorter than SK_TAG_SIZE.
void sk_keys_of_segment(const char *tag, struct sk_segment_keys *keys);

// The lock `what` of a segment ("rebuild", "recover" ...).
void sk_key_of_lock(const char *what, const char *tag, char key[SK_KEY_SIZE]);

#endif
