// The terms of a voucher, as an operator sets them, and the bodies that have them. Pure.
//
// All functions: any thread.
#ifndef SK_API_TERMS_H
#define SK_API_TERMS_H

#include "call.h"
#include "cors.h"
#include "verdict.h"

// In a change of terms: leave this one unchanged.
enum { SK_TERM_AS_IT_IS = -1 };
// As the service chooses it.
enum { SK_TERM_DEFAULT = -2 };

// The terms of a voucher, as the admin sets them.
struct sk_terms {
    const char *title;                 // borrowed for the call
    const char *currency;              // three letters; borrowed for the call
    const char *description, *picture; // "": none; NULL: none, or in a change as it is; borrowed for the call
    int64_t stock, price_cents, begin_ms, end_ms;
    int64_t user_limit;      // most units in a user's one order
    int64_t scope;           // of this voucher; 0: its own
    int64_t orders_per_user; // those that ended included
    int64_t pay_within_s;    // an unpaid order expires after it; 0: never
    int64_t extend_s;        // by so much at most a payment in progress extends it; 0: it may not
    int64_t ticket;          // 1: a purchase needs a ticket; 0: it does not
    int64_t work_bits;       // proof of work that a ticket takes; 0: none
    int64_t more_ms;         // when more units come; 0: not known
    int64_t waitlist;        // so many may wait; 0: nobody may, or no longer; SK_TERM_DEFAULT: twice the units
};

// What an instance's settings allow.
struct sk_terms_rules {
    bool tickets;                   // there is a secret for them
    const struct sk_cors *pictures; // origins of vouchers' pictures; NULL: none
};

enum { SK_LINE_SIZE = 40 };

// What PostgreSQL's set_line() takes, for the voucher's line. NULL: it stays as it is.
const char *sk_terms_line(const struct sk_terms *terms, char out[SK_LINE_SIZE]);

struct sk_terms_rules sk_terms_rules(const struct sk_context *context);

// Reads the body of POST /admin/vouchers: all terms; those that are optional have defaults. The result is as of
// sk_fields_end(); texts point into `read`, which the caller frees in any case.
enum sk_verdict sk_terms_read(const char *body, size_t len, const struct sk_terms_rules *rules, struct sk_terms *terms,
                              struct sk_fields *read);

// The same for a change: any of the terms except the stock. A missing one is NULL or SK_TERM_AS_IT_IS.
enum sk_verdict sk_terms_read_change(const char *body, size_t len, const struct sk_terms_rules *rules,
                                     struct sk_terms *terms, struct sk_fields *read);

// {"add": n} or {"reduce": n}: n, or -n.
enum sk_verdict sk_terms_read_stock(const char *body, size_t len, int64_t *units, struct sk_fields *read);

#endif
