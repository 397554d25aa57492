// Reads a body that is a JSON object with members that are known beforehand, and lists all that is wrong with it.
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
    json_t *document;        // owned; what the values point into; NULL: not an object
    json_t *errors; // owned; a list of {"pointer": RFC 6901, "detail": text}; after the end NULL if it is empty
};

// At most so many problems are listed, then one entry that says so. Names of members are shown up to this length.
enum { SK_FIELDS_ERRORS_MAX = 16, SK_FIELDS_NAME_MAX = 64 };

// True: it is an object, and the values of its members can be checked, NULL for those that are not there. One that is
// required and missing, or not known, or there twice, is listed. In any case the caller ends and frees it.
bool sk_fields_open(struct sk_fields *read, const char *body, size_t len, const struct sk_field *fields, size_t count,
                    const json_t **values);

// Lists a member's value as wrong.
void sk_fields_refuse(struct sk_fields *read, const char *name, const char *detail);

// What it came to: BAD_JSON if the form is wrong, INVALID if only values are, OK; OVERLOADED: out of memory.
enum sk_verdict sk_fields_end(struct sk_fields *read);

void sk_fields_free(struct sk_fields *read);

// Values; false where it has another type, or is not there, or is out of the bounds, which belong to the range.
bool sk_fields_integer(const json_t *value, int64_t least, int64_t most, int64_t *out);
bool sk_fields_text(const json_t *value, size_t least_bytes, size_t most_bytes, const char **out); // borrowed

#endif
