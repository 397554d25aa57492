// A value that never changes, and is replaced as a whole now and then: one thread publishes new editions of it, others
// hold the one that they work with until they take the next. An edition goes when it has been replaced and the last one
// to hold it has given it back.
#ifndef SK_BASE_EDITIONS_H
#define SK_BASE_EDITIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sk_editions;

// One thread, as sk_editions_close, which frees all with `free_value`. NULL: out of memory.
struct sk_editions *sk_editions_open(void (*free_value)(void *value));
void sk_editions_close(struct sk_editions *editions); // all that were taken are back; NULL is fine

// One thread, as sk_editions_current. Takes the value, which is the current edition from now on. False: out of memory;
// the value stays the caller's.
bool sk_editions_publish(struct sk_editions *editions, void *value);
void *sk_editions_current(const struct sk_editions *editions); // NULL: there is none yet

// Any thread. How many were published: whether one that was taken is still current takes no more than a look at it.
uint64_t sk_editions_version(const struct sk_editions *editions);

// Any thread. The caller holds the current edition, which there is, until it gives it back. To take one cannot fail.
void *sk_editions_take(struct sk_editions *editions, uint64_t *version);
void sk_editions_give_back(struct sk_editions *editions, const void *value);

// Any thread. Those that are not freed: 1, and those that are still held.
size_t sk_editions_count(struct sk_editions *editions);

#endif
