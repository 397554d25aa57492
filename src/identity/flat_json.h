// The usual form of a small JSON object, read without an allocation: members of plain text, whole numbers and lists of
// texts, one level deep. What is not of that form may still be JSON; jansson tells. What is of it, jansson would read
// the same way, which tests/fuzz/fuzz_flat_json.c holds against it.
#ifndef SK_IDENTITY_FLAT_JSON_H
#define SK_IDENTITY_FLAT_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SK_FLAT_MEMBERS_MAX = 16 };

enum sk_flat_kind { SK_FLAT_TEXT, SK_FLAT_NUMBER, SK_FLAT_LIST, SK_FLAT_OTHER }; // the last: true, false, null

struct sk_flat_text {
    const char *at;
    size_t len;
};

struct sk_flat_member {
    struct sk_flat_text name;
    enum sk_flat_kind kind;
    struct sk_flat_text text; // of a list: what stands between its brackets
    int64_t number;           // 0 to 10^15 - 1
};

struct sk_flat_json {
    size_t count;
    struct sk_flat_member members[SK_FLAT_MEMBERS_MAX];
};

// Any thread, as all functions. Texts are printable ASCII without escapes, at most 16 members have names that differ.
// False: it is of another form. What is read points into the text.
bool sk_flat_json_read(const char *text, size_t len, struct sk_flat_json *out);

const struct sk_flat_member *sk_flat_json_find(const struct sk_flat_json *json, const char *name); // NULL: not there

// Takes the next text off what was read as a list; false: there is none.
bool sk_flat_json_next(struct sk_flat_text *list, struct sk_flat_text *out);

bool sk_flat_text_is(struct sk_flat_text text, const char *what);

#endif
