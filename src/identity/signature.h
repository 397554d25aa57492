// The signature of a request from the shop's payment side. X-Seckill-Timestamp has the Unix time in seconds.
// X-Seckill-Signature has, in hexadecimal digits,
//
//   HMAC-SHA256(secret, timestamp "." path "." body)
//
// The path is that of the target, as sent and without the query.
#ifndef SK_IDENTITY_SIGNATURE_H
#define SK_IDENTITY_SIGNATURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The allowed clock skew, and how long a signature may be used again: the signed calls must tolerate that.
enum { SK_SIGNATURE_TOLERANCE_S = 300 };

struct sk_signed {
    const char *timestamp, *signature; // the fields' values
    const char *path;
    const void *body; // may be NULL if body_len is 0
    size_t body_len;
};

// Any thread, as both. Whether a timestamp, of Unix seconds, is within the tolerance.
bool sk_signature_is_of_now(const char *timestamp, int64_t now_s);

// Whether the text is signed with one of the secrets, one a line, at about `now_s`, in Unix seconds. False also if out
// of memory.
bool sk_signature_good(const char *secrets, const struct sk_signed *message, int64_t now_s);

#endif
