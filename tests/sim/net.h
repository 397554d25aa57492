// The network of a world: connections between instances and stores. A packet takes its time; those of one connection
// arrive in their order, in each direction. What the network does to them is all that is simulated of a store.
//
// A connection belongs to the world, not to the instance, which may die. One thread.
#ifndef SIM_NET_H
#define SIM_NET_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stddef.h>

#include "embedded.h"
#include "pg_link.h"
#include "servers.h"
#include "world.h"

// A command on its way, or its answer.
struct net_packet {
    const char *what; // for the story, a constant; NULL: a command of Redis's own, by its name
    char *bytes;      // to Redis: one command; from it: the reply
    size_t len;
    enum sk_statement statement; // to PostgreSQL
    int n;
    char *params[SK_PG_PARAMS_MAX]; // NULL: SQL's NULL
    PGresult *result;               // from PostgreSQL; NULL: a notification
    int64_t expected;               // by witness_before()
};

struct net_conn;

// Calls of a link, as its instance. The packet of an answer is the link's.
struct net_events {
    void (*connected)(void *link);
    void (*lost)(void *link, const char *why); // also: refused. The connection has ended
    void (*answer)(void *link, struct net_packet *packet);
};

// ---- for links ----

// server: of servers.h; SERVER_NONE refuses.
struct net_conn *net_connect(unsigned server, const struct net_events *events, void *link);
struct net_packet *net_packet_new(const char *what);
void net_packet_free(struct net_packet *packet);                 // NULL is fine
void net_send(struct net_conn *conn, struct net_packet *packet); // takes the packet
void net_leave(struct net_conn *conn);                           // NULL is fine

// ---- for instances ----

struct instance;

// Runs something as an instance, now or when it goes on. False: it is off.
typedef bool net_deliver(struct instance *instance, world_event *run, void *arg);
void net_open(net_deliver *deliver);
// Connections that are opened from now on are its; NULL: nobody's.
void net_look_at(struct instance *instance);
void net_died(const struct instance *instance);

// ---- for troubles ----

struct net_server {
    bool down;   // refuses connections
    bool frozen; // executes nothing, but its connections stay
    uint64_t slow_ns;
    uint64_t detour_ns, detour_until; // what is sent to it before then arrives so much later; 0: at once
    bool detour_back;                 // what it answers, instead
    unsigned error_per_mille;         // of commands are refused, without effect
    unsigned late_per_mille;          // of transactions are committed later; of PostgreSQL
    unsigned break_per_mille;         // of packets break their connection
};
struct net_server *net_server(unsigned server);
bool net_is_well(unsigned server);
// From now on nothing is very late.
void net_calm(void);
// How long ago the last packet of an instance that was very late has arrived, in ns; 0: one is still under way.
uint64_t net_on_time_for(size_t instance);

// One instance alone does not reach a server: its packets wait until it does again, or its connections are refused.
enum net_way { NET_OPEN, NET_SILENT, NET_REFUSED };
void net_cut_off(const struct instance *instance, unsigned server, enum net_way way);
enum net_way net_way_of(const struct instance *instance, unsigned server);

void net_break_all(unsigned server, const char *why); // all its connections
void net_kill(unsigned server);                       // it dies with them, and what is on its way to it
void net_thaw(unsigned server);

#endif
