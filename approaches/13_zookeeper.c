// ZooKeeper: each client that wants the lock creates an ephemeral, sequential node. The lowest number holds the lock,
// and each other client watches the node before its own. The server deletes the node when its session ends, so a dead
// holder frees the lock after the session's time-out. A holder that is paused for longer loses its session, and notices
// only with its next request.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zookeeper/zookeeper.h>

#include "worker.h"

enum { SESSION_MS = 500, CONNECT_MS = 3000, PATH_SIZE = 64 };

static void on_event(zhandle_t *zoo, int type, int state, const char *path, void *context)
{
    (void)zoo;
    (void)state;
    (void)path;
    if (context != NULL && type != ZOO_SESSION_EVENT)
        atomic_store((atomic_bool *)context, true);
}

static zhandle_t *session_of(struct worker *worker)
{
    if (worker->state == NULL) {
        zoo_set_debug_level((ZooLogLevel)0);
        worker->state = zookeeper_init(worker->place->zookeeper, on_event, SESSION_MS, NULL, NULL, 0);
    }
    for (int ms = 0; worker->state != NULL && zoo_state(worker->state) != ZOO_CONNECTED_STATE; ms++) {
        if (ms == CONNECT_MS)
            return NULL;
        (void)usleep(1000);
    }
    return worker->state;
}

// Finds the node right before ours; empty: ours is the first. False: no answer.
static bool find_previous(zhandle_t *zoo, const char *own, char previous[PATH_SIZE])
{
    struct String_vector names;
    if (zoo_get_children(zoo, "/lock", 0, &names) != ZOK)
        return false;
    const char *best = NULL;
    for (int i = 0; i < names.count; i++) {
        if (strcmp(names.data[i], own) < 0 && (best == NULL || strcmp(names.data[i], best) > 0))
            best = names.data[i];
    }
    (void)snprintf(previous, PATH_SIZE, best == NULL ? "" : "/lock/%s", best);
    (void)deallocate_String_vector(&names);
    return true;
}

static bool lock(struct worker *worker, const char *user)
{
    char path[PATH_SIZE], previous[PATH_SIZE];
    struct Stat stat;
    zhandle_t *zoo = session_of(worker);
    (void)user;
    if (zoo == NULL || zoo_create(zoo, "/lock/n-", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL | ZOO_SEQUENCE, path,
                                  sizeof path) != ZOK)
        return false;
    (void)snprintf(worker->kept, TOKEN_SIZE, "%.47s", path);
    while (find_previous(zoo, path + strlen("/lock/"), previous)) {
        if (previous[0] == '\0')
            return true;
        atomic_bool *gone = calloc(1, sizeof *gone); // leaked if no event comes: a few bytes, for a few seconds
        int answer = zoo_wexists(zoo, previous, on_event, gone, &stat);
        while (answer == ZOK && !atomic_load(gone)) {
            if (!wait_ms(worker, 1)) {
                (void)zoo_delete(zoo, path, -1);
                return false;
            }
        }
    }
    return false;
}

static void unlock(struct worker *worker, const char *user)
{
    (void)user;
    (void)zoo_delete(worker->state, worker->kept, -1);
}

const struct approach approach_zookeeper = {
    .number = 13,
    .title = "ZooKeeper, ephemeral sequential nodes",
    .source = "B's links",
    .claim = "consistent, slower",
    .guards = A_STOCK,
    .lives = IN_ZOOKEEPER,
    .predicted = TWO_WHEN_PAUSED | WAITS_FOR_ITSELF,
    .lock = lock,
    .unlock = unlock,
};
