// base64url without padding (RFC 4648, 5): what tokens and keys of JSON Web formats are written in. Any thread.
#ifndef SK_BASE_BASE64URL_H
#define SK_BASE_BASE64URL_H

#include <stdbool.h>
#include <stddef.h>

// Characters of so many bytes, and the most bytes of so many characters.
#define SK_BASE64URL_CHARS(bytes) (((bytes)*4 + 2) / 3)
#define SK_BASE64URL_BYTES(chars) ((chars)*3 / 4)

// False: another character than A-Za-z0-9_-, a length that no text has, bits at the end that belong to no byte, or more
// than `room` bytes. So each text of bytes has one form only.
bool sk_base64url_read(const char *text, size_t chars, unsigned char *out, size_t room, size_t *len);

// Gives the number of characters; `out` has room for SK_BASE64URL_CHARS(len), and no NUL is written.
size_t sk_base64url_put(const unsigned char *bytes, size_t len, char *out);

#endif
