// Reads a body that is a JSON object with known members, and lists everything that is wrong with it.
//
//   struct sk_fields read;
//   if (sk_fields_open(&read, body, len, members, MEMBERS, values)) {
//       ...check each value that is there; sk_fields_refuse() for one that is wrong...
//   }
//   enum sk_verdict verdict = sk_fields_end(&read);
//   ...OK: use the values; else answer with the verdict and read.errors...
//   sk_fields_free(&read);
//
// The loop's thread, as all functions.
#ifndef SK_API_FIELDS_H
#define SK_API_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "verdict.h"

struct sk_field {
    const char *name;
    const char *detail; // what its value must be
    bool optional;
};

struct sk_fields {
    enum sk_verdict verdict; // so far
    json_t *document;        // owned; the values point into it; NULL: not an object
    json_t *errors; // owned; a list of {"pointer": RFC 6901, "detail": text}; NULL after the end if it is empty
};

// The most problems that are listed; one more entry reports that there are others. Longer member names are cut.
enum { SK_FIELDS_ERRORS_MAX = 16, SK_FIELDS_NAME_MAX = 64 };

// True: the body is an object, and the caller can check the values of its members; NULL: not in the body. Members that
// are missing though required, unknown, or there twice are listed. In any case the caller ends and frees `read`.
bool sk_fields_open(struct sk_fields *read, const char *body, size_t len, const struct sk_field *fields, size_t count,
                    const json_t **values);

// Lists a member's value as wrong.
void sk_fields_refuse(struct sk_fields *read, const char *name, const char *detail);

// The result: BAD_JSON if the form is wrong, INVALID if only values are, OK; OVERLOADED: out of memory.
enum sk_verdict sk_fields_end(struct sk_fields *read);

void sk_fields_free(struct sk_fields *read);

// Read a value. False: it is missing, has another type, or is outside the bounds (inclusive).
bool sk_fields_integer(const json_t *value, int64_t least, int64_t most, int64_t *out);
bool sk_fields_text(const json_t *value, size_t least_bytes, size_t most_bytes, const char **out); // borrowed

#endif
