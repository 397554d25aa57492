// Order ids: UUID version 7 (RFC 9562, 5.7): 48 bits of Unix time in ms, a 12-bit counter within the ms (method 1 of
// 6.2), 62 random bits. Ids of one generator increase strictly, even when the clock steps back.
#ifndef SK_BASE_UUID_H
#define SK_BASE_UUID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SK_UUID_CHARS = 36, SK_UUID_SIZE = 37 };

struct sk_uuid_gen {
    uint64_t last_ms;
    uint32_t counter;
    uint32_t left; // random words not used yet
    uint64_t random[256];
};

// The thread that owns *gen, which starts zeroed. Writes 36 characters and NUL.
void sk_uuid_next(struct sk_uuid_gen *gen, char out[SK_UUID_SIZE]);

// The same for a given time: for tests.
void sk_uuid_at(struct sk_uuid_gen *gen, uint64_t wall_ms, char out[SK_UUID_SIZE]);

// The last 24 bits of an id may carry data instead of random bits. 38 random bits remain, besides time and counter.
enum { SK_UUID_TAIL_BITS = 24 };
void sk_uuid_set_tail(char id[SK_UUID_SIZE], uint32_t tail);
uint32_t sk_uuid_tail(const char *id); // of a valid id

// Any thread. Whether `text` is a UUID in the usual form, in lower case.
bool sk_uuid_valid(const char *text);

// Any thread. Reads a UUID of n bytes in any case (RFC 9562, 4), with its four dashes or without any, and writes it in
// the usual form. False: it is not a UUID.
bool sk_uuid_read(const char *text, size_t n, char out[SK_UUID_SIZE]);

// Any thread. Fills `out` from the kernel; aborts if the kernel has no randomness.
void sk_random_bytes(void *out, size_t n);

#endif
