// Counters and measurements of reactors. Each reactor has one block, which only its thread writes and any thread reads.
// All open blocks of the process are in one list, and are read as one. The names are those of /metrics; docs/metrics.md
// lists each of them, which tests/lint checks.
#ifndef SK_BASE_METRICS_H
#define SK_BASE_METRICS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "distribution.h"
#include "list.h"
#include "server_table.h"
#include "status.h"

// The units left of vouchers on sale: a short table that one thread writes as a whole, about once a second, and any
// thread reads. If more than SK_REMAINING_MAX vouchers are on sale, the table has those with the highest ids.

enum { SK_REMAINING_MAX = 100 };

struct sk_remaining_row {
    int64_t voucher_id, units;
};

struct sk_remaining_rows {
    struct sk_remaining_row rows[SK_REMAINING_MAX]; // each voucher once, highest id first
    size_t count;
};

// Starts zeroed.
struct sk_remaining {
    pthread_mutex_t lock;
    struct sk_remaining_rows kept; // under the lock
};

// Adds units to a voucher's row. If the table is full, the voucher replaces one with a lower id, or is left out.
void sk_remaining_note(struct sk_remaining_rows *rows, int64_t voucher_id, int64_t units);

// The writer's thread. Never waits: while a reader has the lock, the older table stays.
void sk_remaining_publish(struct sk_remaining *remaining, const struct sk_remaining_rows *rows);

// Any thread. Adds the table to *out.
void sk_remaining_read(struct sk_remaining *remaining, struct sk_remaining_rows *out);

// Counters only grow: id, name, labels, help. Rows of one name are adjacent.
#define SK_COUNTERS(X)                                                                                             \
    X(ORDERS_TRIED, "seckill_orders_tried_total", "", "Purchases sent to Redis")                                   \
    X(ORDERS_GRANTED, "seckill_orders_granted_total", "", "Purchases that were granted a unit in Redis")           \
    X(ORDERS_JOINED, "seckill_orders_joined_total", "", "Orders that have joined a line")                          \
    X(ORDERS_PROMOTED, "seckill_orders_promoted_total", "", "Orders that waited and got a unit")                   \
    X(ORDERS_PLACED, "seckill_orders_placed_total", "", "Orders committed in PostgreSQL")                          \
    X(ORDERS_REFUSED, "seckill_orders_refused_total", "", "Granted orders that PostgreSQL refused")                \
    X(ORDERS_RETURNED, "seckill_orders_returned_total", "", "Orders cancelled, expired or refunded")               \
    X(ORDERS_EXPIRED, "seckill_orders_expired_total", "", "Placed orders that were not paid in time")              \
    X(REFUSED_MEMORY, "seckill_refused_from_memory_total", "", "Purchases refused without a query to a store")     \
    X(SCRIPT_CALLS, "seckill_script_calls_total", "", "Calls of place_orders.lua")                                 \
    X(BATCHES_WRITTEN, "seckill_batches_written_total", "", "Transactions that PostgreSQL has committed")          \
    X(BATCHES_PUT_BACK, "seckill_batches_put_back_total", "", "Batches that failed and are retried")               \
    X(QUERIES, "seckill_queries_total", "", "Queries and commands, purchases excepted")                            \
    X(QUERIES_FULL, "seckill_queries_refused_total", "", "Queries and commands refused: too many waited")          \
    X(REBUILDS, "seckill_rebuilds_total", "", "Vouchers that a rebuild has opened in Redis")                       \
    X(REBUILDS_FAILED, "seckill_rebuilds_failed_total", "", "Rebuilds that ended without opening the voucher")     \
    X(RETIRED, "seckill_vouchers_retired_total", "", "Vouchers of ended sales that left Redis")                    \
    X(ENTRIES_SWEPT, "seckill_entries_swept_total", "", "Journal entries settled for other sessions")              \
    X(DEAD_LETTERS, "seckill_dead_letters_total", "", "Orders and journal entries moved to the dead letters")      \
    X(SESSIONS_LOST, "seckill_sessions_lost_total", "", "Sessions that expired, or that Redis lost")               \
    X(CONNECTIONS_REFUSED, "seckill_connections_refused_total", "",                                                \
      "Connections refused because their address had too many")                                                    \
    X(CONNECTIONS_FULL, "seckill_connections_full_total", "", "Times a reactor's last free connection was taken")  \
    X(LONG_OF_SHARE, "seckill_long_requests_refused_total", "reason=\"share\"",                                    \
      "Event streams and long polls refused for a limit, by reason")                                               \
    X(LONG_OF_USER, "seckill_long_requests_refused_total", "reason=\"user\"", "")                                  \
    X(LONG_OF_ADDRESS, "seckill_long_requests_refused_total", "reason=\"address\"", "")                            \
    X(CROWDED, "seckill_crowded_requests_total", "", "Requests refused because nearly all connections were taken") \
    X(LINES_DROPPED, "seckill_access_log_dropped_total", "", "Lines of the access log that were not written")      \
    X(LOG_DROPPED, "seckill_log_dropped_total", "", "Lines of the log that were not written")                      \
    X(TICKETS_OFF, "seckill_tickets_refused_total", "reason=\"off\"", "Purchases refused for their ticket")        \
    X(TICKETS_MISSING, "seckill_tickets_refused_total", "reason=\"missing\"", "")                                  \
    X(TICKETS_EXPIRED, "seckill_tickets_refused_total", "reason=\"expired\"", "")                                  \
    X(TICKETS_BAD, "seckill_tickets_refused_total", "reason=\"bad\"", "")                                          \
    X(TICKETS_OLD_OFFER, "seckill_tickets_refused_total", "reason=\"old_offer\"", "")                              \
    X(ADMIN_TOKENS_WRONG, "seckill_auth_failures_total", "kind=\"admin_token\"",                                   \
      "Wrong admin tokens and payment signatures")                                                                 \
    X(SIGNATURES_WRONG, "seckill_auth_failures_total", "kind=\"signature\"", "")                                   \
    X(TOKENS_TAKEN, "seckill_user_tokens_total", "result=\"taken\"", "Checked user tokens, by result")             \
    X(TOKENS_REFUSED, "seckill_user_tokens_total", "result=\"refused\"", "")                                       \
    X(SIGNATURES, "seckill_user_token_signatures_total", "", "Computed signatures of user tokens")                 \
    X(FINDING_AGREE, "seckill_audit_findings_total", "finding=\"agree\"", "Results of the audit's checks")         \
    X(FINDING_MISSING, "seckill_audit_findings_total", "finding=\"missing\"", "")                                  \
    X(FINDING_LOADING, "seckill_audit_findings_total", "finding=\"loading\"", "")                                  \
    X(FINDING_UNSURE, "seckill_audit_findings_total", "finding=\"unsure\"", "")                                    \
    X(FINDING_BEHIND, "seckill_audit_findings_total", "finding=\"behind\"", "")                                    \
    X(FINDING_DIFFER, "seckill_audit_findings_total", "finding=\"differ\"", "")                                    \
    X(FINDING_OLD, "seckill_audit_findings_total", "finding=\"old\"", "")                                          \
    X(LOST_REDIS, "seckill_link_lost_total", "store=\"redis\",link=\"orders\"",                                    \
      "Connections to the stores that ended")                                                                      \
    X(LOST_ASK_REDIS, "seckill_link_lost_total", "store=\"redis\",link=\"queries\"", "")                           \
    X(LOST_PG, "seckill_link_lost_total", "store=\"postgresql\",link=\"orders\"", "")                              \
    X(LOST_ASK_PG, "seckill_link_lost_total", "store=\"postgresql\",link=\"queries\"", "")                         \
    X(LOST_REPORT_PG, "seckill_link_lost_total", "store=\"postgresql\",link=\"reports\"", "")

// Gauges show the present state: id, name, labels, how to merge the values of several reactors, help.
#define SK_GAUGES(X)                                                                                                   \
    X(ORDERS_ASKING, "seckill_orders", "state=\"asking\"", SUM, "Orders in progress, by state")                        \
    X(ORDERS_ASKED, "seckill_orders", "state=\"asked\"", SUM, "")                                                      \
    X(ORDERS_JOINING, "seckill_orders", "state=\"joining\"", SUM, "")                                                  \
    X(ORDERS_WAITING, "seckill_orders", "state=\"granted\"", SUM, "")                                                  \
    X(ORDERS_DELAYED, "seckill_orders", "state=\"delayed\"", SUM, "")                                                  \
    X(ORDERS_WRITING, "seckill_orders", "state=\"writing\"", SUM, "")                                                  \
    X(ORDERS_SETTING_ASIDE, "seckill_orders", "state=\"setting_aside\"", SUM, "")                                      \
    X(ORDERS_LOST, "seckill_orders", "state=\"lost\"", SUM, "")                                                        \
    X(ORDERS_REGRANTING, "seckill_orders", "state=\"regranting\"", SUM, "")                                            \
    X(ORDERS_REFUSING, "seckill_orders", "state=\"refusing\"", SUM, "")                                                \
    X(ORDERS_MAX, "seckill_orders_max", "", SUM, "Limit of orders in progress")                                        \
    X(REACTORS, "seckill_reactors", "", SUM, "Reactors of this instance")                                              \
    X(REACTORS_READY, "seckill_reactors_ready", "", SUM, "Reactors that can sell")                                     \
    X(TICKETS_ON, "seckill_tickets_on", "", MOST, "1: this instance can issue purchase tickets")                       \
    X(LOOP_AT, "seckill_loop_age_seconds", "", AGE, "Time since a reactor's loop last turned; of the slowest")         \
    X(SESSIONS_HELD, "seckill_sessions_held", "", SUM, "Reactors whose session Redis has acknowledged")                \
    X(UP_REDIS, "seckill_link_up", "store=\"redis\",link=\"orders\"", SUM, "Connections to the stores that are ready") \
    X(UP_ASK_REDIS, "seckill_link_up", "store=\"redis\",link=\"queries\"", SUM, "")                                    \
    X(UP_PG, "seckill_link_up", "store=\"postgresql\",link=\"orders\"", SUM, "")                                       \
    X(UP_ASK_PG, "seckill_link_up", "store=\"postgresql\",link=\"queries\"", SUM, "")                                  \
    X(UP_REPORT_PG, "seckill_link_up", "store=\"postgresql\",link=\"reports\"", SUM, "")                               \
    X(CONNECTIONS_IDLE, "seckill_connections", "state=\"idle\"", SUM, "Client connections, by state")                  \
    X(CONNECTIONS_READING, "seckill_connections", "state=\"reading\"", SUM, "")                                        \
    X(CONNECTIONS_WAITING, "seckill_connections", "state=\"waiting\"", SUM, "")                                        \
    X(CONNECTIONS_PARKED, "seckill_connections", "state=\"parked\"", SUM, "")                                          \
    X(CONNECTIONS_SENDING, "seckill_connections", "state=\"sending\"", SUM, "")                                        \
    X(CONNECTIONS_STREAMING, "seckill_connections", "state=\"streaming\"", SUM, "")                                    \
    X(CONNECTIONS_MAX, "seckill_connections_max", "", SUM, "Limit of client connections")                              \
    X(LONG_REQUESTS, "seckill_long_requests", "", SUM, "Open event streams and long polls")                            \
    X(LONG_REQUESTS_MAX, "seckill_long_requests_max", "", SUM, "Limit of open event streams and long polls")           \
    X(VOUCHERS, "seckill_vouchers", "", MOST, "Vouchers in the catalogue")                                             \
    X(VOUCHERS_ON_SALE, "seckill_vouchers_on_sale", "", MOST, "Vouchers on sale now")                                  \
    X(JOURNAL_ENTRIES, "seckill_journal_entries", "", SUM, "Journal entries of vouchers this instance checks")         \
    X(JOURNAL_OLDEST, "seckill_journal_oldest_seconds", "", AGE, "Age of the oldest journal entry; 0: there is none")  \
    X(BOOKS_DIFFER, "seckill_books_differ", "", SUM, "Vouchers at rest whose stores disagree")                         \
    X(LETTERS_WAITING, "seckill_dead_letters_waiting", "", SUM, "Dead letters that wait for a decision")               \
    X(TO_REFUND, "seckill_payments_to_refund", "", SUM, "Payments that are to be given back")                          \
    X(ROUND_AT, "seckill_audit_round_age_seconds", "", AGE, "Time since the last complete audit round")

// Distributions: id, name, labels, scale, help.
#define SK_DISTRIBUTIONS(X)                                                                                            \
    X(LEG_GATHER, "seckill_order_leg_seconds", "leg=\"gather\"", SECONDS,                                              \
      "Time of a purchase on each leg of the order path")                                                              \
    X(LEG_REDIS, "seckill_order_leg_seconds", "leg=\"redis\"", SECONDS, "")                                            \
    X(LEG_QUEUE, "seckill_order_leg_seconds", "leg=\"queue\"", SECONDS, "")                                            \
    X(LEG_COMMIT, "seckill_order_leg_seconds", "leg=\"commit\"", SECONDS, "")                                          \
    X(DURABLE, "seckill_order_durable_seconds", "", SECONDS, "Time from handing over a purchase to its commit")        \
    X(BATCH_REDIS, "seckill_batch_orders", "store=\"redis\"", ORDERS, "Orders in a script call, and in a transaction") \
    X(BATCH_PG, "seckill_batch_orders", "store=\"postgresql\"", ORDERS, "")

enum sk_metric {
#define SK_METRIC_ENUM(name, ...) SK_METRIC_##name,
    SK_COUNTERS(SK_METRIC_ENUM) SK_GAUGES(SK_METRIC_ENUM)
#undef SK_METRIC_ENUM
        SK_METRIC_COUNT
};

enum sk_distribution_id {
#define SK_METRIC_ENUM(name, ...) SK_DISTRIBUTION_##name,
    SK_DISTRIBUTIONS(SK_METRIC_ENUM)
#undef SK_METRIC_ENUM
        SK_DISTRIBUTION_COUNT
};

// How to merge the values of several reactors.
enum sk_merge {
    SK_MERGE_SUM,
    SK_MERGE_MOST,
    SK_MERGE_AGE, // a time of sk_monotonic_ms(), 0: none; the oldest one counts, and its age is shown
};

struct sk_metric_row {
    const char *name, *labels; // labels as written between the braces
    const char *help;          // of the first row of a name; "" in the others
    bool counter;
    enum sk_merge merge;
    enum sk_scale scale; // of a distribution
};

// Requests by route. Route 0 is for requests that match no route; the caller assigns the numbers from 1 on.
enum { SK_METRICS_ROUTES = 64 };

// Answers by code; the caller assigns the numbers.
enum { SK_METRICS_CODES = 64 };

// A block that is in no list starts zeroed.
struct sk_metrics {
    struct sk_list list; // must be first
    _Atomic uint64_t values[SK_METRIC_COUNT];
    struct sk_distribution distributions[SK_DISTRIBUTION_COUNT];
    _Atomic uint64_t answers[SK_METRICS_ROUTES][SK_METRICS_CODES];
    struct sk_distribution durations[SK_METRICS_ROUTES];
    struct sk_remaining remaining;
    struct sk_remaining differing; // vouchers at rest whose stores disagree, as if each had one unit left
    struct sk_server_table servers;
};

// Gives a block that is in the list. NULL: out of memory. Any thread, also for closing; closing NULL is fine.
struct sk_metrics *sk_metrics_open(void);
void sk_metrics_close(struct sk_metrics *metrics);

// The reactor's thread. `metrics` NULL: nothing is counted.
void sk_metrics_add(struct sk_metrics *metrics, enum sk_metric metric, uint64_t n);
void sk_metrics_set(struct sk_metrics *metrics, enum sk_metric metric, uint64_t value);
void sk_metrics_observe(struct sk_metrics *metrics, enum sk_distribution_id id, uint64_t value, uint64_t n);
void sk_metrics_answered(struct sk_metrics *metrics, unsigned route, unsigned code);
void sk_metrics_took(struct sk_metrics *metrics, unsigned route, uint64_t ns, uint64_t n);

// Any thread.
uint64_t sk_metrics_read(const struct sk_metrics *metrics, enum sk_metric metric);
const struct sk_metric_row *sk_metric_row(enum sk_metric metric); // both return constants
const struct sk_metric_row *sk_distribution_row(enum sk_distribution_id id);

// The sum of all blocks when they were read. An addition that another thread makes meanwhile is included or not.
struct sk_metrics_sum {
    uint64_t values[SK_METRIC_COUNT]; // ages are in ms
    struct sk_distributed distributions[SK_DISTRIBUTION_COUNT];
    uint64_t answers[SK_METRICS_ROUTES][SK_METRICS_CODES];
    struct sk_distributed durations[SK_METRICS_ROUTES];
    struct sk_remaining_rows remaining, differing;
    struct sk_server_rows servers;
};

// Any thread. *sum is large: keep it off the stack. Takes no lock that a reactor waits for.
void sk_metrics_sum(struct sk_metrics_sum *sum, uint64_t now_ms);

#endif
