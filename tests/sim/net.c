#include "net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stores.h"

enum {
    SOON_NS = 20000,
    QUICK_NS = 400000,
    LATE_NS = 40 * MS,
    VERY_LATE_NS = 1500 * MS,
    HELD_NS = 100 * MS,
    CUT_OFF_MAX = 8
};

struct net_conn {
    struct net_conn *next;
    struct instance *owner;
    enum net_store store;
    const struct net_events *events;
    void *link;              // NULL: it has left
    uint64_t up_at, down_at; // when the latest packet arrives
    bool listens;
    bool cut; // what is still on its way to the store is lost
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
    struct net_server servers[NET_STORES];
    struct {
        const struct instance *instance;
        enum net_way ways[NET_STORES];
    } cut_off[CUT_OFF_MAX];
    struct trip *waiting, **last_waiting; // at frozen servers, the oldest first
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

struct net_server *net_server(enum net_store store)
{
    return &net.servers[store];
}

const char *net_store_name(enum net_store store)
{
    return store == NET_REDIS ? "Redis" : "PostgreSQL";
}

// Mostly quick; now and then far later than all others.
static uint64_t net_delay(enum net_store store)
{
    uint64_t luck = world_roll(1000), slow = net.servers[store].slow_ns;
    uint64_t most = luck < 3 ? VERY_LATE_NS : luck < 30 ? LATE_NS : QUICK_NS;
    return world_between(SOON_NS, most) + (slow > 0 ? world_roll(slow) : 0);
}

static struct trip *net_trip(struct net_conn *conn, struct net_packet *packet, const char *why)
{
    struct trip *trip = world_alloc(sizeof *trip);
    *trip = (struct trip){.conn = conn, .packet = packet, .why = why};
    return trip;
}

static void net_send_up(struct net_conn *conn, struct net_packet *packet)
{
    uint64_t at = world_now() + net_delay(conn->store);
    conn->up_at = at > conn->up_at ? at : conn->up_at;
    world_at(conn->up_at, net_on_arrival, net_trip(conn, packet, NULL));
}

static void net_send_down(struct net_conn *conn, struct net_packet *packet, const char *why)
{
    uint64_t at = world_now() + net_delay(conn->store);
    conn->down_at = at > conn->down_at ? at : conn->down_at;
    world_at(conn->down_at, net_on_answer, net_trip(conn, packet, why));
}

// ---- for links ----

struct net_conn *net_connect(enum net_store store, const struct net_events *events, void *link)
{
    struct net_conn *conn = world_alloc(sizeof *conn);
    *conn = (struct net_conn){.next = net.conns, .owner = net.current, .store = store, .events = events, .link = link};
    net.conns = conn;
    bool refused = net.servers[store].down || net_way_of(conn->owner, store) == NET_REFUSED;
    net_send_down(conn, NULL, refused ? "connection refused" : NULL);
    return conn;
}

void net_listen(struct net_conn *conn)
{
    conn->listens = true;
}

struct net_packet *net_packet_new(const char *what)
{
    struct net_packet *packet = world_alloc(sizeof *packet);
    packet->what = what;
    return packet;
}

static void net_packet_free(struct net_packet *packet)
{
    for (int i = 0; i < packet->n; i++)
        free(packet->params[i]);
    free(packet->command);
    free(packet->info);
    sk_reply_free(packet->reply);
    PQclear(packet->result);
    free(packet);
}

void net_send(struct net_conn *conn, struct net_packet *packet)
{
    net_send_up(conn, packet);
}

// What it had sent may still arrive, unless the network lost it.
void net_leave(struct net_conn *conn)
{
    if (conn == NULL)
        return;
    conn->link = NULL;
    conn->cut = world_chance(500);
}

void net_died(const struct instance *instance)
{
    for (struct net_conn *conn = net.conns; conn != NULL; conn = conn->next) {
        if (conn->owner == instance && conn->link != NULL)
            net_leave(conn);
    }
}

// ---- at the stores ----

static struct sk_reply *net_error(const char *line)
{
    struct sk_reader *reader = sk_reader_open();
    struct sk_reply *reply = NULL;
    const char *why;
    sk_reader_feed(reader, line, strlen(line));
    (void)sk_reader_next(reader, &reply, &why);
    sk_reader_close(reader);
    return reply;
}

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

static void net_ask_redis(struct net_packet *packet)
{
    static const char *const errors[] = {"-LOADING Redis is loading the dataset in memory\r\n",
                                         "-BUSY Redis is busy running a script\r\n",
                                         "-OOM command not allowed when used memory > 'maxmemory'\r\n",
                                         "-MISCONF Redis is configured to save snapshots, but cannot\r\n"};
    if (packet->command == NULL) {
        packet->info = strdup(stores_redis_info());
    } else if (world_roll(1000) < net.servers[NET_REDIS].error_per_mille) {
        packet->reply = net_error(errors[world_roll(sizeof errors / sizeof *errors)]);
        world_tell("Redis refuses %s: %s", packet->what, sk_reply_error(packet->reply));
    } else {
        packet->reply = stores_redis(packet->command, packet->len);
        world_note(packet->command, packet->len);
        world_met("redis %s %s", packet->what, packet->scripted ? net_outcome(packet->reply) : "");
        const char *error = sk_reply_error(packet->reply);
        world_tell("Redis executes %s%s%s", packet->what, error == NULL ? "" : ": ", error == NULL ? "" : error);
    }
}

static void net_notify(void)
{
    for (struct net_conn *conn = net.conns; conn != NULL; conn = conn->next) {
        if (!conn->listens || conn->link == NULL)
            continue;
        struct net_packet *packet = net_packet_new("a notification");
        packet->notification = true;
        net_send_down(conn, packet, NULL);
    }
}

static void net_met_rows(const struct net_packet *packet)
{
    int column = packet->kind == SK_RESULT_ROWS ? PQfnumber(packet->result, "outcome") : -1;
    if (column < 0 || PQntuples(packet->result) == 0)
        world_met("postgres %s", packet->what);
    for (int i = 0; column >= 0 && i < PQntuples(packet->result); i++)
        world_met("postgres %s %s", packet->what, PQgetvalue(packet->result, i, column));
}

static void net_ask_postgres(struct net_packet *packet)
{
    static const enum sk_result_kind kinds[] = {SK_RESULT_FAILED, SK_RESULT_LOCKED};
    if (world_roll(1000) < net.servers[NET_POSTGRES].error_per_mille) {
        packet->kind = kinds[world_roll(2)];
        world_tell("PostgreSQL refuses %s: %s", packet->what, packet->kind == SK_RESULT_LOCKED ? "locked" : "failed");
        return;
    }
    packet->result = stores_postgres(packet->statement, packet->n, (const char *const *)packet->params);
    packet->kind = sk_result_kind_of((const struct sk_rows *)(const void *)packet->result);
    world_tell("PostgreSQL executes %s%s", packet->what, packet->kind == SK_RESULT_ROWS ? "" : ": refused");
    net_met_rows(packet);
    if (packet->kind == SK_RESULT_REFUSED)
        world_fail("a statement that can never succeed: %s: %s", packet->what, PQresultErrorMessage(packet->result));
    if (stores_notified())
        net_notify();
}

static void net_execute(struct trip *trip)
{
    struct net_conn *conn = trip->conn;
    if (conn->cut && conn->link == NULL) {
        net_packet_free(trip->packet);
    } else {
        if (conn->store == NET_REDIS)
            net_ask_redis(trip->packet);
        else
            net_ask_postgres(trip->packet);
        net_send_down(conn, trip->packet, NULL);
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
    if (net_way_of(trip->conn->owner, trip->conn->store) != NET_SILENT)
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
    struct net_server *server = &net.servers[trip->conn->store];
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

void net_thaw(enum net_store store)
{
    struct trip *waiting = net.waiting;
    net.servers[store].frozen = false;
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
        world_tell("%s: %s", net_store_name(trip->conn->store), trip->why);
    if (trip->conn->link != NULL)
        (void)net.deliver(trip->conn->owner, net_hand_over, trip);
}

// ---- troubles ----

enum net_way net_way_of(const struct instance *instance, enum net_store store)
{
    for (size_t i = 0; i < CUT_OFF_MAX; i++) {
        if (net.cut_off[i].instance == instance)
            return net.cut_off[i].ways[store];
    }
    return NET_OPEN;
}

void net_cut_off(const struct instance *instance, enum net_store store, enum net_way way)
{
    size_t i = 0;
    while (net.cut_off[i].instance != NULL && net.cut_off[i].instance != instance)
        i++;
    net.cut_off[i].instance = instance;
    net.cut_off[i].ways[store] = way;
    for (struct net_conn *conn = net.conns; way == NET_REFUSED && conn != NULL; conn = conn->next) {
        if (conn->owner == instance && conn->store == store && conn->link != NULL)
            net_lose(conn, "connection reset");
    }
}

void net_break_all(enum net_store store, const char *why)
{
    for (struct net_conn *conn = net.conns; conn != NULL; conn = conn->next) {
        if (conn->store == store && conn->link != NULL)
            net_lose(conn, why);
    }
}
