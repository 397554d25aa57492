// Version 00 is of fixed width, and later versions may only append to it.
#include "traceparent.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
enum { AT_TRACE = 3, AT_SPAN = 36, AT_FLAGS = 53, CHARS = 55, VERSION_NONE = 0xff };

static const char digits[] = "0123456789abcdef";

// Lower case only. *nonzero: a digit is not 0.
static bool traceparent_read_hex(const char *text, size_t n, bool *nonzero)
{
    *nonzero = false;
    for (size_t i = 0; i < n; i++) {
        if (!((text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f')))
            return false;
        *nonzero = *nonzero || text[i] != '0';
    }
    return true;
}

bool sk_traceparent_read(const char *text, struct sk_traceparent *read)
{
    bool any, trace_set, span_set;
    text += strspn(text, " \t");
    size_t len = strlen(text);
    while (len > 0 && (text[len - 1] == ' ' || text[len - 1] == '\t'))
        len--;
    if (len < CHARS || !traceparent_read_hex(text, 2, &any) || text[AT_TRACE - 1] != '-' ||
        !traceparent_read_hex(text + AT_TRACE, SK_TRACE_ID_CHARS, &trace_set) || text[AT_SPAN - 1] != '-' ||
        !traceparent_read_hex(text + AT_SPAN, SK_SPAN_ID_CHARS, &span_set) || text[AT_FLAGS - 1] != '-' ||
        !traceparent_read_hex(text + AT_FLAGS, 2, &any) || !trace_set || !span_set)
        return false;
    unsigned long version = strtoul(text, NULL, 16), flags = strtoul(text + AT_FLAGS, NULL, 16);
    if (version == VERSION_NONE || (len > CHARS && (version == 0 || text[CHARS] != '-')))
        return false;
    memcpy(read->trace_id, text + AT_TRACE, SK_TRACE_ID_CHARS);
    memcpy(read->span_id, text + AT_SPAN, SK_SPAN_ID_CHARS);
    read->trace_id[SK_TRACE_ID_CHARS] = read->span_id[SK_SPAN_ID_CHARS] = '\0';
    read->flags = (uint8_t)(flags & (version == 0 ? SK_TRACE_SAMPLED | SK_TRACE_RANDOM : SK_TRACE_SAMPLED));
    return true;
}

static void traceparent_put_hex(char *out, uint64_t word)
{
    for (int i = SK_SPAN_ID_CHARS - 1; i >= 0; i--) {
        out[i] = digits[word & 0xf];
        word >>= 4;
    }
}

void sk_traceparent_make(struct sk_traceparent *made, const uint64_t random[3])
{
    traceparent_put_hex(made->trace_id, random[0]);
    traceparent_put_hex(made->trace_id + SK_SPAN_ID_CHARS, random[1] == 0 ? 1 : random[1]);
    made->trace_id[SK_TRACE_ID_CHARS] = '\0';
    made->flags = SK_TRACE_RANDOM;
    sk_traceparent_new_span(made, random[2]);
}

void sk_traceparent_new_span(struct sk_traceparent *parent, uint64_t random)
{
    traceparent_put_hex(parent->span_id, random == 0 ? 1 : random);
    parent->span_id[SK_SPAN_ID_CHARS] = '\0';
}

void sk_traceparent_put(const struct sk_traceparent *parent, char out[SK_TRACEPARENT_SIZE])
{
    memcpy(out, "00-", AT_TRACE);
    memcpy(out + AT_TRACE, parent->trace_id, SK_TRACE_ID_CHARS);
    out[AT_SPAN - 1] = '-';
    memcpy(out + AT_SPAN, parent->span_id, SK_SPAN_ID_CHARS);
    out[AT_FLAGS - 1] = '-';
    out[AT_FLAGS] = digits[parent->flags >> 4];
    out[AT_FLAGS + 1] = digits[parent->flags & 0xf];
    out[CHARS] = '\0';
}
