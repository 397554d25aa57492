// The head of a request while it is read: its method, whether its bytes are allowed, and what frames its body.
#ifndef SK_WIRE_HEAD_H
#define SK_WIRE_HEAD_H

#include "header_bytes.h"
#include "request.h"

struct sk_head {
    struct sk_header_bytes bytes;
    enum sk_method method;
    const char *target; // only to be compared
    unsigned hosts, lengths, encodings;
    uint64_t length; // of the body; 0: none, or not known before
    bool chunked, expects, bad;
    bool query_bad; // the query has an escape that is none, or stands for a control byte
    bool is_head;
    const char *traceparent; // as request.h has it, as the next one
    uint64_t names;
};

// The loop's thread. In the order of header_bytes.h: the target when its line was read, then the names and values of
// its query and its path, as libmicrohttpd wants their escapes undone, and the rest once the head is there. The texts
// are borrowed.
void sk_head_target(struct sk_head *head, const char *target);
// Undoes them in a name or a value, not in the path: "/seckill/1%00x" is not "/seckill/1". Gives the length.
size_t sk_head_unescape(struct sk_head *head, char *text);
void sk_head_begin(struct sk_head *head, const char *method, const char *target, const char *version);
void sk_head_field(struct sk_head *head, const char *name, size_t name_len, const char *value, size_t value_len);
// Whether the request may be read on. `len`: of the whole head.
bool sk_head_good(const struct sk_head *head, size_t len);

#endif
