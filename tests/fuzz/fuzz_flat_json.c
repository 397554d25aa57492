// The parser for the usual form of an object, checked against jansson: whatever it reads, jansson must read the same.
#include <jansson.h>

#include "fuzz.h"
#include "jwt.h"

static void must_be_text(struct sk_flat_text text, const json_t *value)
{
    MUST(json_is_string(value) && json_string_length(value) == text.len);
    MUST(memcmp(json_string_value(value), text.at, text.len) == 0);
}

static void must_be_same(const struct sk_flat_member *member, const json_t *value)
{
    struct sk_flat_text list = member->text, text;
    size_t items = 0;
    switch (member->kind) {
    case SK_FLAT_TEXT:
        must_be_text(member->text, value);
        break;
    case SK_FLAT_NUMBER:
        MUST(json_is_integer(value) && json_integer_value(value) == member->number);
        break;
    case SK_FLAT_LIST:
        for (; sk_flat_json_next(&list, &text); items++)
            must_be_text(text, json_array_get(value, items));
        MUST(json_is_array(value) && json_array_size(value) == items);
        break;
    default:
        MUST(json_is_boolean(value) || json_is_null(value));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sk_flat_json flat;
    char *text = fuzz_bytes(data, size), name[64];
    if (sk_flat_json_read(text, size, &flat)) {
        json_t *document = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
        MUST(json_is_object(document) && json_object_size(document) == flat.count);
        for (size_t i = 0; i < flat.count; i++) {
            const struct sk_flat_member *member = &flat.members[i];
            must_be_same(member, json_object_getn(document, member->name.at, member->name.len));
            if (member->name.len < sizeof name) {
                memcpy(name, member->name.at, member->name.len);
                name[member->name.len] = '\0';
                MUST(sk_flat_json_find(&flat, name) == member);
            }
        }
        json_decref(document);
    }
    free(text);
    return 0;
}
