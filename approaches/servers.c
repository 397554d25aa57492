#include "servers.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zookeeper/zookeeper.h>

enum { START_MS = 15000, PATH_SIZE = 160, ZOOKEEPER_SESSION_MS = 5000, PORTS = 10000 };

static int redis_port(int i);
static pid_t redis_spawn(const struct servers *servers, int i, const char *socket, int port, int master);
static void replica_socket(const struct servers *servers, int i, char out[PATH_SIZE]);
static bool redis_answers(const char *socket);
static bool redis_do(const char *socket, const char *command);
static bool redis_follows(const char *socket);
static bool zookeeper_start(struct servers *servers);
static bool zookeeper_write_config(const struct servers *servers, char path[PATH_SIZE]);
static bool zookeeper_wait(const struct servers *servers);
static bool zookeeper_answers(const struct servers *servers);
static pid_t server_spawn(const struct servers *servers, const char *log, const char *const argv[],
                          const char *const env[]);
static void server_end(pid_t *pid);

bool servers_start(struct servers *servers)
{
    for (int i = 0; i < SERVERS; i++) {
        (void)snprintf(servers->place.sockets[i], sizeof servers->place.sockets[i], "%s/redis%d.sock",
                       servers->place.folder, i);
        if (!servers_start_redis(servers, i))
            return false;
    }
    return zookeeper_start(servers);
}

void servers_stop(struct servers *servers)
{
    for (int i = 0; i < SERVERS; i++) {
        server_end(&servers->redis[i]);
        server_end(&servers->replicas[i]);
    }
    server_end(&servers->zookeeper);
}

// ---- Redis ----

bool servers_start_redis(struct servers *servers, int i)
{
    const char *socket = servers->place.sockets[i];
    if (!servers_step_clock(servers, i, 0))
        return false;
    (void)unlink(socket);
    servers->redis[i] = redis_spawn(servers, i, socket, redis_port(i), 0);
    return servers->redis[i] > 0 && redis_answers(socket);
}

// Replication needs a port, on the loopback; everything else uses the socket.
static int redis_port(int i)
{
    return PORTS + (int)(getpid() % (PORTS / SERVERS)) * SERVERS + i;
}

// Starts it with a port, or as the replica of the server with port `master`.
static pid_t redis_spawn(const struct servers *servers, int i, const char *socket, int port, int master)
{
    char clock[PATH_SIZE], own[12], of[12];
    (void)snprintf(clock, sizeof clock, "%s/clock%d", servers->place.folder, i);
    (void)snprintf(own, sizeof own, "%d", port);
    (void)snprintf(of, sizeof of, "%d", master);
    const char *argv[] = {"redis-server",
                          "--port",
                          own,
                          "--bind",
                          "127.0.0.1",
                          "--unixsocket",
                          socket,
                          "--save",
                          "",
                          "--dir",
                          servers->place.folder,
                          "--appendonly",
                          servers->keeps_files ? "yes" : "no",
                          "--appendfsync",
                          "always",
                          "--repl-diskless-sync-delay",
                          "0",
                          master == 0 ? NULL : "--replicaof",
                          "127.0.0.1",
                          of,
                          NULL};
    const char *env[] = {"LD_PRELOAD", servers->clock_library, "CLOCK_FILE", clock, NULL};
    return server_spawn(servers, "redis", argv, env);
}

// ---- its replica ----

static void replica_socket(const struct servers *servers, int i, char out[PATH_SIZE])
{
    (void)snprintf(out, PATH_SIZE, "%s/replica%d.sock", servers->place.folder, i);
}

// Stops the replica before its link is cut, so it does not reconnect and gets nothing that is sent from now on.
bool servers_lag(struct servers *servers, int i)
{
    char socket[PATH_SIZE];
    replica_socket(servers, i, socket);
    servers->replicas[i] = redis_spawn(servers, i, socket, 0, redis_port(i));
    return servers->replicas[i] > 0 && redis_follows(socket) && kill(servers->replicas[i], SIGSTOP) == 0 &&
           redis_do(servers->place.sockets[i], "CLIENT KILL TYPE replica");
}

bool servers_promote(struct servers *servers, int i)
{
    char socket[PATH_SIZE];
    replica_socket(servers, i, socket);
    servers_kill_redis(servers, i);
    servers->redis[i] = servers->replicas[i];
    servers->replicas[i] = 0;
    return kill(servers->redis[i], SIGCONT) == 0 && redis_do(socket, "REPLICAOF NO ONE") &&
           rename(socket, servers->place.sockets[i]) == 0;
}

static bool redis_follows(const char *socket)
{
    bool follows = false;
    for (int ms = 0; ms < START_MS && !follows; ms++) {
        redisContext *redis = redisConnectUnix(socket);
        redisReply *reply = redis != NULL && redis->err == 0 ? redisCommand(redis, "INFO replication") : NULL;
        follows = reply != NULL && reply->str != NULL && strstr(reply->str, "master_link_status:up") != NULL;
        freeReplyObject(reply);
        if (redis != NULL)
            redisFree(redis);
        (void)usleep(1000);
    }
    return follows;
}

static bool redis_do(const char *socket, const char *command)
{
    redisContext *redis = redisConnectUnix(socket);
    redisReply *reply = redis != NULL && redis->err == 0 ? redisCommand(redis, command) : NULL;
    bool ok = reply != NULL && reply->type != REDIS_REPLY_ERROR;
    freeReplyObject(reply);
    if (redis != NULL)
        redisFree(redis);
    return ok;
}

static bool redis_answers(const char *socket)
{
    for (int ms = 0; ms < START_MS; ms++) {
        redisContext *redis = redisConnectUnix(socket);
        redisReply *reply = redis != NULL && redis->err == 0 ? redisCommand(redis, "PING") : NULL;
        bool ok = reply != NULL && reply->type == REDIS_REPLY_STATUS;
        freeReplyObject(reply);
        if (redis != NULL)
            redisFree(redis);
        if (ok)
            return true;
        (void)usleep(1000);
    }
    (void)fprintf(stderr, "approaches: no Redis came up at %s\n", socket);
    return false;
}

void servers_kill_redis(struct servers *servers, int i)
{
    server_end(&servers->redis[i]);
}

bool servers_step_clock(const struct servers *servers, int i, int64_t seconds)
{
    char path[PATH_SIZE];
    (void)snprintf(path, sizeof path, "%s/clock%d", servers->place.folder, i);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    bool ok = fd >= 0 && pwrite(fd, &seconds, sizeof seconds, 0) == (ssize_t)sizeof seconds;
    if (fd >= 0)
        (void)close(fd);
    return ok;
}

// ---- ZooKeeper ----

static bool zookeeper_start(struct servers *servers)
{
    static char start[] = ". /usr/share/zookeeper/bin/zkEnv.sh && "
                          "exec java -Xmx128m -XX:-UsePerfData -cp \"$CLASSPATH:/usr/share/java/*\" "
                          "org.apache.zookeeper.server.quorum.QuorumPeerMain \"$0\"";
    char config[PATH_SIZE];
    const char *argv[] = {"/bin/bash", "-c", start, config, NULL}, *env[] = {NULL};
    if (access("/usr/share/zookeeper/bin/zkEnv.sh", R_OK) != 0)
        return true;
    (void)snprintf(servers->place.zookeeper, sizeof servers->place.zookeeper, "127.0.0.1:%d",
                   20000 + (int)(getpid() % 10000));
    if (!zookeeper_write_config(servers, config))
        return false;
    servers->zookeeper = server_spawn(servers, "zookeeper", argv, env);
    if (servers->zookeeper > 0 && zookeeper_wait(servers))
        return true;
    (void)fprintf(stderr, "approaches: no ZooKeeper came up at %s\n", servers->place.zookeeper);
    return false;
}

static bool zookeeper_write_config(const struct servers *servers, char path[PATH_SIZE])
{
    (void)snprintf(path, PATH_SIZE, "%s/zoo.cfg", servers->place.folder);
    FILE *file = fopen(path, "we");
    if (file == NULL)
        return false;
    const char *port = strchr(servers->place.zookeeper, ':');
    (void)fprintf(file,
                  "tickTime=200\ndataDir=%s/zookeeper\nclientPort=%s\nclientPortAddress=127.0.0.1\n"
                  "admin.enableServer=false\nmaxClientCnxns=0\n",
                  servers->place.folder, port + 1);
    return fclose(file) == 0;
}

// Runs in a process of its own: the client has threads, and this process must be able to fork.
static bool zookeeper_wait(const struct servers *servers)
{
    int status = 1;
    pid_t pid = fork();
    if (pid == 0)
        _exit(zookeeper_answers(servers) ? 0 : 1);
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

// Connects, and creates the parent node of the locks.
static bool zookeeper_answers(const struct servers *servers)
{
    zoo_set_debug_level((ZooLogLevel)0);
    zhandle_t *zoo = zookeeper_init(servers->place.zookeeper, NULL, ZOOKEEPER_SESSION_MS, NULL, NULL, 0);
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

// ---- processes ----

static pid_t server_spawn(const struct servers *servers, const char *log, const char *const argv[],
                          const char *const env[])
{
    char path[PATH_SIZE];
    pid_t parent = getpid(), pid = fork();
    if (pid != 0)
        return pid;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    (void)snprintf(path, sizeof path, "%s/%s.log", servers->place.folder, log);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0)
        _exit(1);
    for (; *env != NULL; env += 2)
        (void)setenv(env[0], env[1], 1);
    (void)execvp(argv[0], (char *const *)argv);
    _exit(127);
}

static void server_end(pid_t *pid)
{
    if (*pid <= 0)
        return;
    (void)kill(*pid, SIGKILL);
    (void)waitpid(*pid, NULL, 0);
    *pid = 0;
}
