#include "queues.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crowd.h"
#include "ids.h"

enum {
    BUYERS = 2, // threads, in addition to the consumer's
    UNITS = 1000000,
    FIRST_ORDERS = 50,          // before an accident
    TOO_MANY = 10 * QUEUE_FULL, // for a queue that has a bound
    FILLING_MS = 2000,
    QUIET_MS = 1500, // time in which a consumer has written all orders
    REACH_MS = 4000,
};

extern const struct queue_way queue_blocking, queue_list, queue_publish, queue_stream, queue_journal;

const struct queue_way *const queue_ways[] = {
    &queue_blocking, &queue_list, &queue_publish, &queue_stream, &queue_journal, NULL,
};

// The result of one queue.
struct queue_result {
    double answered, committed; // a second
    unsigned measured;          // of enum queue_trouble
    long lost[4];               // killed, full, restarted, empty
    const char *when_full;
};

struct queue_scene {
    struct servers *servers;
    struct shared *shared;
    const struct queue_way *way;
    struct queue_result *result;
    struct worker *judge;
    bool ok;
};

struct queue_thread {
    struct worker worker;
    const struct queue_way *way;
    bool stops; // its process stops while it writes an order
};

static bool queue_find_out(struct queue_scene *scene, int crowd_ms);
static void queue_measure(struct queue_scene *scene, int crowd_ms);
static void queue_kill_consumer(struct queue_scene *scene);
static void queue_fill(struct queue_scene *scene);
static long queue_restart(struct queue_scene *scene, bool with_file);
static bool queue_begin(struct queue_scene *scene);
static pid_t queue_serve(const struct queue_scene *scene, int buyers, bool stops);
static void *queue_buy(void *arg);
static void *queue_write(void *arg);
static bool queue_wait_for_sales(const struct queue_scene *scene, long sold, int ms);
static long queue_end(struct queue_scene *scene, pid_t pid);
static long queue_lost(struct queue_scene *scene);
static bool queue_report(const struct queue_way *way, const struct queue_result *result);

void queues_report_claims(const struct queue_way *const *chosen)
{
    static const char *const words[QUEUE_TROUBLES] = {
        "loses with its consumer", "loses if full",           "blocks if full",
        "grows if full",           "loses if Redis restarts", "loses if Redis is empty",
    };
    for (; *chosen != NULL; chosen++) {
        const struct queue_way *way = *chosen;
        printf("%-3d %-44s %-12s %-44s ", way->number, way->title, way->source, way->claim);
        for (int i = 0, n = 0; i < QUEUE_TROUBLES; i++) {
            if ((way->predicted & (1U << i)) != 0)
                printf("%s%s", n++ == 0 ? "" : ", ", words[i]);
        }
        printf("%s\n", way->predicted == 0 ? "loses nothing" : "");
    }
}

int queues_run(struct servers *servers, struct shared *shared, const struct queue_way *const *chosen, int crowd_ms)
{
    static struct worker judge;
    int surprises = 0, count = 0;
    printf("\n%-3s %-44s %9s %11s  %s\n", "", "between the script and the row", "answers/s", "committed/s",
           "orders of buyers who were told yes, and have none");
    for (; chosen[count] != NULL; count++) {
        struct queue_result result = {.when_full = ""};
        struct queue_scene scene = {servers, shared, chosen[count], &result, &judge, true};
        if (!queue_find_out(&scene, crowd_ms)) {
            (void)fprintf(stderr, "approaches: %d, %s: the stores failed\n", chosen[count]->number,
                          chosen[count]->title);
            return -1;
        }
        surprises += !queue_report(chosen[count], &result);
    }
    printf("%d of %d queues behaved as predicted\n", count - surprises, count);
    return surprises;
}

enum outcome queue_grant(struct worker *worker, const struct sk_embedded *script, const char *user)
{
    const char *argv[] = {"stock", "buyers", "orders", user};
    const char *argv_of_two[] = {"stock", "buyers", user};
    bool has_queue = script != &sk_approach_scripts[APPROACH_SCRIPT_GRANT_ONLY];
    if (!redis_script(worker, 0, script, has_queue ? 3 : 2, has_queue ? 4 : 3, has_queue ? argv : argv_of_two))
        return GAVE_UP;
    return worker->reply->integer == 1 ? BOUGHT : worker->reply->integer == 2 ? ALREADY : SOLD_OUT;
}

// ---- what is done to it ----

static bool queue_find_out(struct queue_scene *scene, int crowd_ms)
{
    static const struct approach of_a_user = {.guards = A_USER, .lives = IN_REDIS};
    if (!worker_open(scene->judge, &of_a_user, &scene->servers->place, scene->shared))
        return false;
    queue_measure(scene, crowd_ms);
    queue_kill_consumer(scene);
    queue_fill(scene);
    scene->result->lost[2] = queue_restart(scene, true);
    scene->result->lost[3] = queue_restart(scene, false);
    static const unsigned troubles[] = {LOST_WITH_CONSUMER, LOST_WHEN_FULL, LOST_ON_RESTART, LOST_WHEN_EMPTY};
    for (int i = 0; i < 4; i++)
        scene->result->measured |= scene->result->lost[i] > 0 ? troubles[i] : 0;
    worker_close(scene->judge);
    return scene->ok;
}

static long queue_rows(struct queue_scene *scene)
{
    long rows = 0;
    (void)crowd_twice(scene->judge, "", &rows);
    return rows;
}

static void queue_measure(struct queue_scene *scene, int crowd_ms)
{
    if (!queue_begin(scene))
        return;
    pid_t pid = queue_serve(scene, BUYERS, false);
    (void)queue_wait_for_sales(scene, 1, REACH_MS);
    long sold = atomic_load(&scene->shared->sold), rows = queue_rows(scene);
    uint64_t began = steady_ms();
    (void)usleep((useconds_t)crowd_ms * 1000);
    double seconds = (double)(steady_ms() - began) / 1000;
    scene->result->answered = (double)(atomic_load(&scene->shared->sold) - sold) / seconds;
    scene->result->committed = (double)(queue_rows(scene) - rows) / seconds;
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
}

// The process dies while its consumer writes an order. Another process continues.
static void queue_kill_consumer(struct queue_scene *scene)
{
    if (!queue_begin(scene))
        return;
    int status = 0;
    pid_t pid = queue_serve(scene, BUYERS, true);
    for (uint64_t until = steady_ms() + REACH_MS; steady_ms() < until; (void)usleep(500)) {
        if (waitpid(pid, &status, WNOHANG | WUNTRACED) == pid)
            break;
    }
    scene->ok = scene->ok && WIFSTOPPED(status);
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    scene->result->lost[0] = queue_end(scene, queue_serve(scene, 0, false));
}

// The consumer pauses, and then continues.
static void queue_fill(struct queue_scene *scene)
{
    if (!queue_begin(scene))
        return;
    struct shared *shared = scene->shared;
    pid_t pid = queue_serve(scene, BUYERS, false);
    (void)queue_wait_for_sales(scene, FIRST_ORDERS, REACH_MS);
    atomic_store(&shared->held, true);
    bool had_room = queue_wait_for_sales(scene, atomic_load(&shared->sold) + TOO_MANY, FILLING_MS);
    bool refused = atomic_load(&shared->gave_up) > QUEUE_FULL;
    scene->result->lost[1] = queue_end(scene, pid);
    bool grows = had_room && scene->result->lost[1] == 0;
    scene->result->when_full = grows ? "grows" : had_room ? "drops" : refused ? "refuses" : "blocks";
    scene->result->measured |= grows ? GROWS_WHEN_FULL : 0;
    scene->result->measured |= !had_room && !refused ? BLOCKS_WHEN_FULL : 0;
}

// Redis is killed while orders wait in the queue. It restarts with its complete file, or without.
static long queue_restart(struct queue_scene *scene, bool with_file)
{
    struct servers *servers = scene->servers;
    servers->keeps_files = with_file;
    scene->ok = servers_kill_redis(0) && servers_start_redis(servers, 0) && scene->ok;
    worker_reconnect(scene->judge);
    if (!queue_begin(scene))
        return 0;
    pid_t pid = queue_serve(scene, BUYERS, false);
    (void)queue_wait_for_sales(scene, FIRST_ORDERS, REACH_MS);
    atomic_store(&scene->shared->held, true);
    (void)queue_wait_for_sales(scene, atomic_load(&scene->shared->sold) + FIRST_ORDERS, FILLING_MS / 4);
    scene->ok = servers_kill_redis(0) && servers_start_redis(servers, 0) && scene->ok;
    worker_reconnect(scene->judge);
    if (!with_file) // warmed up again
        scene->ok = scene->ok && redis_number(scene->judge, "SET stock %d", UNITS) == 1 &&
                    (scene->way->prepare == NULL || scene->way->prepare(scene->judge, UNITS));
    servers->keeps_files = false;
    return queue_end(scene, pid);
}

// ---- buyers and consumers ----

static bool queue_begin(struct queue_scene *scene)
{
    crowd_forget(scene->shared);
    atomic_store(&scene->shared->held, false);
    scene->ok = scene->ok && crowd_prepare(scene->judge, UNITS) &&
                (scene->way->prepare == NULL || scene->way->prepare(scene->judge, UNITS));
    return scene->ok;
}

// A process of the service: its buyers, and one consumer.
static pid_t queue_serve(const struct queue_scene *scene, int buyers, bool stops)
{
    static struct queue_thread threads[BUYERS + 1];
    pthread_t ids[BUYERS + 1];
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int i = 0; i <= buyers; i++) {
        threads[i] = (struct queue_thread){.way = scene->way, .stops = stops};
        if (!worker_open(&threads[i].worker, scene->judge->approach, &scene->servers->place, scene->shared))
            _exit(1);
    }
    for (int i = 0; i <= buyers; i++) {
        if (pthread_create(&ids[i], NULL, i < buyers ? queue_buy : queue_write, &threads[i]) != 0)
            _exit(1);
    }
    for (int i = 0; i <= buyers; i++)
        (void)pthread_join(ids[i], NULL);
    _exit(0);
}

static void *queue_buy(void *arg)
{
    struct queue_thread *thread = arg;
    struct worker *worker = &thread->worker;
    struct shared *shared = worker->shared;
    char user[QUEUE_USER_SIZE];
    for (long n = 0; !atomic_load(&shared->stop); n++) {
        (void)snprintf(user, sizeof user, "%ld", atomic_fetch_add(&shared->users, 1));
        worker->stops_at = thread->stops && n >= FIRST_ORDERS ? "taken" : NULL;
        worker->is_broken = false;
        if (thread->way->buy(worker, user) == BOUGHT) {
            ids_keep(worker, 0, user);
            atomic_fetch_add(&shared->sold, 1);
        } else {
            atomic_fetch_add(&shared->gave_up, 1);
            (void)usleep(200);
        }
    }
    return NULL;
}

static void *queue_write(void *arg)
{
    struct queue_thread *thread = arg;
    struct worker *worker = &thread->worker;
    char user[QUEUE_USER_SIZE];
    const char *params[] = {user};
    for (long n = 0;;) {
        worker->is_broken = false;
        if (atomic_load(&worker->shared->held) || !thread->way->take(worker, user)) {
            (void)usleep(1000);
            continue;
        }
        worker->stops_at = thread->stops && ++n >= FIRST_ORDERS ? "taken" : NULL;
        at(worker, "taken");
        if (sql(worker, APPROACH_SQL_INSERT_ORDER_ONCE, 1, params) != NONE && thread->way->written != NULL)
            thread->way->written(worker);
    }
    return NULL;
}

static bool queue_wait_for_sales(const struct queue_scene *scene, long sold, int ms)
{
    for (uint64_t until = steady_ms() + (uint64_t)ms; steady_ms() < until; (void)usleep(500)) {
        if (atomic_load(&scene->shared->sold) >= sold)
            return true;
    }
    return false;
}

// ---- what came of it ----

// Stops the buyers; the consumer of that process continues until it has written all orders, or its time is over.
static long queue_end(struct queue_scene *scene, pid_t pid)
{
    (void)usleep(100000); // the sale continues for a while after the accident
    atomic_store(&scene->shared->stop, true);
    atomic_store(&scene->shared->held, false);
    long before = -1, rows = queue_rows(scene);
    for (uint64_t until = steady_ms() + QUIET_MS; steady_ms() < until; (void)usleep(50000)) {
        if (rows != before)
            until = steady_ms() + QUIET_MS;
        before = rows;
        rows = queue_rows(scene);
    }
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    return queue_lost(scene);
}

// Buyers whose purchase succeeded, and who have no row.
static long queue_lost(struct queue_scene *scene)
{
    static bool has_row[IDS_MAX];
    const struct shared *shared = scene->shared;
    long kept = atomic_load(&shared->id_count), lost = 0;
    memset(has_row, 0, sizeof has_row);
    long long rows = sql(scene->judge, APPROACH_SQL_ALL_BUYERS, 0, NULL);
    scene->ok = scene->ok && rows != NONE;
    for (long long i = 0; i < rows; i++)
        has_row[strtol(PQgetvalue(scene->judge->result, (int)i, 0), NULL, 10) % IDS_MAX] = true;
    for (long i = 0; i < kept && i < IDS_MAX; i++)
        lost += !has_row[strtol(shared->ids[i].text, NULL, 10) % IDS_MAX];
    return lost;
}

static bool queue_report(const struct queue_way *way, const struct queue_result *result)
{
    bool as_predicted = way->predicted == result->measured;
    printf("%-3d %-44s %9.0f %11.0f  killed %ld, full %ld (%s), restarted %ld, empty %ld: %s\n", way->number,
           way->title, result->answered, result->committed, result->lost[0], result->lost[1], result->when_full,
           result->lost[2], result->lost[3], as_predicted ? "as predicted" : "NOT as predicted");
    (void)fflush(stdout);
    return as_predicted;
}
