// The signature of what the shop's payment side sends. X-Seckill-Timestamp has the Unix time in seconds, and
// X-Seckill-Signature, in hexadecimal digits,
//
//   HMAC-SHA256(secret, timestamp "." path "." body)
//
// The path is that of the target, as it was sent and without a query.
#ifndef SK_IDENTITY_SIGNATURE_H
#define SK_IDENTITY_SIGNATURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// By so much the two clocks may differ, and for so long a signature may be used again: what it signs must bear that.
enum { SK_SIGNATURE_TOLERANCE_S = 300 };

struct sk_signed {
    const char *timestamp, *signature; // the fields' values
    const char *path;
    const void *body; // of no length: may be NULL
    size_t body_len;
};

// Any thread. Whether it is signed with one of the secrets, a line each, and was at about `now_s`, in Unix seconds.
// False also if there is no memory to tell.
bool sk_signature_good(const char *secrets, const struct sk_signed *said, int64_t now_s);

#endif
