// The settlement report of a voucher: its numbers, what they must say of each other, and how they are shown. It
// compares PostgreSQL's counts with each other, with Redis, and with the balance of a finished sale; and it adds up the
// payments. Pure: settlement_report.h asks both stores.
//
// All functions: any thread.
#ifndef SK_API_REPORT_H
#define SK_API_REPORT_H

#include "buf.h"
#include "histogram.h"
#include "instances.h"
#include "pg_result.h"

// The numbers of settlement.sql, in the order of its columns between `state`, `refused`, `prices` and `payments`.
#define SK_REPORT_NUMBERS(X)                                          \
    X(at_ms)                                                          \
    X(begin_ms)                                                       \
    X(end_ms)                                                         \
    X(pay_within_s)                                                   \
    X(units) /* now */                                                \
    X(added)                                                          \
    X(taken_away)                                                     \
    X(stock)                                                          \
    X(live_counted) /* orders, by the voucher's counter */            \
    X(unpaid_orders)                                                  \
    X(unpaid_units)                                                   \
    X(paid_orders)                                                    \
    X(paid_units)                                                     \
    X(cancelled_orders)                                               \
    X(cancelled_units)                                                \
    X(expired_orders)                                                 \
    X(expired_units)                                                  \
    X(restocked_orders) /* refunded; kept_, too */                    \
    X(restocked_units)                                                \
    X(kept_orders)                                                    \
    X(kept_units)                                                     \
    X(refused_orders)                                                 \
    X(refused_units)                                                  \
    X(letters) /* that wait for a decision */                         \
    X(held_orders)                                                    \
    X(held_units)                                                     \
    X(duplicates)    /* live orders beyond the first of their user */ \
    X(account_stock) /* what Redis must have, as in the audit */      \
    X(account_buyers)                                                 \
    X(to_refund)         /* payments */                               \
    X(archived_payments) /* in files, and in no sum */

enum { SK_REPORT_REASONS_MAX = 16, SK_REPORT_PRICES_MAX = 16, SK_REPORT_PAYMENTS_MAX = 16, SK_REPORT_WORD_SIZE = 41 };

// How far Redis could be compared.
enum sk_report_books {
    SK_REPORT_COMPARED, // nothing moved between the two snapshots: they are as of PostgreSQL's count
    SK_REPORT_MOVING,   // orders are in progress
    SK_REPORT_UNSURE,   // its data is of another Redis process, or cannot be read
    SK_REPORT_LOADING,
    SK_REPORT_MISSING, // Redis does not have the voucher
    SK_REPORT_UNKNOWN, // Redis has not answered
    SK_REPORT_RETIRED, // the voucher is retired: there is nothing to compare
};

struct sk_report {
    int64_t voucher_id;
    char state[SK_REPORT_WORD_SIZE];
#define SK_REPORT_FIELD(name) int64_t name;
    SK_REPORT_NUMBERS(SK_REPORT_FIELD)
#undef SK_REPORT_FIELD
    struct sk_report_refused {
        char reason[SK_REPORT_WORD_SIZE];
        int64_t orders, units;
    } refused[SK_REPORT_REASONS_MAX];
    size_t reasons;
    struct sk_report_price {
        char currency[SK_REPORT_WORD_SIZE];
        int64_t cents; // of one unit
        int64_t orders, units, paid_orders, paid_units;
    } prices[SK_REPORT_PRICES_MAX]; // prices of live orders; those above the bound are left out
    size_t price_count;
    struct sk_report_payments {
        char state[SK_REPORT_WORD_SIZE], currency[SK_REPORT_WORD_SIZE];
        int64_t payments, cents;
    } payments[SK_REPORT_PAYMENTS_MAX]; // those above the bound are left out, accepted ones first
    size_t payment_count;
    enum sk_report_books books;
    int64_t redis_stock, redis_buyers, redis_journal;
    char instance[SK_INSTANCE_WORD_MAX + 1]; // the name of the one that answers
    int64_t since_ms;                        // wall clock, ms: when this instance began to measure
    struct sk_durations durable;
};

// Reads the row of settlement.sql. False: the row is malformed.
bool sk_report_read(const struct sk_rows *rows, struct sk_report *report);

// Reasons why the settlement is still open; each has a number.
enum sk_report_missing {
    SK_REPORT_SALE_ON,      // seconds to its end
    SK_REPORT_UNPAID,       // orders that may still expire
    SK_REPORT_JOURNAL,      // entries
    SK_REPORT_PENDING,      // buyers in Redis that PostgreSQL does not have yet
    SK_REPORT_DEAD_LETTERS, // that wait for a decision
    SK_REPORT_TO_REFUND,    // payments that came too late or twice, and were not given back yet
    SK_REPORT_REDIS,        // 1: it could not be compared
    SK_REPORT_MISSING_COUNT
};

// Sums that must be equal: the left side and the right side.
enum sk_report_sum {
    SK_REPORT_SUM_UNITS,      // units of live orders, units left, and units that refunded orders kept: those offered
    SK_REPORT_SUM_LIVE,       // live orders by the counters: those that were counted
    SK_REPORT_SUM_DUPLICATES, // live orders beyond the first of their user: none
    SK_REPORT_SUM_STOCK,      // Redis's stock: units left and not held, at least 0
    SK_REPORT_SUM_BUYERS,     // Redis's buyers: the users of live and held orders
    SK_REPORT_SUM_COUNT
};

enum sk_report_verdict { SK_REPORT_BALANCED, SK_REPORT_OPEN, SK_REPORT_WRONG };

struct sk_judgement {
    enum sk_report_verdict verdict;
    int64_t missing[SK_REPORT_MISSING_COUNT]; // 0: it does not apply
    struct sk_report_equation {
        int64_t is, should_be;
    } sums[SK_REPORT_SUM_COUNT];
};

void sk_report_judge(const struct sk_report *report, struct sk_judgement *judgement);

enum sk_report_format { SK_REPORT_JSON, SK_REPORT_TEXT, SK_REPORT_CSV };

void sk_report_put(const struct sk_report *report, enum sk_report_format format, struct sk_buf *out);

#endif
