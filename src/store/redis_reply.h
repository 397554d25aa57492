// Reading Redis's replies. A missing or wrongly typed element reads as NULL, false or 0 elements, so that a
// malformed reply cannot crash us; callers check what they read. Any thread.
#ifndef SK_STORE_REDIS_REPLY_H
#define SK_STORE_REDIS_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sk_reply;

const char *sk_reply_error(const struct sk_reply *reply); // NULL: not an error
// Logs an error that means that the login lacks a right. Callers cannot distinguish it from others, and an operator
// must know. NULL is fine.
void sk_reply_log_denial(const struct sk_reply *reply);
size_t sk_reply_count(const struct sk_reply *reply);
const struct sk_reply *sk_reply_at(const struct sk_reply *reply, size_t i);
const char *sk_reply_text(const struct sk_reply *reply, size_t *len); // len may be NULL
bool sk_reply_number(const struct sk_reply *reply, int64_t *value);   // an integer, or digits as text

// ---- INFO ----
//
// Reads from Redis's INFO which process answers.

enum { SK_RUN_SIZE = 48 };

struct sk_redis_info {
    // "<protocol version>-<run id>", a new one for each start of Redis. A voucher that was opened under another one may
    // be lost, or of another release.
    char run[SK_RUN_SIZE];
    bool replica;
};

// Any thread, as both. Copies the value of a line, truncated to `size`. False, and "": there is no such line.
bool sk_redis_info_value(const char *info, const char *name, char *out, size_t size);

// False if run_id or role is missing. `info` is NUL-terminated.
bool sk_redis_info_read(const char *info, struct sk_redis_info *out);

#endif
