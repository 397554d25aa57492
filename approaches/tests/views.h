// Parties with a general locker, and locks as their owners see them.
#ifndef APPROACH_TESTS_VIEWS_H
#define APPROACH_TESTS_VIEWS_H

#include <check.h>

#include "general_lock.h"
#include "parties.h"

enum {
    VALUE_SIZE = 80,
    REDIS_TIMEOUT_MS = 5000,
    LONG_TTL_MS = 10000, // is not even renewed within a test
    KEPT_TTL_MS = 1000,  // is renewed, and tolerates a busy machine
    SHORT_TTL_MS = 200,  // for tests that need it to run out
    CLOCK_GRAIN_MS = 5,  // Redis and the test round differently
};

struct view {
    struct general_lock *lock;
    bool release_when_taken, release_when_lost;
    int taken, lost;
    size_t lost_key; // the last one
    uint64_t taken_at_ms;
};

// These callbacks fill the view that is their argument.
extern const struct general_lock_events view_events;

struct party *open_party(uint32_t ttl_ms);
struct party *open_impatient_party(uint32_t ttl_ms, uint32_t redis_timeout_ms);

// Sends the request and returns at once; options NULL: the defaults.
void ask_with(struct party *party, struct view *view, size_t n, const char *const *keys,
              const struct general_lock_options *options);
void ask_many(struct party *party, struct view *view, size_t n, const char *const *keys, uint32_t wait_ms);
void ask(struct party *party, struct view *view, const char *key, uint32_t wait_ms);

// Sends the request, waits for the reply, and returns it.
enum general_lock_state take(struct party *party, struct view *view, const char *key, uint32_t wait_ms);
// The same for keys that are all free.
void take_all(struct party *party, struct view *view, size_t n, const char *const *keys);

// Waits until Redis has done it.
void release(struct party *party, struct view *view);

bool exists(const char *key);
void must_hold(const char *key, const char *value);

// Of both programs.
void views_start(void);
void views_setup(void);
void views_teardown(void);

#endif
