// Grows by doubling. The buffer records a failed allocation, so callers need not check every append.
#include "buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool buf_reserve(struct sk_buf *buf, size_t n)
{
    size_t want = buf->len + n + 1;
    if (buf->failed)
        return false;
    if (want <= buf->room)
        return true;
    size_t room = buf->room == 0 ? 256 : buf->room;
    while (room < want)
        room *= 2;
    char *data = realloc(buf->data, room);
    if (data == NULL) {
        buf->failed = true;
        return false;
    }
    buf->data = data;
    buf->room = room;
    return true;
}

void sk_buf_add(struct sk_buf *buf, const void *data, size_t n)
{
    if (!buf_reserve(buf, n))
        return;
    if (n > 0)
        memcpy(buf->data + buf->len, data, n);
    buf->len += n;
    buf->data[buf->len] = '\0';
}

void sk_buf_puts(struct sk_buf *buf, const char *text)
{
    sk_buf_add(buf, text, strlen(text));
}

void sk_buf_printf(struct sk_buf *buf, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n < 0 || !buf_reserve(buf, (size_t)n)) {
        buf->failed = true;
        return;
    }
    va_start(args, format);
    (void)vsnprintf(buf->data + buf->len, (size_t)n + 1, format, args);
    va_end(args);
    buf->len += (size_t)n;
}

void sk_buf_clear(struct sk_buf *buf)
{
    buf->len = 0;
    buf->failed = false;
    if (buf->data != NULL)
        buf->data[0] = '\0';
}

void sk_buf_free(struct sk_buf *buf)
{
    free(buf->data);
    *buf = (struct sk_buf){0};
}
