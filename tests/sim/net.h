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
#include "pg_result.h"
#include "redis_reply.h"
#include "world.h"

enum net_store { NET_REDIS, NET_POSTGRES, NET_STORES };

enum { NET_PARAMS_MAX = 16 };

// A command on its way, or its answer.
struct net_packet {
    const char *what; // for the story, a constant
    // To Redis: a command; NULL: a greeting. To PostgreSQL: a statement.
    char *command;
    size_t len;
    bool scripted;
    enum sk_statement statement;
    int n;
    char *params[NET_PARAMS_MAX]; // NULL: SQL's NULL
    // From Redis; from PostgreSQL, NULL unless it is rows.
    struct sk_reply *reply;
    char *info; // the answer to a greeting
    enum sk_result_kind kind;
    PGresult *result;
    bool notification;
};

struct net_conn;

// Calls of a link, as its instance.
struct net_events {
    void (*connected)(void *link);
    void (*lost)(void *link, const char *why); // also: refused. The connection has ended
    void (*answer)(void *link, struct net_packet *packet);
};

// ---- for links ----

struct net_conn *net_connect(enum net_store store, const struct net_events *events, void *link);
void net_listen(struct net_conn *conn); // for notifications
struct net_packet *net_packet_new(const char *what);
void net_send(struct net_conn *conn, struct net_packet *packet); // takes the packet
void net_leave(struct net_conn *conn);                           // NULL is fine

// ---- for instances ----

struct instance;

// Runs something as an instance, now or when it goes on. False: it is dead.
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
    unsigned error_per_mille; // of commands are refused, without effect
    unsigned break_per_mille; // of packets break their connection
};
struct net_server *net_server(enum net_store store);

// One instance alone does not reach a store: its packets wait until it does again, or its connections are refused.
enum net_way { NET_OPEN, NET_SILENT, NET_REFUSED };
void net_cut_off(const struct instance *instance, enum net_store store, enum net_way way);
enum net_way net_way_of(const struct instance *instance, enum net_store store);

void net_break_all(enum net_store store, const char *why); // all its connections
void net_thaw(enum net_store store);
const char *net_store_name(enum net_store store);

#endif
