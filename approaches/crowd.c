#include "crowd.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ids.h"
#include "purchase.h"

enum { PLENTY = 100000000, FEW = 40, SAME_USER = 4, SELL_OUT_MS = 1500, PATIENCE_MS = 2000 };

struct buyer {
    struct worker worker;
    bool until_sold_out;
};

static double crowd_let_buy(const struct servers *servers, const struct approach *approach, struct shared *shared,
                            bool until_sold_out, int limit_ms);
static void crowd_be_a_process(const struct servers *servers, const struct approach *approach, struct shared *shared,
                               bool until_sold_out);
static void *crowd_buy(void *arg);
static void crowd_judge_plenty(struct worker *worker, struct shared *shared, struct result *result, double seconds);
static void crowd_judge_few(struct worker *worker, struct shared *shared, struct result *result);

bool crowd_run(const struct servers *servers, const struct approach *approach, struct shared *shared, int crowd_ms,
               struct result *result)
{
    struct worker worker;
    bool ok = worker_open(&worker, approach, &servers->place, shared) && crowd_prepare(&worker, PLENTY);
    double seconds = ok ? crowd_let_buy(servers, approach, shared, false, crowd_ms) : -1;
    ok = seconds > 0;
    if (ok)
        crowd_judge_plenty(&worker, shared, result, seconds);
    if (ok && approach->guards < A_USER) {
        ok = crowd_prepare(&worker, FEW) && crowd_let_buy(servers, approach, shared, true, SELL_OUT_MS) > 0;
        if (ok)
            crowd_judge_few(&worker, shared, result);
    }
    worker_close(&worker);
    return ok;
}

// ---- the stores, before and after ----

bool crowd_prepare(struct worker *worker, long units)
{
    char text[24];
    const char *params[] = {text};
    (void)snprintf(text, sizeof text, "%ld", units);
    worker->is_broken = false;
    for (int i = 1; i < SERVERS && worker->approach->lives == IN_FIVE_REDISES; i++)
        (void)redis_number_at(worker, i, "FLUSHALL");
    return redis_number(worker, "FLUSHALL") == 1 && redis_number(worker, "SET stock %ld", units) == 1 &&
           sql(worker, APPROACH_SQL_SET_STOCK, 1, params) == 1 &&
           sql(worker, APPROACH_SQL_FORGET_ORDERS, 0, NULL) != NONE &&
           (worker->approach->prepare == NULL || worker->approach->prepare(worker, units));
}

long long crowd_left(struct worker *worker)
{
    worker->is_broken = false;
    if (worker->approach->left != NULL)
        return worker->approach->left(worker);
    if (worker->approach->guards == A_STOCK)
        return redis_number(worker, "GET stock");
    if (worker->approach->guards >= A_USER || sql(worker, APPROACH_SQL_READ_STOCK, 0, NULL) != 1)
        return NONE;
    return strtoll(sql_text(worker), NULL, 10);
}

long crowd_twice(struct worker *worker, const char *user, long *of_user)
{
    const char *all[] = {""}, *one[] = {user};
    worker->is_broken = false;
    if (of_user != NULL && sql(worker, APPROACH_SQL_ALL_ORDERS, 1, one) == 1)
        *of_user = strtol(sql_text(worker), NULL, 10);
    if (sql(worker, APPROACH_SQL_ALL_ORDERS, 1, all) != 1)
        return -1;
    return strtol(PQgetvalue(worker->result, 0, 1), NULL, 10);
}

void crowd_forget(struct shared *shared)
{
    atomic_long *const counters[] = {&shared->sold,         &shared->sold_out,        &shared->already,
                                     &shared->gave_up,      &shared->broken,          &shared->inside,
                                     &shared->entries,      &shared->most_inside,     &shared->reads,
                                     &shared->users,        &shared->longest_wait_us, &shared->id_count,
                                     &shared->refused_owner};
    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++)
        atomic_store(counters[i], 0);
    atomic_store(&shared->stop, false);
}

// ---- the buyers ----

static int crowd_processes(const struct approach *approach)
{
    return approach->one_process ? 1 : PROCESSES;
}

// Returns the seconds that it took; negative if a process failed.
static double crowd_let_buy(const struct servers *servers, const struct approach *approach, struct shared *shared,
                            bool until_sold_out, int limit_ms)
{
    pid_t pids[PROCESSES];
    int ended = 0, failed = 0, processes = crowd_processes(approach);
    crowd_forget(shared);
    for (int i = 0; i < processes; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            crowd_be_a_process(servers, approach, shared, until_sold_out);
    }
    uint64_t began = steady_ms();
    while (atomic_load(&shared->users) == 0 && steady_ms() < began + PATIENCE_MS)
        (void)usleep(100);
    began = steady_ms();
    while (ended < processes) {
        int status;
        if (steady_ms() - began >= (uint64_t)limit_ms)
            atomic_store(&shared->stop, true);
        if (waitpid(pids[ended], &status, WNOHANG) == 0) {
            (void)usleep(500);
            continue;
        }
        failed += status != 0;
        ended++;
    }
    return failed > 0 ? -1 : (double)(steady_ms() - began) / 1000;
}

// One process. Its exit status reports whether all threads could connect.
static void crowd_be_a_process(const struct servers *servers, const struct approach *approach, struct shared *shared,
                               bool until_sold_out)
{
    static struct buyer buyers[THREADS];
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        buyers[i].until_sold_out = until_sold_out;
        if (!worker_open(&buyers[i].worker, approach, &servers->place, shared))
            _exit(1);
        buyers[i].worker.thread = i + 1;
    }
    for (int i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], NULL, crowd_buy, &buyers[i]) != 0)
            _exit(1);
    }
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    _exit(0);
}

static void *crowd_buy(void *arg)
{
    struct buyer *buyer = arg;
    struct shared *shared = buyer->worker.shared;
    char user[24];
    while (!atomic_load(&shared->stop)) {
        long n = atomic_fetch_add(&shared->users, 1);
        enum guards guards = buyer->worker.approach->guards;
        bool shares = guards == A_USER || guards == A_SALE_ONCE; // several requests of one user at a time
        (void)snprintf(user, sizeof user, "user%ld", shares ? n / SAME_USER : n);
        buyer->worker.gives_up_at_ms = steady_ms() + PATIENCE_MS;
        if (purchase(&buyer->worker, user) == SOLD_OUT && buyer->until_sold_out)
            break;
    }
    return NULL;
}

// ---- what came of it ----

static void crowd_note(struct result *result, enum trouble trouble, long count)
{
    result->tried |= trouble;
    result->measured |= count > 0 ? trouble : 0;
}

static void crowd_judge_plenty(struct worker *worker, struct shared *shared, struct result *result, double seconds)
{
    enum guards guards = worker->approach->guards;
    long sold = atomic_load(&shared->sold), away = atomic_load(&shared->gave_up);
    result->rate = (double)sold / seconds;
    result->longest_wait_ms = atomic_load(&shared->longest_wait_us) / 1000;
    if (guards < A_USER) {
        long taken = (long)(PLENTY - crowd_left(worker));
        result->lost_updates = sold > taken ? sold - taken : 0;
        result->lost_units = taken > sold ? taken - sold : 0;
        crowd_note(result, LOSES_UPDATES, result->lost_updates);
        if (guards >= A_SALE || result->lost_units > 0)
            crowd_note(result, LOSES_A_UNIT, result->lost_units);
    }
    if (guards == A_USER || guards == A_SALE_ONCE) {
        result->twice = crowd_twice(worker, "", NULL);
        crowd_note(result, BUYS_TWICE, result->twice);
    }
    if (guards == AN_ID) {
        result->twice = ids_judge(shared, result);
        crowd_note(result, BUYS_TWICE, result->twice);
    }
    if (worker->approach->lock != NULL) { // at the end of the crowd each may be waiting
        result->turned_away = away > (long)PROCESSES * THREADS ? away : 0;
        crowd_note(result, TURNS_AWAY, result->turned_away);
    }
}

static void crowd_judge_few(struct worker *worker, struct shared *shared, struct result *result)
{
    long sold = atomic_load(&shared->sold);
    result->oversold = sold > FEW ? sold - FEW : 0;
    if (atomic_load(&shared->sold_out) >= (long)crowd_processes(worker->approach) * THREADS && crowd_left(worker) > 0)
        result->unsold = (long)crowd_left(worker);
    crowd_note(result, OVERSELLS, result->oversold);
}
