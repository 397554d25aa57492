// Reads and writes the few forms of text that clients and stores send: strict, without allocation, and without the
// locale. Any thread.
#ifndef SK_BASE_TEXT_H
#define SK_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SK_USER_MAX = 64, SK_USER_SIZE = SK_USER_MAX + 1 };

// The name of an admin's token, or of another source of admin calls.
enum { SK_ADMIN_NAME_MAX = 64, SK_ADMIN_NAME_SIZE = SK_ADMIN_NAME_MAX + 1 };

// A decimal number that is the whole text: no sign, no leading zero, at most `most`.
bool sk_text_number(const char *text, uint64_t most, uint64_t *value);

// A voucher id: 1 to 2^63-1.
bool sk_text_voucher_id(const char *text, int64_t *id);

// A user id: 1 to 64 of [A-Za-z0-9_.-].
bool sk_text_user(const char *text);

// Whether each character is from `first` to `last`, as of the visible ones of ASCII, '!' to '~'.
bool sk_text_within(const char *text, char first, char last);

// UTF-8 as PostgreSQL accepts it: no overlong form, no surrogate, nothing above U+10FFFF.
bool sk_text_utf8(const char *text);

// An address that a page may hold as it is: http or https, in visible ASCII without quotes, backslashes or angles, at
// most SK_URL_MAX bytes.
enum { SK_URL_MAX = 1024 };
bool sk_text_url(const char *text);

// The end of the year 9999, the last that RFC 3339 can write, in Unix ms.
#define SK_TIME_MAX_MS INT64_C(253402300799999)

// Converts an RFC 3339 time stamp, with any offset, to Unix ms. Drops fractions beyond ms; rejects leap seconds.
bool sk_text_time(const char *text, int64_t *unix_ms);

// Writes Unix ms as RFC 3339 in UTC with ms: 24 characters and NUL.
enum { SK_TIME_SIZE = 25 };
void sk_text_put_time(int64_t unix_ms, char out[SK_TIME_SIZE]);

// Writes a decimal number and NUL; returns its length.
enum { SK_NUMBER_SIZE = 21 };
size_t sk_text_put_number(uint64_t value, char out[SK_NUMBER_SIZE]);

// *copy is the caller's; NULL is copied as NULL. False: out of memory.
bool sk_text_copy(char **copy, const char *text);

// ---- escapes ----

// Of a URL (RFC 3986 2.1).

// -1: not a hexadecimal digit.
int sk_hex_digit(char c);

// Undoes the escapes of a text in place; *len is the new length. False: an escape is truncated or invalid, or stands
// for a NUL or another control byte; the text is unchanged.
bool sk_url_unescape(char *text, size_t *len);

#endif
