#include "net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "instance.h"
#include "stores.h"
#include "witness.h"

enum {
    SOON_NS = 20000,
    QUICK_NS = 400000,
    LATE_NS = 40 * MS,
    VERY_LATE_NS = 1500 * MS,
    HELD_NS = 100 * MS,
    CUT_OFF_MAX = 8,
    COMMIT_MS = 400
};

struct net_conn {
    struct net_conn *next;
    struct instance *owner;
    unsigned server;
    const struct net_events *events;
    void *link;              // NULL: it has left
    uint64_t up_at, down_at; // when the latest packet arrives
    uint64_t life;           // of the owner
    unsigned process;        // of the server, that it is connected to
    bool listens;
    bool cut; // what is still on its way to the server is lost
};

struct trip {
    struct net_conn *conn;
    struct net_packet *packet; // NULL: the connection is established or, with `why`, lost
    const char *why;
    struct trip *next;
};

static struct {
    net_deliver *deliver;
    struct instance *current;
    struct net_conn *conns;
    struct net_server servers[SERVERS_MAX + 1];
    unsigned processes[SERVERS_MAX + 1];
    struct {
        const struct instance *instance;
        enum net_way ways[SERVERS_MAX + 1];
    } cut_off[CUT_OFF_MAX];
    struct trip *waiting, **last_waiting; // at frozen servers, the oldest first
    bool calm;                            // nothing is very late any more
    uint64_t late_until[INSTANCES_MAX];   // when the last packet that was very late has arrived
} net;

static void net_on_arrival(void *arg);
static void net_on_answer(void *arg);

void net_open(net_deliver *deliver)
{
    net.deliver = deliver;
    net.last_waiting = &net.waiting;
}

void net_look_at(struct instance *instance)
{
    net.current = instance;
}

struct net_server *net_server(unsigned server)
{
    return &net.servers[server];
}

void net_calm(void)
{
    net.calm = true;
}

bool net_is_well(unsigned server)
{
    const struct net_server *one = &net.servers[server];
    return !one->down && !one->frozen && one->slow_ns == 0 && one->detour_ns == 0 && one->error_per_mille == 0 &&
           one->break_per_mille == 0;
}

// Mostly quick; now and then far later than all others, until the network is calm. Returns when it arrives.
static uint64_t net_arrival(const struct net_conn *conn)
{
    uint64_t luck = world_roll(1000), slow = net.servers[conn->server].slow_ns;
    bool late = luck < 3 && !net.calm;
    uint64_t delay = world_between(SOON_NS, late ? VERY_LATE_NS : luck < 30 ? LATE_NS : QUICK_NS);
    uint64_t at = world_now() + delay + (slow > 0 ? world_roll(slow) : 0);
    if (late)
        net.late_until[instance_number(conn->owner)] = at;
    return at;
}

uint64_t net_on_time_for(size_t instance)
{
    return world_now() > net.late_until[instance] ? world_now() - net.late_until[instance] : 0;
}

static uint64_t net_detour(const struct net_conn *conn, bool back)
{
    const struct net_server *server = &net.servers[conn->server];
    return world_now() < server->detour_until && server->detour_back == back ? server->detour_ns : 0;
}

static struct trip *net_trip(struct net_conn *conn, struct net_packet *packet, const char *why)
{
    struct trip *trip = world_alloc(sizeof *trip);
    *trip = (struct trip){.conn = conn, .packet = packet, .why = why};
    return trip;
}

static void net_send_up(struct net_conn *conn, struct net_packet *packet)
{
    uint64_t at = net_arrival(conn) + net_detour(conn, false);
    conn->up_at = at > conn->up_at ? at : conn->up_at;
    world_at(conn->up_at, net_on_arrival, net_trip(conn, packet, NULL));
}

static void net_send_down(struct net_conn *conn, struct net_packet *packet, const char *why)
{
    uint64_t at = net_arrival(conn) + net_detour(conn, true);
    conn->down_at = at > conn->down_at ? at : conn->down_at;
    world_at(conn->down_at, net_on_answer, net_trip(conn, packet, why));
}

// ---- for links ----

struct net_conn *net_connect(unsigned server, const struct net_events *events, void *link)
{
    struct net_conn *conn = world_alloc(sizeof *conn);
    *conn = (struct net_conn){.next = net.conns,
                              .owner = net.current,
                              .life = instance_life(net.current),
                              .server = server,
                              .process = net.processes[server],
                              .events = events,
                              .link = link};
    net.conns = conn;
    bool refused = server == SERVER_NONE || net.servers[server].down || net_way_of(conn->owner, server) == NET_REFUSED;
    net_send_down(conn, NULL, refused ? "connection refused" : NULL);
    return conn;
}

struct net_packet *net_packet_new(const char *what)
{
    struct net_packet *packet = world_alloc(sizeof *packet);
    packet->what = what;
    return packet;
}

void net_packet_free(struct net_packet *packet)
{
    if (packet == NULL)
        return;
    for (int i = 0; i < packet->n; i++)
        free(packet->params[i]);
    free(packet->bytes);
    PQclear(packet->result);
    free(packet);
}

void net_send(struct net_conn *conn, struct net_packet *packet)
{
    net_send_up(conn, packet);
}

// What it had sent may still arrive, unless the network loses it. It does not where an instance ends as it should.
void net_leave(struct net_conn *conn)
{
    if (conn == NULL)
        return;
    conn->link = NULL;
    conn->cut = !instance_drains(conn->owner) && world_chance(500);
}

void net_died(const struct instance *instance)
{
    for (struct net_conn *conn = net.conns; conn != NULL; conn = conn->next) {
        if (conn->owner == instance && conn->link != NULL)
            net_leave(conn);
    }
}

// ---- at the servers ----

// The first word of a reply, where it is an outcome.
static const char *net_outcome(const struct sk_reply *reply)
{
    static char word[16];
    const char *error = sk_reply_error(reply);
    const struct sk_reply *first = sk_reply_is_list(reply) ? sk_reply_at(reply, 0) : reply;
    const char *text = error != NULL ? error : first == NULL ? NULL : sk_reply_text(first, NULL);
    int64_t number = 0;
    if (text == NULL && first != NULL && sk_reply_number(first, &number) && number >= -9 && number <= 9)
        (void)snprintf(word, sizeof word, "%d", (int)number);
    else
        (void)snprintf(word, sizeof word, "%.*s",
                       text == NULL ? 0 : (int)strspn(text, "abcdefghijklmnopqrstuvwxyz_ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
                       text == NULL ? "" : text);
    return word;
}

// The packet becomes the reply.
static void net_reply(struct net_packet *packet, char *bytes, size_t n)
{
    free(packet->bytes);
    packet->bytes = bytes;
    packet->len = n;
}

static char *net_copy(const char *bytes, size_t n)
{
    return memcpy(world_alloc(n), bytes, n);
}

static bool net_refuses(unsigned server, struct net_packet *packet, const char *name)
{
    static const char *const errors[] = {"-LOADING Redis is loading the dataset in memory\r\n",
                                         "-BUSY Redis is busy running a script\r\n",
                                         "-OOM command not allowed when used memory > 'maxmemory'\r\n",
                                         "-MISCONF Redis is configured to save snapshots, but cannot\r\n"};
    if (world_roll(1000) >= net.servers[server].error_per_mille)
        return false;
    const char *error = errors[world_roll(sizeof errors / sizeof *errors)];
    world_tell("%s refuses %s: %.*s", servers_name(server), name, (int)strcspn(error, "\r"), error);
    net_reply(packet, world_copy(error), strlen(error));
    return true;
}

static void net_execute_command(const struct net_conn *conn, struct net_packet *packet, const struct command *command,
                                int script, const char *name)
{
    unsigned server = conn->server;
    struct sk_reply *reply;
    size_t n;
    world_note(packet->bytes, packet->len);
    witness_before_command(server - SERVER_REDIS, command, script);
    const char *said = stores_redis(server - SERVER_REDIS, packet->bytes, packet->len, &reply, &n);
    char *bytes = net_copy(said, n); // the witness asks, too
    const char *error = sk_reply_error(reply);
    world_met("redis %s %s", name, script >= 0 ? net_outcome(reply) : "");
    const char *granted = script == SK_SCRIPT_PLACE_ORDERS ? sk_reply_text(sk_reply_at(reply, 6), NULL) : NULL;
    for (; granted != NULL && *granted != '\0'; granted++)
        world_met("grant %c", *granted);
    witness_command(conn->owner, conn->life, command, script, reply);
    world_tell("%s executes %s%s%s", servers_name(server), name, error == NULL ? "" : ": ", error == NULL ? "" : error);
    sk_reply_free(reply);
    net_reply(packet, bytes, n);
}

static void net_ask_redis(const struct net_conn *conn, struct net_packet *packet)
{
    unsigned server = conn->server;
    struct command command;
    char name[32];
    (void)command_read(packet->bytes, packet->len, &command);
    int script = command_is(&command, 0, "EVALSHA") ? stores_script(command.words[1], command.lens[1]) : -1;
    (void)snprintf(name, sizeof name, "%.*s", script >= 0 ? 31 : (int)command.lens[0],
                   script >= 0 ? sk_scripts[script].name : command.words[0]);
    if (command_is(&command, 0, "SCRIPT")) {
        const char *sha =
            stores_load_script(server < SERVER_POSTGRES ? server - SERVER_REDIS : 0, command.words[2], command.lens[2]);
        net_reply(packet, world_copy(sha), strlen(sha));
        return;
    }
    char *answer = servers_answer(server, &command);
    if (answer != NULL)
        net_reply(packet, world_copy(answer), strlen(answer));
    else if (!net_refuses(server, packet, name))
        net_execute_command(conn, packet, &command, script, name);
    free(answer);
}

static void net_notify(unsigned server)
{
    for (struct net_conn *conn = net.conns; conn != NULL; conn = conn->next) {
        if (conn->listens && conn->link != NULL && conn->server == server)
            net_send_down(conn, net_packet_new("a notification"), NULL);
    }
}

static void net_met_rows(const struct net_packet *packet)
{
    int column = PQfnumber(packet->result, "outcome");
    if (column < 0 || PQntuples(packet->result) == 0)
        world_met("postgres %s", packet->what);
    for (int i = 0; column >= 0 && i < PQntuples(packet->result); i++)
        world_met("postgres %s %s", packet->what, PQgetvalue(packet->result, i, column));
}

// Locked, timed out, out of memory, a deadlock.
static void net_refuse_statement(unsigned server, struct net_packet *packet)
{
    static const char *const codes[] = {"55P03", "57014", "53200", "40P01"};
    const char *code = codes[world_roll(sizeof codes / sizeof *codes)];
    packet->result = stores_postgres_error(server - SERVER_POSTGRES, code);
    world_tell("%s refuses %s: %s", servers_name(server), packet->what, code);
}

// A statement whose result counts.
static void net_executed(const struct net_conn *conn, const struct net_packet *packet)
{
    size_t shard = conn->server - SERVER_POSTGRES;
    witness_statement(conn->owner, shard, packet->statement, (const char *const *)packet->params, packet->result,
                      packet->expected);
    net_met_rows(packet);
    if (sk_result_kind_of((const struct sk_rows *)(const void *)packet->result) == SK_RESULT_REFUSED)
        world_fail("a statement that can never succeed: %s: %s", packet->what, PQresultErrorMessage(packet->result));
    if (stores_notified(shard))
        net_notify(conn->server);
}

static void net_on_commit(void *arg)
{
    struct trip *trip = arg;
    struct net_conn *conn = trip->conn;
    size_t shard = conn->server - SERVER_POSTGRES;
    if (conn->process != net.processes[conn->server]) {
        net_packet_free(trip->packet); // it was rolled back when the server died
    } else {
        stores_postgres_end(shard, true);
        world_tell("%s commits %s", servers_name(conn->server), trip->packet->what);
        net_executed(conn, trip->packet);
        net_send_down(conn, trip->packet, NULL);
    }
    free(trip);
}

// Whether the answer comes later, once its transaction has been committed.
static bool net_is_late(struct net_conn *conn, struct net_packet *packet)
{
    size_t shard = conn->server - SERVER_POSTGRES;
    if (world_roll(1000) >= net.servers[conn->server].late_per_mille || !stores_may_be_late(shard, packet->statement))
        return false;
    packet->expected = witness_before(conn->owner, shard, packet->statement, (const char *const *)packet->params);
    packet->result = stores_postgres_begin(shard, packet->statement, packet->n, (const char *const *)packet->params);
    world_tell("%s executes %s, and does not commit it yet", servers_name(conn->server), packet->what);
    world_at(world_now() + world_between(1, COMMIT_MS) * MS, net_on_commit, net_trip(conn, packet, NULL));
    return true;
}

static void net_ask_postgres(struct net_conn *conn, struct net_packet *packet)
{
    size_t shard = conn->server - SERVER_POSTGRES;
    if (world_roll(1000) < net.servers[conn->server].error_per_mille) {
        net_refuse_statement(conn->server, packet);
        return;
    }
    packet->expected = witness_before(conn->owner, shard, packet->statement, (const char *const *)packet->params);
    packet->result = stores_postgres(shard, packet->statement, packet->n, (const char *const *)packet->params);
    conn->listens = conn->listens || packet->statement == SK_STATEMENT_LISTEN;
    enum sk_result_kind kind = sk_result_kind_of((const struct sk_rows *)(const void *)packet->result);
    world_tell("%s executes %s%s", servers_name(conn->server), packet->what, kind == SK_RESULT_ROWS ? "" : ": refused");
    net_executed(conn, packet);
}

static void net_answer(struct net_conn *conn, struct net_packet *packet)
{
    if (servers_is_redis(conn->server))
        net_ask_redis(conn, packet);
    else if (net_is_late(conn, packet))
        return;
    else
        net_ask_postgres(conn, packet);
    net_send_down(conn, packet, NULL);
}

static void net_execute(struct trip *trip)
{
    struct net_conn *conn = trip->conn;
    if ((conn->cut && conn->link == NULL) || conn->process != net.processes[conn->server]) {
        net_packet_free(trip->packet);
    } else {
        net_answer(conn, trip->packet);
    }
    free(trip);
}

static void net_lose(struct net_conn *conn, const char *why)
{
    conn->cut = conn->cut || world_chance(500);
    net_send_down(conn, NULL, why);
}

// Packets that cannot pass wait, and later ones behind them.
static bool net_holds(struct trip *trip, uint64_t *latest, world_event *again)
{
    if (net_way_of(trip->conn->owner, trip->conn->server) != NET_SILENT)
        return false;
    uint64_t at = world_now() + HELD_NS;
    *latest = at > *latest ? at : *latest;
    world_at(at, again, trip);
    return true;
}

static void net_on_arrival(void *arg)
{
    struct trip *trip = arg;
    if (net_holds(trip, &trip->conn->up_at, net_on_arrival))
        return;
    struct net_server *server = &net.servers[trip->conn->server];
    if (server->down) {
        net_packet_free(trip->packet);
        free(trip);
    } else if (server->frozen) {
        *net.last_waiting = trip;
        net.last_waiting = &trip->next;
    } else {
        if (world_roll(1000) < server->break_per_mille)
            net_lose(trip->conn, "connection reset");
        net_execute(trip);
    }
}

void net_thaw(unsigned server)
{
    struct trip *waiting = net.waiting;
    net.servers[server].frozen = false;
    net.waiting = NULL;
    net.last_waiting = &net.waiting;
    while (waiting != NULL) {
        struct trip *trip = waiting;
        waiting = trip->next;
        trip->next = NULL;
        net_on_arrival(trip);
    }
}

// ---- back at the instances ----

static void net_hand_over(void *arg)
{
    struct trip *trip = arg;
    struct net_conn *conn = trip->conn;
    void *link = conn->link;
    if (link == NULL)
        return;
    if (trip->packet != NULL) {
        conn->events->answer(link, trip->packet);
    } else if (trip->why == NULL) {
        conn->events->connected(link);
    } else {
        conn->link = NULL;
        conn->events->lost(link, trip->why);
    }
}

static void net_on_answer(void *arg)
{
    struct trip *trip = arg;
    if (trip->conn->link != NULL && net_holds(trip, &trip->conn->down_at, net_on_answer))
        return;
    if (trip->conn->link != NULL && trip->why != NULL)
        world_tell("%s: %s", servers_name(trip->conn->server), trip->why);
    if (trip->conn->link != NULL)
        (void)net.deliver(trip->conn->owner, net_hand_over, trip);
}

// ---- troubles ----

enum net_way net_way_of(const struct instance *instance, unsigned server)
{
    for (size_t i = 0; i < CUT_OFF_MAX; i++) {
        if (net.cut_off[i].instance == instance)
            return net.cut_off[i].ways[server];
    }
    return NET_OPEN;
}

void net_cut_off(const struct instance *instance, unsigned server, enum net_way way)
{
    size_t i = 0;
    while (net.cut_off[i].instance != NULL && net.cut_off[i].instance != instance)
        i++;
    net.cut_off[i].instance = instance;
    net.cut_off[i].ways[server] = way;
    for (struct net_conn *conn = net.conns; way == NET_REFUSED && conn != NULL; conn = conn->next) {
        if (conn->owner == instance && conn->server == server && conn->link != NULL)
            net_lose(conn, "connection reset");
    }
}

void net_kill(unsigned server)
{
    if (!servers_is_redis(server))
        stores_postgres_end(server - SERVER_POSTGRES, false);
    net_break_all(server, "connection reset");
    net.processes[server]++;
}

void net_break_all(unsigned server, const char *why)
{
    for (struct net_conn *conn = net.conns; conn != NULL; conn = conn->next) {
        if (conn->server == server && conn->link != NULL)
            net_lose(conn, why);
    }
}
