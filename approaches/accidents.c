#include "accidents.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "crowd.h"
#include "purchase.h"

enum {
    UNITS = 1,
    REACH_MS = 4000,         // to reach a point
    RUSH_MS = TTL_MS / 5,    // well before a TTL ends
    OUTLIVE_MS = 4 * TTL_MS, // well after it, and after a session of ZooKeeper
    STUCK_MS = 5 * TTL_MS,   // after which no other buyer can continue any more
    STEP_S = 3600,
};

struct scene {
    struct servers *servers;
    const struct approach *approach;
    struct shared *shared;
    struct result *result;
    struct worker *judge;
    bool ok;
};

// What one buyer does in a scene.
struct part {
    const char *user, *stops_at;
    int works_ms, patience_ms;
    int64_t clock_step_ms;
    bool locks_again;
};

static void accident_run_all(struct scene *scene);
static void accident_race(struct scene *scene, const char *point);
static long accident_killed(struct scene *scene, const char *point, enum trouble trouble);
static void accident_slow(struct scene *scene);
static void accident_lock_again(struct scene *scene);
static void accident_takeover(struct scene *scene);
static void accident_paused(struct scene *scene, const char *point, bool is_inside);
static bool accident_forgets(struct scene *scene, int count);
static bool accident_restart(struct scene *scene, int count);
static bool accident_failover(struct scene *scene, int count);
static bool accident_sells_again(struct scene *scene);
static bool accident_trusts_clocks(struct scene *scene, int count);
static bool accident_gets_in(struct scene *scene, int64_t clock_step_ms);
static void accident_lose_servers(struct scene *scene);
static bool accident_can_buy(struct scene *scene);
static void accident_ids_after_a_restart(struct scene *scene);
static bool accident_begin(struct scene *scene, int units);
static pid_t accident_stop_one(struct scene *scene, const char *point, int units);
static pid_t accident_act(const struct scene *scene, struct part part);
static bool accident_has_stopped(pid_t pid, int ms);
static enum outcome accident_end_of(pid_t pid, int ms);
static void accident_note(struct scene *scene, enum trouble trouble, bool happened);
static bool accident_was_two(struct scene *scene);

bool accidents_run(struct servers *servers, const struct approach *approach, struct shared *shared,
                   struct result *result)
{
    static struct worker judge;
    struct scene scene = {servers, approach, shared, result, &judge, true};
    if (!worker_open(&judge, approach, &servers->place, shared))
        return false;
    accident_run_all(&scene);
    worker_close(&judge);
    return scene.ok;
}

static void accident_run_all(struct scene *scene)
{
    const struct approach *approach = scene->approach;
    struct result *result = scene->result;
    if (approach->guards == AN_ID) {
        accident_ids_after_a_restart(scene);
        return;
    }
    if (!approach->one_process) // its buyers are processes
        accident_race(scene, "read");
    accident_race(scene, "released");
    result->killed_ms = accident_killed(scene, "read", STUCK);
    result->killed_between_ms = accident_killed(scene, "between", STUCK_BETWEEN);
    if (approach->guards == A_USER)
        accident_note(scene, FORGETS, accident_sells_again(scene));
    // A lock in the process ends with the process, and no other process waits for it. (C's and Go's mutexes wait for
    // themselves; Java's synchronized does not.)
    if (approach->lives == NO_LOCK || approach->lives == IN_THE_PROCESS)
        return;
    if (approach->lock != NULL)
        accident_lock_again(scene);
    accident_slow(scene);
    accident_paused(scene, "read", true);
    accident_paused(scene, "checked", false);
    // A lock outside Redis has no data there to lose, and no TTL that a clock step could end.
    if (approach->lives != IN_REDIS && approach->lives != IN_FIVE_REDISES)
        return;
    int majority = 1;
    if (approach->lives == IN_FIVE_REDISES) {
        accident_lose_servers(scene);
        majority = SERVERS / 2 + 1;
    }
    accident_takeover(scene);
    accident_note(scene, FORGETS, accident_forgets(scene, majority));
    accident_note(scene, FORGETS_IN_FAILOVER, accident_failover(scene, majority));
    accident_note(scene, TRUSTS_CLOCKS, accident_trusts_clocks(scene, majority));
}

// ---- accidents ----

// Two at once, as close together as possible: the second one buys between the read and the write of the first.
static void accident_race(struct scene *scene, const char *point)
{
    pid_t first = accident_stop_one(scene, point, UNITS);
    if (first == 0)
        return;
    (void)accident_end_of(accident_act(scene, (struct part){.user = "u", .patience_ms = RUSH_MS}), REACH_MS);
    (void)accident_end_of(first, REACH_MS);
    long sold = atomic_load(&scene->shared->sold);
    if (scene->approach->guards == A_USER) {
        accident_note(scene, BUYS_TWICE, crowd_twice(scene->judge, "u", NULL) > 0);
    } else {
        accident_note(scene, OVERSELLS, sold > UNITS);
        accident_note(scene, LOSES_UPDATES, sold > UNITS - crowd_left(scene->judge));
    }
}

// Time in ms until another one buys after the first was killed at a point; NEVER; NOT_TRIED without such a point.
static long accident_killed(struct scene *scene, const char *point, enum trouble trouble)
{
    pid_t first = accident_stop_one(scene, point, 2 * UNITS);
    if (first == 0)
        return NOT_TRIED;
    uint64_t began = steady_ms();
    (void)kill(first, SIGKILL);
    (void)waitpid(first, NULL, 0);
    atomic_store(&scene->shared->inside, 0);
    enum outcome outcome =
        accident_end_of(accident_act(scene, (struct part){.user = "u", .patience_ms = STUCK_MS}), 2 * STUCK_MS);
    long ms = (long)(steady_ms() - began), orders = 0;
    bool went_on = outcome == BOUGHT;
    if (scene->approach->guards == A_USER) {
        (void)crowd_twice(scene->judge, "u", &orders); // already bought: is there an order?
        went_on = orders == 1;
    }
    accident_note(scene, trouble, !went_on);
    if (scene->approach->guards == A_SALE || scene->approach->guards == A_SALE_ONCE) {
        (void)crowd_twice(scene->judge, "u", &orders);
        accident_note(scene, LOSES_A_UNIT, crowd_left(scene->judge) + orders != 2LL * UNITS);
    }
    return went_on ? ms : NEVER;
}

// An owner takes its lock once more, as a function does that calls another one with the same lock.
static void accident_lock_again(struct scene *scene)
{
    if (!accident_begin(scene, UNITS))
        return;
    struct part part = {.user = "u", .patience_ms = RUSH_MS, .locks_again = true};
    (void)accident_end_of(accident_act(scene, part), REACH_MS);
    accident_note(scene, WAITS_FOR_ITSELF, atomic_load(&scene->shared->refused_owner) > 0);
}

// The first one works for longer than the TTL.
static void accident_slow(struct scene *scene)
{
    if (!accident_begin(scene, 2 * UNITS))
        return;
    struct part part = {.user = "u", .works_ms = 3 * TTL_MS, .patience_ms = REACH_MS};
    pid_t first = accident_act(scene, part);
    for (int ms = 0; ms < REACH_MS && atomic_load(&scene->shared->inside) == 0; ms++)
        (void)usleep(1000);
    (void)accident_end_of(accident_act(scene, (struct part){.user = "u", .patience_ms = 2 * TTL_MS}), 2 * REACH_MS);
    (void)accident_end_of(first, 2 * REACH_MS);
    accident_note(scene, TWO_WHEN_SLOW, accident_was_two(scene));
}

// The first one's process is paused at a point for longer than the TTL, and then continues. Whose lock does it release?
// A third one, who comes while the second one holds the lock, shows that.
static void accident_paused(struct scene *scene, const char *point, bool is_inside)
{
    struct shared *shared = scene->shared;
    pid_t first = accident_stop_one(scene, point, 3 * UNITS);
    if (first == 0)
        return;
    long already_in = is_inside ? 1 : 0;
    struct part long_work = {.user = "u", .works_ms = TTL_MS * 4 / 5, .patience_ms = OUTLIVE_MS};
    long read_before = atomic_load(&shared->reads);
    pid_t second = accident_act(scene, long_work);
    // Waits until the second one holds the lock and has read: it must not read what the first one is about to write.
    for (uint64_t until = steady_ms() + OUTLIVE_MS; steady_ms() < until; (void)usleep(500)) {
        if (atomic_load(&shared->inside) > already_in && atomic_load(&shared->reads) > read_before)
            break;
    }
    bool second_is_in = atomic_load(&shared->inside) > already_in;
    (void)accident_end_of(first, REACH_MS);
    bool others_are_kept_out = (scene->result->measured & LOSES_UPDATES) == 0;
    if (second_is_in && others_are_kept_out && scene->approach->guards != A_USER) {
        atomic_store(&shared->most_inside, atomic_load(&shared->inside));
        (void)accident_end_of(accident_act(scene, (struct part){.user = "u", .patience_ms = RUSH_MS}), REACH_MS);
        accident_note(scene, FREES_ANOTHERS, atomic_load(&shared->most_inside) > 1);
    }
    (void)accident_end_of(second, REACH_MS);
    if (is_inside)
        accident_note(scene, TWO_WHEN_PAUSED,
                      scene->approach->guards == A_USER ? accident_was_two(scene) : second_is_in);
}

// The holder has died, and its lock has expired. One buyer sees that and pauses. Another sees it too, takes the lock
// over and works. Then the first buyer continues.
static void accident_takeover(struct scene *scene)
{
    struct part slow = {.user = "u", .works_ms = TTL_MS * 4 / 5, .patience_ms = REACH_MS};
    struct part looks = {.user = "u", .stops_at = "expired", .patience_ms = RUSH_MS + TTL_MS};
    pid_t holder = accident_stop_one(scene, "read", 3 * UNITS);
    if (holder == 0)
        return;
    (void)kill(holder, SIGKILL);
    (void)waitpid(holder, NULL, 0);
    (void)usleep((useconds_t)(TTL_MS + RUSH_MS) * 1000);
    atomic_store(&scene->shared->inside, 0);
    pid_t first = accident_act(scene, looks);
    if (!accident_has_stopped(first, REACH_MS))
        return;
    pid_t second = accident_act(scene, slow);
    for (int ms = 0; ms < REACH_MS && atomic_load(&scene->shared->inside) == 0; ms++)
        (void)usleep(1000);
    atomic_store(&scene->shared->most_inside, atomic_load(&scene->shared->inside));
    (void)accident_end_of(first, REACH_MS);
    accident_note(scene, TWO_AT_TAKEOVER, atomic_load(&scene->shared->most_inside) > 1);
    (void)accident_end_of(second, REACH_MS);
}

static bool accident_forgets(struct scene *scene, int count)
{
    pid_t first = accident_stop_one(scene, "read", 2 * UNITS);
    bool two = false;
    if (first == 0)
        return false;
    if (accident_restart(scene, count))
        two = accident_gets_in(scene, 0);
    (void)accident_end_of(first, REACH_MS);
    return scene->approach->guards == A_USER ? accident_was_two(scene) : two;
}

// The lock's server, or `count` of its servers, restart empty.
static bool accident_restart(struct scene *scene, int count)
{
    for (int i = 0; i < count && scene->ok; i++) {
        scene->ok = servers_kill_redis(i) && servers_start_redis(scene->servers, i);
    }
    const struct approach *approach = scene->approach;
    worker_reconnect(scene->judge);
    scene->ok = scene->ok && redis_number(scene->judge, "SET stock 2") == 1 &&
                (approach->prepare == NULL || approach->prepare(scene->judge, 2));
    return scene->ok;
}

// The lock's server, or `count` of its servers, die, and their replicas are promoted. The lock had not reached the
// replicas yet.
static bool accident_failover(struct scene *scene, int count)
{
    bool two = false;
    if (!accident_begin(scene, 2 * UNITS))
        return false;
    for (int i = 0; i < count; i++)
        scene->ok = scene->ok && servers_lag(i);
    struct part part = {.user = "u", .stops_at = "read", .patience_ms = REACH_MS};
    pid_t first = accident_act(scene, part);
    if (accident_has_stopped(first, REACH_MS)) {
        for (int i = 0; i < count; i++)
            scene->ok = scene->ok && servers_promote(i);
        worker_reconnect(scene->judge);
        two = accident_gets_in(scene, 0);
        (void)accident_end_of(first, REACH_MS);
        two = scene->approach->guards == A_USER ? accident_was_two(scene) : two;
    }
    for (int i = 0; i < count; i++) { // as they were
        scene->ok = servers_kill_redis(i) && servers_start_redis(scene->servers, i) && scene->ok;
    }
    worker_reconnect(scene->judge);
    return two;
}

// One after the other: the second one may repeat what the server has lost.
static bool accident_sells_again(struct scene *scene)
{
    if (!accident_begin(scene, 2 * UNITS))
        return false;
    struct part part = {.user = "u", .patience_ms = REACH_MS};
    (void)accident_end_of(accident_act(scene, part), REACH_MS);
    if (accident_restart(scene, 1))
        (void)accident_end_of(accident_act(scene, part), REACH_MS);
    return accident_was_two(scene);
}

static bool accident_trusts_clocks(struct scene *scene, int count)
{
    pid_t first = accident_stop_one(scene, "read", 2 * UNITS);
    if (first == 0)
        return false;
    for (int i = 0; i < count; i++)
        scene->ok = scene->ok && servers_step_clock(i, STEP_S);
    bool two = accident_gets_in(scene, (int64_t)STEP_S * 1000);
    for (int i = 0; i < count; i++)
        scene->ok = scene->ok && servers_step_clock(i, 0);
    (void)accident_end_of(first, REACH_MS);
    return scene->approach->guards == A_USER ? accident_was_two(scene) : two;
}

// While the first one holds the lock, something changes. Does a second one get the lock, which must not happen?
static bool accident_gets_in(struct scene *scene, int64_t clock_step_ms)
{
    struct part part = {.user = "u", .patience_ms = RUSH_MS, .clock_step_ms = clock_step_ms};
    (void)accident_end_of(accident_act(scene, part), REACH_MS);
    return atomic_load(&scene->shared->most_inside) > 1;
}

// ---- Redlock's servers ----

// Kills the last servers first: the first server also holds the data that the judge reads.
static void accident_lose_servers(struct scene *scene)
{
    bool sells[4] = {false};
    for (int lost = 1; lost <= 3; lost++) {
        scene->ok = servers_kill_redis(SERVERS - lost) && scene->ok;
        sells[lost] = accident_can_buy(scene);
    }
    for (int i = SERVERS - 3; i < SERVERS; i++)
        scene->ok = servers_start_redis(scene->servers, i) && scene->ok;
    bool one_empty = accident_forgets(scene, 1), one_clock = accident_trusts_clocks(scene, 1);
    bool one_replica = accident_failover(scene, 1);
    (void)snprintf(scene->result->notes, NOTES_SIZE,
                   "lost 1 of 5: %s, 2: %s, 3: %s; 1 of 5 empty: %s, clock of 1 stepped: %s, replica of 1 promoted: %s",
                   sells[1] ? "sells" : "stops", sells[2] ? "sells" : "stops", sells[3] ? "sells" : "stops",
                   one_empty ? "two inside" : "safe", one_clock ? "two inside" : "safe",
                   one_replica ? "two inside" : "safe");
    accident_note(scene, STUCK, !sells[1] || !sells[2] || sells[3]);
    accident_note(scene, MINORITY_DECIDES, one_empty || one_clock || one_replica);
}

static bool accident_can_buy(struct scene *scene)
{
    return accident_begin(scene, UNITS) &&
           accident_end_of(accident_act(scene, (struct part){.user = "u", .patience_ms = 2 * TTL_MS}), REACH_MS) ==
               BOUGHT;
}

// ---- ids ----

// Runs at the beginning of a second, so that the restart happens within it.
static void accident_ids_after_a_restart(struct scene *scene)
{
    struct part part = {.user = "u", .patience_ms = REACH_MS};
    if (!accident_begin(scene, UNITS))
        return;
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)usleep((useconds_t)(1000000 - now.tv_nsec / 1000) % 1000000);
    (void)accident_end_of(accident_act(scene, part), REACH_MS);
    if (accident_restart(scene, 1))
        (void)accident_end_of(accident_act(scene, part), REACH_MS);
    accident_note(scene, FORGETS, strcmp(scene->shared->ids[0].text, scene->shared->ids[1].text) == 0);
}

// ---- actors ----

static bool accident_begin(struct scene *scene, int units)
{
    crowd_forget(scene->shared);
    scene->ok = scene->ok && crowd_prepare(scene->judge, units);
    return scene->ok;
}

// Starts the first actor and stops it at a point. 0: this approach has no such point.
static pid_t accident_stop_one(struct scene *scene, const char *point, int units)
{
    if (!accident_begin(scene, units))
        return 0;
    pid_t pid = accident_act(scene, (struct part){.user = "u", .stops_at = point, .patience_ms = REACH_MS});
    return accident_has_stopped(pid, REACH_MS) ? pid : 0;
}

static pid_t accident_act(const struct scene *scene, struct part part)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    static struct worker worker;
    if (!worker_open(&worker, scene->approach, &scene->servers->place, scene->shared))
        _exit(BROKEN);
    worker.stops_at = part.stops_at;
    worker.works_ms = part.works_ms;
    worker.clock_step_ms = part.clock_step_ms;
    worker.locks_again = part.locks_again;
    worker.gives_up_at_ms = steady_ms() + (uint64_t)part.patience_ms;
    enum outcome outcome = purchase(&worker, part.user);
    while (outcome == GAVE_UP && wait_ms(&worker, 3)) // who was turned away asks again
        outcome = purchase(&worker, part.user);
    _exit((int)outcome);
}

// Waits until it has stopped (true), or has ended, or the time is over.
static bool accident_has_stopped(pid_t pid, int ms)
{
    for (uint64_t until = steady_ms() + (uint64_t)ms; steady_ms() < until; (void)usleep(500)) {
        int status;
        if (waitpid(pid, &status, WNOHANG | WUNTRACED) == pid)
            return WIFSTOPPED(status);
    }
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    return false;
}

// Lets it run to its end; BROKEN if it must be killed.
static enum outcome accident_end_of(pid_t pid, int ms)
{
    int status = 0;
    (void)kill(pid, SIGCONT);
    for (uint64_t until = steady_ms() + (uint64_t)ms; steady_ms() < until; (void)usleep(500)) {
        if (waitpid(pid, &status, WNOHANG) == pid)
            return WIFEXITED(status) ? (enum outcome)WEXITSTATUS(status) : BROKEN;
    }
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    return BROKEN;
}

static void accident_note(struct scene *scene, enum trouble trouble, bool happened)
{
    scene->result->tried |= trouble;
    scene->result->measured |= happened ? trouble : 0;
}

// What counts as "two at once": two holders, or, for approaches that guard a user, one order too many.
static bool accident_was_two(struct scene *scene)
{
    if (scene->approach->guards == A_USER)
        return crowd_twice(scene->judge, "u", NULL) > 0;
    return atomic_load(&scene->shared->most_inside) > 1;
}
