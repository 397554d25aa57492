#include "servers.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zookeeper/zookeeper.h>

#include "launcher.h"

enum { START_MS = 15000, ZOOKEEPER_SESSION_MS = 5000 };

static bool zookeeper_start(struct place *place);
static bool zookeeper_wait(const struct place *place);
static bool zookeeper_answers(const struct place *place);

bool servers_start(struct servers *servers)
{
    struct place *place = &servers->place;
    if (!launcher_do("folder"))
        return false;
    for (int i = 0; i < SERVERS; i++) {
        (void)snprintf(place->sockets[i], sizeof place->sockets[i], "%s/redis%d.sock", launcher_value("folder"), i);
        if (!servers_start_redis(servers, i))
            return false;
    }
    return zookeeper_start(place);
}

void servers_stop(void)
{
    launcher_end();
}

// ---- Redis ----

bool servers_start_redis(const struct servers *servers, int i)
{
    return launcher_do("start %d %s", i, servers->keeps_files ? "yes" : "no");
}

bool servers_kill_redis(int i)
{
    return launcher_do("kill %d", i);
}

bool servers_lag(int i)
{
    return launcher_do("lag %d", i);
}

bool servers_promote(int i)
{
    return launcher_do("promote %d", i);
}

bool servers_step_clock(int i, int seconds)
{
    return launcher_do("clock %d %d", i, seconds);
}

// ---- ZooKeeper ----

static bool zookeeper_start(struct place *place)
{
    if (!launcher_do("zookeeper"))
        return false;
    (void)snprintf(place->zookeeper, sizeof place->zookeeper, "%s", launcher_value("zookeeper"));
    if (place->zookeeper[0] == '\0' || zookeeper_wait(place))
        return true;
    (void)fprintf(stderr, "approaches: no ZooKeeper came up at %s\n", place->zookeeper);
    return false;
}

// Runs in a process of its own: the client has threads, and this process must be able to fork.
static bool zookeeper_wait(const struct place *place)
{
    int status = 1;
    pid_t pid = fork();
    if (pid == 0)
        _exit(zookeeper_answers(place) ? 0 : 1);
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

// Connects, and creates the parent node of the locks.
static bool zookeeper_answers(const struct place *place)
{
    zoo_set_debug_level((ZooLogLevel)0);
    zhandle_t *zoo = zookeeper_init(place->zookeeper, NULL, ZOOKEEPER_SESSION_MS, NULL, NULL, 0);
    bool ok = false;
    for (int ms = 0; zoo != NULL && !ok && ms < START_MS; ms += 10) {
        (void)usleep(10000);
        if (zoo_state(zoo) == ZOO_CONNECTED_STATE) {
            int made = zoo_create(zoo, "/lock", "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0);
            ok = made == ZOK || made == ZNODEEXISTS;
        }
    }
    if (zoo != NULL)
        (void)zookeeper_close(zoo);
    return ok;
}
