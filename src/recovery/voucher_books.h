// Compares a voucher in both stores, and judges whether Redis may go on selling it.
#ifndef SK_RECOVERY_VOUCHER_BOOKS_H
#define SK_RECOVERY_VOUCHER_BOOKS_H

#include <stdbool.h>
#include <stdint.h>

#include "buf.h"
#include "journal.h"
#include "pg_link.h"
#include "redis_link.h"
#include "voucher.h"

// An operator's terms of a voucher, as a store has them.
struct sk_terms_seen {
    int64_t change; // newest change number it has; on Redis's side its stock has it, too
    int64_t begin_ms, end_ms, offer;
    enum sk_voucher_state state;
};

enum { SK_SALE_PHASE_SIZE = 16 };

// PostgreSQL's side.
struct sk_account {
    int64_t voucher_id;
    unsigned slot;
    int64_t epoch;
    char newest[SK_JOURNAL_ID_SIZE]; // newest journal id of an order written under this epoch; "0-0": none
    int64_t stock;                   // units neither in live orders nor held by dead letters
    int64_t buyers;
    int64_t letters;                // dead letters that wait for a decision
    int64_t waiting;                // orders in its line
    char phase[SK_SALE_PHASE_SIZE]; // of the sale, by its newest event; empty: it has none
    struct sk_terms_seen terms;
};

// The elements of read_voucher.lua's reply.
enum {
    SK_SNAPSHOT_STATE,
    SK_SNAPSHOT_EPOCH,
    SK_SNAPSHOT_LAST,
    SK_SNAPSHOT_STOCK,
    SK_SNAPSHOT_RUN,
    SK_SNAPSHOT_BUYERS,
    SK_SNAPSHOT_JOURNAL,
    SK_SNAPSHOT_ORDER,
    SK_SNAPSHOT_CHANGE,
    SK_SNAPSHOT_BEGIN_MS,
    SK_SNAPSHOT_END_MS,
    SK_SNAPSHOT_AGE_MS,
    SK_SNAPSHOT_OFFER
};

// Redis's side, as read_voucher.lua returns it. Zeroed: nothing has been seen.
struct sk_snapshot {
    bool present;
    bool loading;
    bool same_run; // opened under the Redis process that was asked
    int64_t epoch, stock, buyers, journal;
    char last[SK_JOURNAL_ID_SIZE]; // newest journal id, or "epoch-<n>"; empty: it is neither
    struct sk_terms_seen terms;
};

// The parameters of voucher_accounts.sql: which vouchers. Begin it, add some, end it, free it.
struct sk_account_query {
    struct sk_buf slots, vouchers;
    const char *params[2]; // both arrays, valid from the end to the freeing
};

void sk_account_query_begin(struct sk_account_query *query);
void sk_account_query_add(struct sk_account_query *query, const struct sk_voucher *voucher);
bool sk_account_query_end(struct sk_account_query *query); // false: memory was short
void sk_account_query_free(struct sk_account_query *query);

// A row of its result.
void sk_account_read(const struct sk_rows *rows, size_t row, struct sk_account *account);

enum sk_books {
    SK_BOOKS_AGREE,   // as far as can be known while orders are in progress
    SK_BOOKS_MISSING, // Redis does not have the voucher
    SK_BOOKS_LOADING, // a rebuild is in progress, or died
    SK_BOOKS_UNSURE,  // Redis was restarted or failed over since the voucher was opened
    SK_BOOKS_BEHIND,  // Redis has lost what it had: epoch or newest journal id went backwards
    SK_BOOKS_DIFFER,  // stock or buyers differ though nothing moves; or terms differ under one change number
    SK_BOOKS_OLD,     // an operator's change has not reached Redis: voucher_changes.h applies it
};

// Asks for Redis's side: read_voucher.lua, which also reads the order of `user` (NULL: none). As
// sk_redis_script() otherwise.
enum sk_status sk_snapshot_ask(struct sk_redis *redis, const struct sk_voucher_keys *keys, const char *user,
                               sk_redis_cb *done, void *arg) SK_MUST_CHECK;

// Reads read_voucher.lua's reply. An impossible value counts as of another process: not to be relied on. False: it is
// no such reply.
bool sk_snapshot_read(const struct sk_reply *reply, struct sk_snapshot *snapshot);

// The age of the journal's oldest entry, by Redis's clock; 0: the journal is empty, or the value is impossible.
int64_t sk_snapshot_age_ms(const struct sk_reply *reply);

// Whether the caller knows a newer state than this snapshot: a newer epoch, or of the same one a newer `last`.
bool sk_snapshot_is_behind(const struct sk_snapshot *snapshot, int64_t epoch, const char *last);

// Whether nothing moved between the snapshots: the same buyers and stock, and no order in progress.
bool sk_snapshot_is_at_rest(const struct sk_snapshot *before, const struct sk_snapshot *now);

// `account` was read after `before` and before `now`. Redis is always ahead, so it cannot be behind `account` unless it
// has lost something. If both snapshots are the same, with an empty journal, nothing moved in between.
enum sk_books sk_books_compare(const struct sk_account *account, const struct sk_snapshot *before,
                               const struct sk_snapshot *now);

const char *sk_books_name(enum sk_books finding);

#endif
