// What a check of the settings has found: a line each, "ok|warn|fail what: why", in the order of finding.
#ifndef SK_STORE_FINDINGS_H
#define SK_STORE_FINDINGS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum sk_finding {
    SK_FINDING_OK,
    SK_FINDING_WARN, // a promise holds, but less than it could; or something is not as it should be
    SK_FINDING_FAIL, // a promise does not hold, or the service cannot work
    SK_FINDING_KINDS
};

struct sk_findings {
    FILE *out; // borrowed
    size_t counts[SK_FINDING_KINDS];
};

// The clock of a store, against ours.
struct sk_clock_seen {
    bool known;
    int64_t ahead_ms;
    uint64_t within_ms; // the question took so long: half of it either way
};

// `format` gives what it is, and after a "; " what follows from that, which a line that says ok leaves out. Bytes that
// are not printable ASCII become blanks, so that what a server says stays one line.
void sk_find(struct sk_findings *findings, enum sk_finding kind, const char *what, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

// As sk_find: OK if `good`, else `kind`.
#define SK_FIND_UNLESS(findings, good, kind, what, ...) \
    sk_find((findings), (good) ? SK_FINDING_OK : (kind), (what), __VA_ARGS__)

// Whether others can read what goes to a store: at the other end of the connection is `peer`, which may be a unix
// socket.
struct sockaddr;
void sk_find_way(struct sk_findings *findings, const char *what, const struct sockaddr *peer, bool encrypted);
// The same of a connected socket.
void sk_find_way_of(struct sk_findings *findings, const char *what, int fd, bool encrypted);

// What a store has said its clock shows, Unix ms; asked and answered by ours.
struct sk_clock_seen sk_clock_compare(int64_t says_ms, uint64_t asked_ms, uint64_t answered_ms);

#endif
