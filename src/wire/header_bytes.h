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
#ifndef SK_WIRE_HEADER_BYTES_H
#define SK_WIRE_HEADER_BYTES_H

#include <stdbool.h>
#include <stddef.h>

enum { SK_HTTP_VERSION_CHARS = 8 }; // "HTTP/1.1"

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

// A token of RFC 9110 5.6.2, as names of fields and methods are.
bool sk_header_bytes_is_token(const char *name, size_t n);

#endif
