// A query: the steps in which one call asks the stores. Equal calls share one query. The number of askers is
// bounded, and queries have their own links, so they do not wait behind a batch of orders. A query has a class, and
// higher classes go first (pg_link.h). So a payment or an operator's call does not wait behind users' queries.
//
// A query is a struct whose first member is a struct sk_query:
//   struct show *show = sk_query_new(control, SK_PG_QUERIES, handle, "v:7", sizeof *show, show_start);
//   if (show != NULL) { ...fill it...; sk_query_start(&show->query); }
// Its steps are callbacks of the stores. Every path through them calls sk_query_end() once per round. `release` frees
// what the query owns, except the body.
//
// The reactor's thread, as all functions. They may answer before they return.
#ifndef SK_API_QUERY_H
#define SK_API_QUERY_H

#include "answer.h"
#include "buf.h"
#include "recovery.h"
#include "sale.h"
#include "store_options.h"
#include "verdict.h"

enum {
    SK_QUERY_KEY_SIZE = 512,
    SK_QUERY_ASKERS_MAX = 4096, // handles of a reactor that wait at a time, of all classes; above it OVERLOADED
    SK_QUERY_RESERVE = 512,     // of them, reserved by each class for those above it
};

struct sk_query;
struct sk_queries;
struct sk_voucher_cache;
struct sk_searches;
struct sk_settlements;
struct sk_waiting;
struct sk_live;
struct sk_feed;

// Shared by the control plane.
struct sk_control {
    const struct sk_sale *sale;                  // borrowed
    struct sk_recovery *recovery;                // borrowed
    const struct sk_store_options *stores;       // borrowed
    int64_t reactors;                            // they share an instance's budget for event streams
    bool (*ready)(void *arg);                    // whether purchases can be taken
    bool (*shard_away)(void *arg, size_t shard); // whether a shard takes none
    void *arg;
    void (*on_answer)(void *routes, uint64_t handle, const struct sk_answer *answer); // once for each handle
    void *routes;
    // Owned, and each opened by its module.
    struct sk_queries *queries;
    struct sk_voucher_cache *shown;     // vouchers.h
    struct sk_searches *searches;       // order_lookup.h
    struct sk_settlements *settlements; // settlement_report.h
    struct sk_waiting *waiting;         // requests that wait for an order's change
    struct sk_live *live;               // listeners of vouchers
    struct sk_feed *feed;               // requests that wait for the next event
};

struct sk_asker;

// Where the voucher of a query is.
enum sk_found {
    SK_FOUND_LISTED, // in the catalogue; query->voucher is it, pinned
    SK_FOUND_OLD,    // not in it, and not newer than it: retired, or never given out; PostgreSQL knows
    SK_FOUND_NONE,   // there is no such voucher
};

struct sk_query {
    struct sk_query *previous, *next;
    struct sk_control *control;
    enum sk_pg_class class;                  // of its statements
    void (*start)(struct sk_query *query);   // starts a round
    void (*release)(struct sk_query *query); // ends a round; NULL: nothing to free
    struct sk_asker *askers;                 // they wait for this round's answer
    struct sk_asker *later;     // asked the same meanwhile: they may know of newer changes, so another round follows
    struct sk_voucher *voucher; // pinned until the end; NULL: none
    unsigned shard;             // where its statements go: that of its voucher or order
    struct sk_catalogue_sync_waiter waiter;
    void (*on_followed)(struct sk_query *query, bool ok);
    struct {
        int64_t id;
        void (*done)(struct sk_query *query, enum sk_found found);
        bool counted; // counted among the queries about such vouchers
    } finding;
    struct sk_buf body;
    char key[SK_QUERY_KEY_SIZE];
};

// NULL: out of memory.
struct sk_queries *sk_queries_open(void);
// Ends all open queries with UNAVAILABLE. Call after the links and the catalogue syncs were closed. NULL is fine.
void sk_queries_close(struct sk_queries *queries);

// Makes a query of `size` bytes, zeroed after its first member. `key`: equal keys mean equal calls, of one class;
// NULL: it equals no other. Returns NULL if the handle shares a query in progress, or was answered OVERLOADED.
void *sk_query_new(struct sk_control *control, enum sk_pg_class class, uint64_t handle, const char *key, size_t size,
                   void (*start)(struct sk_query *query));
// The same for a call that equals no other. NULL: the caller answers.
void *sk_query_try_new(struct sk_control *control, uint64_t handle, size_t size, void (*start)(struct sk_query *query));
void sk_query_start(struct sk_query *query);

// The same for a query about a voucher, whose rounds begin with sk_query_find().
void *sk_query_new_about(struct sk_control *control, enum sk_pg_class class, uint64_t handle, const char *key,
                         size_t size, int64_t id, void (*done)(struct sk_query *query, enum sk_found found));

// Answers all askers and frees the query, or starts its next round. If the body has failed, the answer is OVERLOADED.
void sk_query_end(struct sk_query *query, enum sk_verdict verdict, const char *body);
// The same with a whole answer.
void sk_query_end_with(struct sk_query *query, const struct sk_answer *answer);

// Answers all askers now; the query goes on without them.
void sk_query_answer(struct sk_query *query, const struct sk_answer *answer);

// Returns the handle of the only asker of a query without a key; the caller answers it from now on. 0: it was answered.
uint64_t sk_query_take_handle(struct sk_query *query);

// Answers a handle that shares no query.
void sk_control_answer(struct sk_control *control, uint64_t handle, const struct sk_answer *answer);

// The shard of a voucher that need not be in the catalogue, and of an order: for query->shard.
unsigned sk_query_shard_of_voucher(const struct sk_query *query, int64_t id);
unsigned sk_query_shard_of_order(const struct sk_query *query, const char *order_id);

// Sends a statement to query->shard. If it cannot be sent, the query ends: UNAVAILABLE or OVERLOADED.
void sk_query_ask_pg(struct sk_query *query, enum sk_statement statement, int n, const char *const *params,
                     sk_pg_cb *done);

// ---- one statement of several shards ----

// What the shards have returned.
struct sk_gathered {
    const struct sk_rows *rows[SK_SHARDS_MAX]; // NULL: the shard is away
    size_t counts[SK_SHARDS_MAX];              // of rows; a caller may lower them
    bool complete;                             // no shard is away
};

struct sk_gather {
    struct sk_query *query;
    void (*done)(struct sk_query *query, struct sk_gathered *gathered);
    void (*none)(struct sk_query *query); // runs instead if all shards are away; NULL: the query ends
    struct sk_gathered gathered;
    struct sk_rows *copies[SK_SHARDS_MAX];
    size_t waiting;          // for so many shards
    enum sk_verdict failure; // of the last one that failed
    struct sk_gather_part {
        struct sk_gather *gather;
        size_t shard;
    } parts[SK_SHARDS_MAX];
};

// Part of the query, and begun once a round: then sk_gather_ask() for each shard, then sk_gather_end(). `done` runs
// once, when all that were asked have answered; the rows are its as long as it runs. If no shard has returned rows, the
// query ends instead, UNAVAILABLE or OVERLOADED; or, if all are away, `none` runs, where the caller has set it.
void sk_gather_begin(struct sk_gather *gather, struct sk_query *query,
                     void (*done)(struct sk_query *query, struct sk_gathered *gathered));
void sk_gather_ask(struct sk_gather *gather, size_t shard, enum sk_statement statement, int n,
                   const char *const *params);
void sk_gather_end(struct sk_gather *gather);

// ---- the catalogue ----

// Waits until the catalogue has everything that was committed on query->shard before now.
void sk_query_follow(struct sk_query *query, void (*done)(struct sk_query *query, bool ok));

// Finds the voucher in the catalogue and pins it for the query. NULL: it is not there. Sets query->shard.
struct sk_voucher *sk_query_find_voucher(struct sk_query *query, int64_t id);

// Finds the voucher of a query, in the catalogue or not in it. `done` runs once, perhaps before this returns. An id
// newer than the catalogue waits for its next update. If PostgreSQL is away, or too many ask for old vouchers, the
// query ends instead: UNAVAILABLE or OVERLOADED.
void sk_query_find(struct sk_query *query, int64_t id, void (*done)(struct sk_query *query, enum sk_found found));

// The same, but always after the next update: `done` never runs, and the query never ends, inside the call.
void sk_query_find_later(struct sk_query *query, int64_t id, void (*done)(struct sk_query *query, enum sk_found found));

#endif
