// A value that never changes and is replaced as a whole from time to time. One thread publishes new editions. Other
// threads hold an edition until they take the next one. An edition is freed once it has been replaced and its last
// holder has given it back.
#ifndef SK_BASE_EDITIONS_H
#define SK_BASE_EDITIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sk_editions;

// One thread, as sk_editions_close, which frees all editions with `free_value`. NULL: out of memory.
struct sk_editions *sk_editions_open(void (*free_value)(void *value));
void sk_editions_close(struct sk_editions *editions); // every taken edition must be back; NULL is fine

// One thread, as sk_editions_current. Takes ownership of the value, which becomes the current edition. False: out of
// memory; the caller still owns the value.
bool sk_editions_publish(struct sk_editions *editions, void *value);
void *sk_editions_current(const struct sk_editions *editions); // NULL: there is none yet

// Any thread. The number of editions published so far. A holder compares it with the version of its own edition to see
// whether that is still current.
uint64_t sk_editions_version(const struct sk_editions *editions);

// Any thread. The caller holds the current edition until it gives it back. Cannot fail, but one must have been
// published.
void *sk_editions_take(struct sk_editions *editions, uint64_t *version);
void sk_editions_give_back(struct sk_editions *editions, const void *value);

// Any thread. The number of editions that are not freed: the current one, and older ones still held.
size_t sk_editions_count(struct sk_editions *editions);

#endif
