// The routes as data: one table, and the match of a request with a row. It defines the interface; routes.c admits
// requests.
//
// Any thread: all is constant.
#ifndef SK_API_ROUTE_TABLE_H
#define SK_API_ROUTE_TABLE_H

#include <stdint.h>

#include "answer.h"
#include "call.h"

enum sk_route_method { SK_ROUTE_GET, SK_ROUTE_POST, SK_ROUTE_PATCH, SK_ROUTE_ANY }; // as sk_method, except ANY

// Who may call. From READ on, these are roles of an admin's token. PAYMENTS also accepts a signature instead, and
// applies to all rows of its pattern.
enum sk_route_caller {
    SK_ROUTE_PROBER, // anyone, without a rate limit
    SK_ROUTE_ANYONE,
    SK_ROUTE_USER,
    SK_ROUTE_USER_OR_READ, // a user, or a token that may read
    SK_ROUTE_READ,
    SK_ROUTE_OPERATE,
    SK_ROUTE_REFUNDS,
    SK_ROUTE_PAYMENTS,
    SK_ROUTE_SCRAPER, // METRICS, unless the configuration opens them to anyone
};
enum sk_route_body { SK_ROUTE_NO_BODY, SK_ROUTE_JSON }; // without a body: one that is sent is not read

// How long an answer may take.
enum sk_route_wait {
    SK_ROUTE_AT_ONCE,
    SK_ROUTE_FOR_COMMIT,  // confirm_timeout_ms
    SK_ROUTE_FOR_STORES,  // the longest sequence of store calls
    SK_ROUTE_FOR_RETURN,  // the same twice, to return an order
    SK_ROUTE_FOR_REBUILD, // the same, plus settling a long journal
    SK_ROUTE_FOR_REPORT,  // the same, plus counting many orders
    SK_ROUTE_WAIT_COUNT
};

// What counts toward the rate limit of an address. Admin calls and payments are the shop's own: only failed
// authentications count.
enum sk_route_counts {
    SK_ROUTE_COUNTS_NOTHING,
    SK_ROUTE_COUNTS_TRIES,
    SK_ROUTE_COUNTS_DOCUMENTS,
    SK_ROUTE_COUNTS_FAILURES
};

// On which listener, if operators have one of their own. All rows of a pattern have the same place.
enum sk_route_place {
    SK_PLACE_BUYERS,    // not on the operators' listener
    SK_PLACE_BOTH,      // probes, the files of pages, and calls about any order
    SK_PLACE_OPERATORS, // only on the operators' listener: /admin, its page, and /metrics
};

enum sk_route_flag {
    SK_ROUTE_VITAL = 1,         // served even while nearly all connections are taken
    SK_ROUTE_RATED = 2,         // counts toward its user's rate limit
    SK_ROUTE_A_PURCHASE = 4,    // measured as a purchase
    SK_ROUTE_MAY_NAME_USER = 8, // open to anyone; a caller who authenticates counts as that user
    SK_ROUTE_OF_PAGES = 16,     // exists only with the pages
    SK_ROUTE_OF_DEMO = 32,      // exists only in the demo
};

#define SK_VERDICT_BIT(verdict) (UINT64_C(1) << (verdict))
_Static_assert(SK_VERDICT_COUNT <= 64, "all verdicts in one word");

struct sk_route {
    enum sk_route_method method;
    enum sk_route_caller caller;
    const char *pattern; // {name} matches one part of the path, * at the end matches everything
    enum sk_route_body body;
    enum sk_route_wait wait;
    enum sk_route_counts counts;
    enum sk_route_place place;
    unsigned flags; // enum sk_route_flag
    sk_handle *handle;
    const char *query; // the names of its parameters, separated by blanks; NULL: not a call, so not in web/openapi.json
    uint64_t verdicts; // SK_VERDICT_BIT of each, besides those that sk_route_verdicts() adds
};

// Rows of one pattern are adjacent.
extern const struct sk_route sk_route_table[];
extern const size_t sk_route_count;

// The parts of a path that match a {name} of the pattern.
enum sk_route_id { SK_ROUTE_VOUCHER, SK_ROUTE_DEAD_LETTER, SK_ROUTE_ORDER, SK_ROUTE_ID_COUNT };

struct sk_route_part {
    const char *at; // in the path; NULL: the pattern has no such name
    size_t len;
};

struct sk_match {
    const struct sk_route *first; // the pattern's first row
    const struct sk_route *route; // the method's row; NULL: not allowed
    struct sk_route_part ids[SK_ROUTE_ID_COUNT];
};

// False: no pattern fits the path.
bool sk_route_match(enum sk_method method, const char *path, struct sk_match *match);

// Whether it changes something of a user: an unsafe method.
bool sk_route_is_unsafe(const struct sk_route *route);
// All verdicts that a call can have: its own, and those that follow from the other columns.
uint64_t sk_route_verdicts(const struct sk_route *route);

// Whether the call has a query parameter of this name.
bool sk_route_has_parameter(const struct sk_route *route, const char *name);

// The row after this one, if it is of the same pattern; else NULL.
const struct sk_route *sk_route_next_method(const struct sk_route *route);

#endif
