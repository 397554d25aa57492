// The head of a request while it is read: its method, its target, whether its bytes are allowed, and the framing of its
// body.
#ifndef SK_WIRE_HEAD_H
#define SK_WIRE_HEAD_H

#include <stdbool.h>
#include <stddef.h>

#include "request.h"

// ---- header bytes ----

// Checks that the head of a request has only bytes that HTTP allows (RFC 9110 5.5, RFC 9112 2.2 and 5.2). It reads them
// in libmicrohttpd's memory, since libmicrohttpd hands over C strings only: in these "al\0ice" is "al".
//
// This depends on how version 0.9.75 parses (src/microhttpd/connection.c: get_next_header_line,
// parse_initial_message_line, process_header_line, process_broken_line):
// - the lines stay where they were received, one after the other, from the method on; each CR LF is overwritten with
//   two NULs, a bare LF with one, and a bare CR is an ordinary byte;
// - a NUL overwrites the blank after the method, the one before the version, and the colon after a name; the value
//   begins after the blanks and tabs that follow the colon, and nothing is removed from its end;
// - a continued line (obs-fold) stays between its value and the next line, and its name may move elsewhere;
// - a line that begins with a NUL counts as the empty line that ends the head;
// - the target may hold blanks, and Host may be missing. MHD_OPTION_STRICT_FOR_CLIENT would have the library reject
//   both: the first without an answer, the second with two heads.
//
// So without a forbidden byte each value ends two bytes before the next name, or before the empty line. Any other
// layout makes the request malformed. That includes a bare LF at the end of a line, which could hide a NUL further up.
// NUL LF leaves the same memory as CR LF, and so counts as CR LF.
//
// tests/unit/test_header_bytes.c checks that the library still behaves so.

// Any thread. One check for each head: the target, begin, then each field in the order of the head, then end.
struct sk_header_bytes {
    const char *begin, *target_end;
    const char *next; // where the next line must begin
    bool bad;
};

// Call it once the request line is read, before its query is split.
void sk_header_bytes_target(struct sk_header_bytes *check, const char *target);
// Call the rest once the whole head is read.
void sk_header_bytes_begin(struct sk_header_bytes *check, const char *method, const char *target, const char *version);
void sk_header_bytes_field(struct sk_header_bytes *check, const char *name, size_t name_len, const char *value,
                           size_t value_len);
// Whether the head is good. `head_len`: from the method to the end of the empty line.
bool sk_header_bytes_end(const struct sk_header_bytes *check, size_t head_len);

// ---- a request's head ----

struct sk_head {
    struct sk_header_bytes bytes;
    enum sk_method method;
    const char *target; // for comparison only
    unsigned hosts, hosts_least, lengths, encodings;
    uint64_t length; // of the body; 0: none, or not known in advance
    size_t used;     // bytes of libmicrohttpd's memory
    char *expect;    // the first field of this name; NULL: not sent
    bool chunked, bad;
    bool has_query, query_bad; // as in request.h
    bool is_head;
    const char *traceparent; // as in request.h, as is the next one
    uint64_t names;
};

// The loop's thread. Call them in the order of struct sk_header_bytes: the target when its line was read, then the
// names and values of its query and its path, when libmicrohttpd wants their escapes undone. The rest follows once the
// whole head is read. The texts are borrowed.
// Returns the bytes of memory that libmicrohttpd needs for the target and, next, for the parameters of its query.
size_t sk_head_target(struct sk_head *head, const char *target);
// Undoes the escapes of a name or a value, not of the path: "/seckill/1%00x" is not "/seckill/1". Returns the length.
size_t sk_head_unescape(struct sk_head *head, char *text);
void sk_head_begin(struct sk_head *head, const char *method, const char *target, const char *version);
// Cuts off the blanks and tabs at the end of the value, in libmicrohttpd's memory: they are no part of it (RFC 9112 5).
// In Content-Length and Transfer-Encoding they are rejected: libmicrohttpd has read these before, blanks included.
void sk_head_field(struct sk_head *head, const char *name, size_t name_len, char *value, size_t value_len);
// Counts the records that libmicrohttpd keeps, one for each field, cookie and parameter of the query, and what else it
// takes.
void sk_head_use(struct sk_head *head, size_t records, size_t bytes);
// Whether to go on reading the request. `len`: of the whole head. Empties Expect where no body follows.
bool sk_head_good(const struct sk_head *head, size_t len);

// ---- the target ----
//
// In the forms that a server must know (RFC 9112 3.2).
//
// Any thread, as all below.

// The path of a target, borrowed from it: "/path" of "http://host/path", "/" of "http://host", and all of a
// target in another form. NULL: it begins as an http or https URL but is not valid.
const char *sk_target_path(const char *target);

// Appends the text, escaped: only letters, digits and -._~ stay as they are.
void sk_url_put(struct sk_buf *out, const char *text);

#endif
