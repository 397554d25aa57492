// A growing text buffer. Errors are sticky: append freely, then check `failed` once.
#ifndef SK_BASE_BUF_H
#define SK_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

struct sk_buf {
    char *data; // owned; NUL-terminated once anything was added
    size_t len;
    size_t room;
    bool failed; // out of memory: later additions are missing
};

// The owner's thread. *buf starts zeroed.
void sk_buf_add(struct sk_buf *buf, const void *data, size_t n);
void sk_buf_puts(struct sk_buf *buf, const char *text);
void sk_buf_printf(struct sk_buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sk_buf_clear(struct sk_buf *buf); // keeps the memory
void sk_buf_free(struct sk_buf *buf);  // back to zeroed

#endif
