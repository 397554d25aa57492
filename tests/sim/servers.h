// The servers of a world: one Redis, one that sentinels watch over, or two nodes of a cluster; and one PostgreSQL or
// two shards. Where they are, and what they say of each other. What they execute is of stores.h.
//
// An address leads to the server that is there: a node and its replica have two addresses, and take turns. One thread.
#ifndef SIM_SERVERS_H
#define SIM_SERVERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "command.h"
#include "stores.h"

enum {
    SERVER_REDIS,                                  // and its nodes
    SERVER_POSTGRES = SERVER_REDIS + STORES_NODES, // and its shards
    SERVER_SENTINEL = SERVER_POSTGRES + STORES_SHARDS,
    SENTINELS = 3,
    SERVER_REPLICA = SERVER_SENTINEL + SENTINELS, // of each node of a Redis that may fail over
    SERVERS_MAX = SERVER_REPLICA + STORES_NODES,
    SERVER_NONE = SERVERS_MAX
};

enum servers_kind { SERVERS_ALONE, SERVERS_WATCHED, SERVERS_CLUSTER };

void servers_open(enum servers_kind kind, size_t shards, bool standbys); // PostgreSQL's
size_t servers_nodes(void);
size_t servers_shards(void);
bool servers_move(void); // a slot is on its way
const char *servers_redis_url(void);
const char *servers_postgres_url(size_t shard);

const char *servers_name(unsigned server); // for the story
bool servers_is_redis(unsigned server);    // or a sentinel, or a replica
unsigned servers_choose(uint64_t dice);    // one of those that there are
unsigned servers_at(const char *address);  // SERVER_NONE: nobody is there

// Which node has the slot of this key.
size_t servers_node_of_key(const char *key);

// What a server answers without executing the command, as RESP: who it is, or that it does not have the slot. NULL: it
// executes the command. The caller frees it.
char *servers_answer(unsigned server, const struct command *command);

// ---- troubles ----

// A replica takes the place of a node, or a standby that of a shard, and they change their addresses. A Redis or a
// PostgreSQL that is alone stays where it is.
void servers_replace(unsigned server);
bool servers_may_replace(unsigned server);

// The slot of a key begins to move, and is at the other node once its keys are.
bool servers_begin_move(const char *key);
void servers_end_move(void); // nothing moves: fine

#endif
