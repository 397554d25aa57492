// The findings of --check: one line each, "ok|warn|fail what: why", in the order in which they were found.
#ifndef SK_STORE_FINDINGS_H
#define SK_STORE_FINDINGS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum sk_finding {
    SK_FINDING_OK,
    SK_FINDING_WARN, // a promise holds, but less than it could; or a setting is not as it should be
    SK_FINDING_FAIL, // a promise does not hold, or the service cannot work
    SK_FINDING_KINDS
};

struct sk_findings {
    FILE *out; // borrowed; NULL: failures are logged as errors, and nothing else is said
    size_t counts[SK_FINDING_KINDS];
};

// A store's clock compared with ours.
struct sk_clock_seen {
    bool known;
    int64_t ahead_ms;
    uint64_t within_ms; // how long the query took: the error is half of it either way
};

// The clocks of several nodes: the one that is most behind, and the one that is most ahead.
struct sk_clocks_seen {
    struct sk_clock_seen least, most;
};

// `format` prints the state, and after a "; " its consequence, which a line with ok leaves out. Bytes that are not
// printable ASCII become blanks, so that a server's text stays one line.
void sk_find(struct sk_findings *findings, enum sk_finding kind, const char *what, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

// As sk_find: OK if `good`, else `kind`.
#define SK_FIND_UNLESS(findings, good, kind, what, ...) \
    sk_find((findings), (good) ? SK_FINDING_OK : (kind), (what), __VA_ARGS__)

// Whether others can read the traffic to a store. `peer` is the other end of the connection, and may be a unix socket.
struct sockaddr;
void sk_find_way(struct sk_findings *findings, const char *what, const struct sockaddr *peer, bool encrypted);
// The same for a connected socket.
void sk_find_way_of(struct sk_findings *findings, const char *what, int fd, bool encrypted);

// Compares a store's clock with ours. says_ms: the store's clock, Unix ms; asked_ms, answered_ms: ours before and
// after.
struct sk_clock_seen sk_clock_compare(int64_t says_ms, uint64_t asked_ms, uint64_t answered_ms);

// Adds the clock of one more node; one that is not known changes nothing. Starts zeroed.
void sk_clocks_note(struct sk_clocks_seen *clocks, const struct sk_clock_seen *seen);

// Which of them differs most from another clock; zeros stand for ours.
const struct sk_clock_seen *sk_clocks_farthest(const struct sk_clocks_seen *clocks, const struct sk_clock_seen *from);

#endif
