// base64url without padding (RFC 4648, 5), the encoding of tokens and keys in JSON Web formats. Any thread.
#ifndef SK_BASE_BASE64URL_H
#define SK_BASE_BASE64URL_H

#include <stdbool.h>
#include <stddef.h>

// The characters for a number of bytes, and the most bytes in a number of characters.
#define SK_BASE64URL_CHARS(bytes) (((bytes)*4 + 2) / 3)
#define SK_BASE64URL_BYTES(chars) ((chars)*3 / 4)

// False: a character other than A-Za-z0-9_-, an impossible length, bits at the end that belong to no byte, or more than
// `room` bytes. So each byte string has only one form.
bool sk_base64url_read(const char *text, size_t chars, unsigned char *out, size_t room, size_t *len);

// Returns the number of characters. `out` has room for SK_BASE64URL_CHARS(len); no NUL is written.
size_t sk_base64url_put(const unsigned char *bytes, size_t len, char *out);

#endif
