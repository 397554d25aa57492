// The header field `traceparent` of W3C Trace Context (levels 1 and 2, which both write version 00): the trace that a
// request belongs to.
//
// Any thread.
#ifndef SK_WIRE_TRACEPARENT_H
#define SK_WIRE_TRACEPARENT_H

#include <stdbool.h>
#include <stdint.h>

enum { SK_TRACE_ID_CHARS = 32, SK_TRACE_ID_SIZE = SK_TRACE_ID_CHARS + 1 };
enum { SK_SPAN_ID_CHARS = 16, SK_SPAN_ID_SIZE = SK_SPAN_ID_CHARS + 1 };
enum { SK_TRACEPARENT_SIZE = 56 };

enum { SK_TRACE_SAMPLED = 1, SK_TRACE_RANDOM = 2 };

struct sk_traceparent {
    char trace_id[SK_TRACE_ID_SIZE]; // lower-case hexadecimal digits, not all of them 0
    char span_id[SK_SPAN_ID_SIZE];   // the same: of the client where it was read, of this request where it is sent
    uint8_t flags;                   // the two above; all others are dropped
};

// Whether the text is valid: version 00 in exactly its form, or a later version that begins with that form. Of a later
// version only the sampled flag counts, as the specification requires. Blanks and tabs around the text are ignored, as
// in any field.
bool sk_traceparent_read(const char *text, struct sk_traceparent *read);

// Makes a new trace from three random words, and a new span from one.
void sk_traceparent_make(struct sk_traceparent *made, const uint64_t random[3]);
void sk_traceparent_new_span(struct sk_traceparent *parent, uint64_t random);

// Writes version 00.
void sk_traceparent_put(const struct sk_traceparent *parent, char out[SK_TRACEPARENT_SIZE]);

#endif
