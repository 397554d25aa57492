// The Redis nodes: the masters of a cluster, or one Redis that has all slots. Each has two links: for orders, and for
// queries. The slot map leads from a slot to its node.
//
// The map is read from any node once a second, and soon after a link was lost. A node that has lost the majority is not
// believed, nor one whose epoch is behind, unless no node has the newest: then the cluster was made anew. MOVED
// corrects a single slot at once. A node that has no slots any more is left once its links are idle.
//
// A slot that has moved, or a master that was replaced, is just another Redis process to a voucher: sk_redis_run()
// shows it. So neither needs a protocol of its own.
//
// All functions: the loop's thread. A link is valid until the loop goes on; do not keep it.
#ifndef SK_STORE_NODES_H
#define SK_STORE_NODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "redis_link.h"

struct sk_nodes;

// Nodes have the numbers 1 to SK_NODES_MAX. 0 stands for no node: its links are NULL, which are never ready.
// SK_NODE_LINKS: of a reactor to each of them.
enum { SK_NODES_MAX = 255, SK_NODE_LINKS = 2 };

struct sk_nodes_options {
    // Of each link, borrowed until sk_nodes_end; `at`, `arg` and the callbacks are set here.
    struct sk_redis_options redis;
    // A link has become ready or has stopped being so. They run before the callbacks of the calls that it loses.
    void (*on_orders)(void *arg, bool ready);
    void (*on_queries)(void *arg, bool ready);
    // A cluster has a newer epoch: a master may have been replaced and taken back between two readings of the map. Then
    // neither the map nor the process shows that its data may be older. NULL: not wanted.
    void (*on_elected)(void *arg);
    void *arg;
};

// Connects in the loop's next turn. NULL if the URL is wrong or memory is short; a wrong URL is logged.
struct sk_nodes *sk_nodes_open(uv_loop_t *loop, const struct sk_nodes_options *options);

// Ends all links as sk_redis_close() does. Afterwards no slot has a node. NULL is fine.
void sk_nodes_end(struct sk_nodes *nodes);
void sk_nodes_close(struct sk_nodes *nodes); // after sk_nodes_end: frees it; NULL is fine

// The links to the node of a slot. NULL: none has it.
struct sk_redis *sk_nodes_orders(const struct sk_nodes *nodes, unsigned slot);
struct sk_redis *sk_nodes_queries(const struct sk_nodes *nodes, unsigned slot);

// The number of a slot's node, for queues of one node each, and the order link by that number.
unsigned sk_nodes_number(const struct sk_nodes *nodes, unsigned slot);
struct sk_redis *sk_nodes_orders_of(const struct sk_nodes *nodes, unsigned number);

// The highest number in use.
unsigned sk_nodes_most(const struct sk_nodes *nodes);

struct sk_nodes_state {
    unsigned nodes, orders, queries; // nodes that have slots, and their links that are ready
};

struct sk_nodes_state sk_nodes_state(const struct sk_nodes *nodes);

// Adds rows of the nodes that have slots.
void sk_nodes_measure(const struct sk_nodes *nodes, struct sk_server_rows *rows);

// It is a cluster, not one Redis.
bool sk_nodes_is_cluster(const struct sk_nodes *nodes);

// sk_redis_flush() of all links; whether all order links are idle.
void sk_nodes_flush(struct sk_nodes *nodes);
bool sk_nodes_idle(const struct sk_nodes *nodes);

#endif
