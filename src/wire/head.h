// The head of a request while it is read: its method, its target, whether its bytes are allowed, and the framing of its
// body.
#ifndef SK_WIRE_HEAD_H
#define SK_WIRE_HEAD_H

#include <stdbool.h>
#include <stddef.h>

#include "header_bytes.h"
#include "request.h"

struct sk_head {
    struct sk_header_bytes bytes;
    struct sk_request *request; // borrowed
    const char *target;         // for comparison only
    unsigned hosts, hosts_least, lengths, encodings;
    uint64_t length; // of the body; 0: none, or not known in advance
    size_t used;     // bytes of libmicrohttpd's memory
    char *expect;    // the first field of this name; NULL: not sent
    bool chunked, bad;
    bool has_query, query_bad; // as in request.h
};

// The loop's thread. Call them in the order of struct sk_header_bytes: the target when its line was read, then the
// names and values of its query and its path, when libmicrohttpd wants their escapes undone. The rest follows once the
// whole head is read. The texts are borrowed.
// Returns the bytes of memory that libmicrohttpd needs for the target and, next, for the parameters of its query.
size_t sk_head_target(struct sk_head *head, const char *target);
// Undoes the escapes of a name or a value, not of the path: "/seckill/1%00x" is not "/seckill/1". Returns the length.
size_t sk_head_unescape(struct sk_head *head, char *text);
// From here on the request gets what the head tells of it.
void sk_head_begin(struct sk_head *head, struct sk_request *request, const char *method, const char *target,
                   const char *version);
// Cuts off the blanks and tabs at the end of the value, in libmicrohttpd's memory: they are no part of it (RFC 9112 5).
// In Content-Length and Transfer-Encoding they are rejected: libmicrohttpd has read these before, blanks included.
void sk_head_field(struct sk_head *head, const char *name, size_t name_len, char *value, size_t value_len);
// Counts the records that libmicrohttpd keeps, one for each field, cookie and parameter of the query, and what else it
// takes.
void sk_head_use(struct sk_head *head, size_t records, size_t bytes);
// Whether to go on reading the request. `len`: of the whole head. Empties Expect where no body follows.
bool sk_head_good(const struct sk_head *head, size_t len);

#endif
