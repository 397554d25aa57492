// The head of a request while it is read: its method, whether its bytes are allowed, and what frames its body.
#ifndef SK_HTTP_HEAD_H
#define SK_HTTP_HEAD_H

#include "header_bytes.h"
#include "request.h"

struct sk_head {
    struct sk_header_bytes bytes;
    enum sk_method method;
    unsigned hosts, lengths, encodings;
    uint64_t length; // of the body; 0: none, or not known before
    bool chunked, expects, bad;
};

// The loop's thread. In the order of header_bytes.h: the target when its line was read, and the rest once the head is
// there. The texts are borrowed.
void sk_head_target(struct sk_head *head, const char *target);
void sk_head_begin(struct sk_head *head, const char *method, const char *target, const char *version);
void sk_head_field(struct sk_head *head, const char *name, size_t name_len, const char *value, size_t value_len);
// Whether the request may be read on. `len`: of the whole head.
bool sk_head_good(const struct sk_head *head, size_t len);

#endif
