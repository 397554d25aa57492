// Several Redis clients, as of several processes, in one test. A party is a loop, the links, and what the test opens on
// them. Most tests keep their parties in this process and pause one by not running its loop; the others fork real
// processes, each with its own parties.
#ifndef HARNESS_PARTIES_H
#define HARNESS_PARTIES_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "nodes.h"
#include "wait.h"

enum { PARTY_DEADLINE_MS = 3 * WAIT_DEADLINE_MS };

struct party {
    uv_loop_t loop;
    uv_prepare_t turn;
    struct sk_nodes *nodes; // one Redis
    void *part;             // what the test opens on loop and links; NULL: nothing
    void (*close_part)(void *part);
    bool open, paused;
};

// Waits until its links are ready. The harness owns the memory; at most three are open at a time.
struct party *party_open(uint32_t redis_timeout_ms);
// Its link for orders.
struct sk_redis *party_redis(const struct party *party);
// Closes in the order of a clean exit: the links, then the part.
void party_close(struct party *party);
// Waits until Redis has executed everything that the party has sent.
void party_settle(struct party *party);

// Runs the loop of every party once, except paused ones.
void parties_run(void);

#define RUN_UNTIL(condition)                                                \
    do {                                                                    \
        uint64_t run_until_ms = sk_monotonic_ms() + PARTY_DEADLINE_MS;      \
        while (!(condition)) {                                              \
            must(sk_monotonic_ms() < run_until_ms, "in vain: " #condition); \
            parties_run();                                                  \
        }                                                                   \
    } while (0)

// For the end of a checked fixture: kills processes left by a failed test, and drops its parties.
void parties_give_up(void);

// A check that also works in a child process, which it then ends.
void must(bool ok, const char *what);

// ---- processes ----

struct child;

// Runs `body` in its own process, which then exits with success. The process starts without parties.
struct child *child_start(void (*body)(int says, void *arg), void *arg);
void child_say(int says, char word);
void child_must_say(const struct child *child, char word);
void child_signal(const struct child *child, int signal);
int child_wait(struct child *child); // its status as from waitpid

// How often Redis has executed a command since its statistics were reset.
int64_t redis_calls_of(const char *command);

#endif
