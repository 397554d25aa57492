// Reading Redis's replies. hiredis parses them, and no other file includes it. A missing or wrongly typed element reads
// as NULL, false or 0 elements, so that a malformed reply cannot crash us; callers check what they read. Any thread.
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
bool sk_reply_is_list(const struct sk_reply *reply);
size_t sk_reply_count(const struct sk_reply *reply);
const struct sk_reply *sk_reply_at(const struct sk_reply *reply, size_t i);
const char *sk_reply_text(const struct sk_reply *reply, size_t *len); // len may be NULL
bool sk_reply_number(const struct sk_reply *reply, int64_t *value);   // an integer, or digits as text

void sk_reply_free(struct sk_reply *reply); // gives back one of sk_reader_next; NULL is fine

// ---- parsing ----

// Makes replies of the bytes of one connection. One thread at a time.
struct sk_reader;

struct sk_reader *sk_reader_open(void);         // NULL: out of memory
void sk_reader_close(struct sk_reader *reader); // NULL is fine
void sk_reader_feed(struct sk_reader *reader, const char *bytes, size_t n);
// The next whole reply, which the caller gives to sk_reply_free; NULL: it needs more bytes. False: the bytes make no
// sense, or memory is short, and nothing more can be read; *reply is NULL, and *why a text of the reader.
bool sk_reader_next(struct sk_reader *reader, struct sk_reply **reply, const char **why);

#endif
