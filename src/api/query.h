// A query: what is asked of the stores, in steps, to answer one question. Equal questions share one
// query, all of them together are bounded, and they have links of their own, so that no question waits behind a
// batch of orders. Nor does a payment or an operator's call wait behind questions: a query has a class, and
// higher ones go first (pg_link.h).
//
// A query is a struct whose first member is a struct sk_query:
//   struct show *show = sk_query_new(control, handle, "v:7", sizeof *show, show_start);
//   if (show != NULL) { ...fill it...; sk_query_start(&show->query); }
// Its steps are callbacks of the stores, and each way through them comes to sk_query_end() once for each round. What it
// owns beside the body it frees in `release`.
//
// The reactor's thread, as all functions. They may answer before they return.
#ifndef SK_API_QUERY_H
#define SK_API_QUERY_H

#include "answer.h"
#include "buf.h"
#include "cursor.h"
#include "sale.h"
#include "store_options.h"
#include "upkeep.h"

enum {
    SK_QUERY_KEY_SIZE = 128,
    SK_QUERY_ASKERS_MAX = 4096, // questions and commands of a reactor that wait at a time; above it OVERLOADED
    SK_QUERY_RESERVE = 512,     // of them, what each class leaves to those above it
    SK_QUERY_UNKNOWN_MAX = 16,  // orders looked for at a time that no store has for their user; orders.c
};

struct sk_admit;
struct sk_batcher;
struct sk_returns;
struct sk_query;
struct sk_queries;
struct sk_voucher_cache;
struct sk_waiting;
struct sk_live;

// What the control plane shares.
struct sk_control {
    const struct sk_sale *sale;            // borrowed
    struct sk_upkeep *upkeep;              // borrowed
    struct sk_returns *returns;            // borrowed
    struct sk_admit *admit;                // borrowed
    struct sk_batcher *batcher;            // borrowed
    const struct sk_store_options *stores; // borrowed
    int64_t reactors;                      // that share what an instance may send to streams
    bool (*ready)(void *arg);              // whether purchases can be taken
    void *arg;
    void (*on_answer)(void *routes, uint64_t handle, const struct sk_answer *answer); // once for each handle
    void *routes;
    struct sk_pg *report_pg;                   // borrowed: the link of what takes PostgreSQL seconds
    struct sk_queries *queries;                // owned
    struct sk_voucher_cache *shown;            // owned; vouchers.c
    const char *unknown[SK_QUERY_UNKNOWN_MAX]; // who asks for such orders; NULL: free
    struct sk_uuid_gen keys;                   // create.c
    struct sk_waiting *waiting;                // owned: requests that wait for an order's change
    struct sk_live *live;                      // owned: listeners of vouchers
    bool settling;                             // a settlement is being counted; report.c
};

struct sk_asker;

// Where a voucher is that a question names.
enum sk_found {
    SK_FOUND_LISTED, // in the catalogue; query->voucher is it, pinned
    SK_FOUND_OLD,    // not in it, though not newer than all of it: retired, or never given out. PostgreSQL knows
    SK_FOUND_NONE,   // there is no such voucher
};

struct sk_query {
    struct sk_query *previous, *next;
    struct sk_control *control;
    enum sk_pg_class class;                  // of its statements
    void (*start)(struct sk_query *query);   // begins a round
    void (*release)(struct sk_query *query); // ends one; NULL: nothing to free
    struct sk_asker *askers;                 // wait for this round's answer
    struct sk_asker *later;     // asked the same meanwhile: what they know of may be newer, so there is another round
    struct sk_voucher *voucher; // pinned until the end; NULL: none
    struct sk_follow_waiter waiter;
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
// Ends all that are open with UNAVAILABLE: after the links and the follow were closed. NULL is fine.
void sk_queries_close(struct sk_queries *queries);

// Begins a query of `size` bytes, zeroed behind its first member. `key`: questions with the same one are the
// same, and of one class; NULL: none is. NULL: the handle shares one that is under way, or was answered OVERLOADED.
void *sk_query_new(struct sk_control *control, enum sk_pg_class class, uint64_t handle, const char *key, size_t size,
                   void (*start)(struct sk_query *query));
// The same for a question that is like no other. NULL: the caller answers.
void *sk_query_try_new(struct sk_control *control, uint64_t handle, size_t size, void (*start)(struct sk_query *query));
void sk_query_start(struct sk_query *query);

// Answers all askers and frees the query, or begins its next round. A body that has failed is OVERLOADED.
void sk_query_end(struct sk_query *query, enum sk_verdict verdict, const char *body);
// The same with more to say.
void sk_query_end_with(struct sk_query *query, const struct sk_answer *answer);

// Answers all askers now; the query goes on without them.
void sk_query_answer(struct sk_query *query, const struct sk_answer *answer);

// The handle of the only asker of a query without a key, which is answered by others from now on; 0: answered.
uint64_t sk_query_take_handle(struct sk_query *query);

// Answers a handle that shares no query.
void sk_control_answer(struct sk_control *control, uint64_t handle, const struct sk_answer *answer);

// A statement. If it cannot be asked the query ends: UNAVAILABLE or OVERLOADED.
void sk_query_ask_pg(struct sk_query *query, enum sk_statement statement, int n, const char *const *params,
                     sk_pg_cb *done);

// Waits until the catalogue has all that was committed before now.
void sk_query_follow(struct sk_query *query, void (*done)(struct sk_query *query, bool ok));

// Finds the voucher in the catalogue and pins it for the query. NULL: it is not there.
struct sk_voucher *sk_query_find_voucher(struct sk_query *query, int64_t id);

// Finds the voucher that a question names, in the catalogue or not in it.
// `done` runs once, perhaps before this returns. An id that is newer than the catalogue waits for the next look. Where
// PostgreSQL is away, or too many ask for old ones, the query ends instead: UNAVAILABLE or OVERLOADED.
void sk_query_find(struct sk_query *query, int64_t id, void (*done)(struct sk_query *query, enum sk_found found));

// The same after the next look in any case: `done` never runs, and the query never ends, inside the call.
void sk_query_find_later(struct sk_query *query, int64_t id, void (*done)(struct sk_query *query, enum sk_found found));

#endif
