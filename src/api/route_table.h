// The routes as data: one table, and which row fits a request. What the interface is stands here; how a request is
// admitted is in routes.c.
//
// Any thread: all is constant.
#ifndef SK_API_ROUTE_TABLE_H
#define SK_API_ROUTE_TABLE_H

#include <stdint.h>

#include "call.h"
#include "verdict.h"

enum sk_route_method { SK_ROUTE_GET, SK_ROUTE_POST, SK_ROUTE_PATCH, SK_ROUTE_ANY }; // all but the last as sk_method

// Who may call. From READ on they are roles of an admin's token; PAYMENTS also takes a signature instead, and is of all
// rows of its pattern.
enum sk_route_caller {
    SK_ROUTE_PROBER, // anyone, and no rate counts it
    SK_ROUTE_ANYONE,
    SK_ROUTE_USER,
    SK_ROUTE_USER_OR_READ, // without a user: a token that may read
    SK_ROUTE_READ,
    SK_ROUTE_OPERATE,
    SK_ROUTE_REFUNDS,
    SK_ROUTE_PAYMENTS,
    SK_ROUTE_SCRAPER, // METRICS, unless the configuration has them open
};
enum sk_route_body { SK_ROUTE_NO_BODY, SK_ROUTE_JSON }; // without one: whatever comes is not read

// How long an answer may take.
enum sk_route_wait {
    SK_ROUTE_AT_ONCE,
    SK_ROUTE_FOR_COMMIT,  // confirm_timeout_ms
    SK_ROUTE_FOR_STORES,  // the longest way to ask them
    SK_ROUTE_FOR_RETURN,  // the same, once more while an order is returned
    SK_ROUTE_FOR_REBUILD, // the same, and a long journal to settle
    SK_ROUTE_FOR_REPORT,  // the same, and many orders to count
    SK_ROUTE_WAIT_COUNT
};

// What the rate of an address counts of it: of admin calls and payments, which are the shop's own, those alone that say
// wrongly who they are.
enum sk_route_counts {
    SK_ROUTE_COUNTS_NOTHING,
    SK_ROUTE_COUNTS_TRIES,
    SK_ROUTE_COUNTS_DOCUMENTS,
    SK_ROUTE_COUNTS_FAILURES
};

// At which listener, if operators have one of their own. A pattern has one place.
enum sk_route_place {
    SK_PLACE_BUYERS,    // not at theirs
    SK_PLACE_BOTH,      // probes, the files of pages, and calls about any order
    SK_PLACE_OPERATORS, // at theirs alone: /admin, its page, and /metrics
};

enum sk_route_flag {
    SK_ROUTE_VITAL = 1,         // answered also while nearly all connections are taken
    SK_ROUTE_RATED = 2,         // counts for the rate of its user
    SK_ROUTE_A_PURCHASE = 4,    // measured as such
    SK_ROUTE_MAY_NAME_USER = 8, // open to anyone; a caller who says who it is counts as that user
    SK_ROUTE_OF_PAGES = 16,     // not there without the pages
    SK_ROUTE_OF_DEMO = 32,      // not there outside of the demo
};

// What the OpenAPI document says of a call beyond what follows from the other columns (openapi.h).
struct sk_route_doc {
    const char *id; // operationId; NULL: not a call, so not in the document
    const char *summary;
    const char *params; // besides those of the path: names in openapi/parameters.json, with blanks between
    const char *takes;  // the body: a name in openapi/request_bodies.json; NULL: none
    // Names in openapi/responses.json: one for each verdict of success, in the order of their statuses; then, for what
    // no verdict says, such as "304:Unchanged".
    const char *gives;
    uint64_t verdicts; // SK_VERDICT_BIT of each, besides those of sk_route_verdicts()
};

#define SK_VERDICT_BIT(verdict) (UINT64_C(1) << (verdict))
_Static_assert(SK_VERDICT_COUNT <= 64, "all verdicts in one word");

struct sk_route {
    enum sk_route_method method;
    enum sk_route_caller caller;
    const char *pattern; // {name} stands for one part of the path, * at the end for everything
    enum sk_route_body body;
    enum sk_route_wait wait;
    enum sk_route_counts counts;
    enum sk_route_place place;
    unsigned flags; // enum sk_route_flag
    sk_handle *handle;
    struct sk_route_doc doc;
};

// Rows of one pattern follow each other.
extern const struct sk_route sk_route_table[];
extern const size_t sk_route_count;

// What a path has between its slashes where the pattern has a name.
enum sk_route_id { SK_ROUTE_VOUCHER, SK_ROUTE_DEAD_LETTER, SK_ROUTE_ORDER, SK_ROUTE_ID_COUNT };

struct sk_route_part {
    const char *at; // in the path; NULL: the pattern has none of this kind
    size_t len;
};

struct sk_match {
    const struct sk_route *first; // the pattern's first row
    const struct sk_route *route; // the method's row; NULL: not allowed
    struct sk_route_part ids[SK_ROUTE_ID_COUNT];
};

// False: no pattern fits the path.
bool sk_route_match(enum sk_method method, const char *path, struct sk_match *match);

// Whether it changes something of a user.
bool sk_route_is_unsafe(const struct sk_route *route);
// All verdicts that a call can come to: its own, and those that the other columns bring with them.
uint64_t sk_route_verdicts(const struct sk_route *route);

// The row after this one, if it is of the same pattern; else NULL.
const struct sk_route *sk_route_next_method(const struct sk_route *route);

#endif
