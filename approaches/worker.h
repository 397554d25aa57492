// What an approach may use: the stores, a clock, and the points at which an accident may happen. One worker belongs to
// one thread. A store that does not answer ends the current work: its functions then return NONE, NULL or false, and
// broken() is true.
#ifndef APPROACH_WORKER_H
#define APPROACH_WORKER_H

#include <hiredis/hiredis.h>
#include <libpq-fe.h>
#include <limits.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "approach.h"
#include "approach_embedded.h"
#include "status.h"
#include "uuid.h"

enum { TTL_MS = 500, SERVERS = 5, SCRIPTS_MAX = 8, TOKEN_SIZE = 48, IDS_MAX = 1 << 19 };

#define NONE LLONG_MIN // nil, or no answer

struct given_id {
    char text[40];
    uint64_t began_us, ended_us;
};

// Shared by all processes.
struct shared {
    atomic_long sold, sold_out, already, gave_up, broken;
    atomic_long inside, most_inside, entries; // of the critical section
    atomic_long reads;                        // how often the point "read" was reached
    atomic_long refused_owner;                // how often an owner did not get its lock again
    atomic_long longest_wait_us;
    atomic_long users; // drawn so far
    atomic_long id_count;
    atomic_bool stop, held; // held: no order is written for now (queues.c)
    struct given_id ids[IDS_MAX];
};

// Where the stores are.
struct place {
    char sockets[SERVERS][96]; // of the Redis servers; the first one is "the" Redis
    const char *database_url;
    char zookeeper[64];
};

struct loaded {
    const struct sk_embedded *script; // NULL: none yet
    char sha[41];
};

struct worker {
    const struct approach *approach;
    const struct place *place;
    struct shared *shared;
    redisContext *redis[SERVERS];
    struct loaded loaded[SCRIPTS_MAX];
    redisReply *reply; // the last one
    PGconn *pg;
    PGresult *result;
    bool is_broken;
    char token[TOKEN_SIZE]; // names this worker, and no other
    char kept[TOKEN_SIZE];  // for the approach: data to keep from lock to unlock
    void *state;            // the same, of any size
    int thread;             // its number in its process, from 1
    unsigned dice;          // for rand_r
    struct sk_uuid_gen ids;
    uint64_t gives_up_at_ms;
    int64_t clock_step_ms; // of its own clock
    const char *stops_at;  // accident: the process stops at this point, once
    int works_ms;          // accident: how long it works after its read
    bool locks_again;      // accident: the owner takes its lock once more
};

// ---- the stores ----

// A command formatted as by printf, for the Redis, or for server `i` (0 is the Redis). Returns its number; NONE for
// nil.
long long redis_number(struct worker *worker, const char *format, ...) __attribute__((format(printf, 2, 3)));
long long redis_number_at(struct worker *worker, int i, const char *format, ...) __attribute__((format(printf, 3, 4)));
// Returns the reply's text, valid until the next command; NULL for nil.
const char *redis_text(struct worker *worker, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Runs a script of ours or of the service. `argv`: the keys, then the rest. The reply is in worker->reply.
bool redis_script(struct worker *worker, int i, const struct sk_embedded *script, int keys, int argc,
                  const char *const *argv);

// Runs a statement with text parameters. Returns the number of rows it returns or changes; NONE if it fails.
long long sql(struct worker *worker, enum sk_approach_sql statement, int n, const char *const *params);
const char *sql_text(struct worker *worker); // the first value of the first row

bool broken(const struct worker *worker);

// ---- time ----

int64_t wall_ms(const struct worker *worker); // the time of day, as this worker's clock has it
uint64_t steady_ms(void);
// Waits a little; false: the worker's total waiting time is over, and it gives up.
bool wait_ms(struct worker *worker, int ms);

// ---- accidents ----

// Names the point reached: here the process may stop, or be killed.
void at(struct worker *worker, const char *point);
void enter(struct worker *worker); // the critical section
void leave(struct worker *worker);

// ---- life ----

// False, with a line on standard error: a store cannot be reached.
bool worker_open(struct worker *worker, const struct approach *approach, const struct place *place,
                 struct shared *shared);
void worker_close(struct worker *worker);
// Drops its connections to Redis and clears is_broken; connections are opened again when needed.
void worker_reconnect(struct worker *worker);

#endif
