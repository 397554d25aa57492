// Strict: every member that is required must be there, once, and nothing that is not known. jansson refuses duplicate
// members, trailing bytes, \u0000 and what nests too deep; it stops at the first of these, everything else is listed.
//
// Nothing of a body that is not JSON is repeated to the client, only where it went wrong. Names of unknown members
// are: they are UTF-8 then, and jansson escapes them.
#include "terms.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "text.h"

#define TIME_DETAIL "must be a time of RFC 3339 from 1970 to 9999, such as 2030-01-31T20:00:00+08:00"

enum { TITLE_MAX_BYTES = 200, STOCK_MAX = 100000000, LIMIT_MAX = 1000, LIMIT_DEFAULT = 1 };
enum { PAY_WITHIN_MAX_S = 31536000, PAY_WITHIN_DEFAULT_S = 900 };
enum { POINTER_SIZE = 2 * SK_TERMS_NAME_MAX + 2, DETAIL_SIZE = 160 };
static const int64_t price_max_cents = INT64_C(100000000000);

static const char currency_default[] = "CNY";

enum member { TITLE, STOCK, PRICE, BEGIN_AT, END_AT, LIMIT, PAY_WITHIN, CURRENCY, MEMBERS };

static const struct {
    const char *name, *detail;
    bool optional;
} members[MEMBERS] = {
    [TITLE] = {"title", "must be a string of 1 to 200 bytes", false},
    [STOCK] = {"stock", "must be an integer from 0 to 100000000", false},
    [PRICE] = {"price_cents", "must be an integer from 0 to 100000000000", false},
    [BEGIN_AT] = {"begin_at", TIME_DETAIL, false},
    [END_AT] = {"end_at", TIME_DETAIL, false},
    [LIMIT] = {"limit", "must be an integer from 1 to 1000", true},
    [PAY_WITHIN] = {"pay_within_s", "must be an integer from 0 to 31536000", true},
    [CURRENCY] = {"currency", "must be three letters from A to Z", true},
};

static enum sk_verdict terms_read_all(const char *body, size_t len, struct sk_terms *terms, struct sk_terms_body *read);
static enum sk_verdict terms_refuse_text(const json_error_t *error, json_t *errors);
static const char *terms_reason_of(const json_error_t *error);
static bool terms_check_form(json_t *document, json_t *values[MEMBERS], json_t *errors);
static bool terms_is_known(const char *name);
static bool terms_check_values(json_t *const values[MEMBERS], struct sk_terms *terms, json_t *errors);
static bool terms_read_integer(const json_t *value, int64_t least, int64_t most, int64_t *out);
static bool terms_is_currency(const json_t *value);
static bool terms_read_time(const json_t *value, int64_t *out);
static void terms_add_member_error(json_t *errors, const char *name, const char *detail);
static void terms_add_error(json_t *errors, const char *pointer, const char *detail);
static bool terms_put_pointer(const char *name, char out[POINTER_SIZE]);

enum sk_verdict sk_terms_read(const char *body, size_t len, struct sk_terms *terms, struct sk_terms_body *read)
{
    *read = (struct sk_terms_body){.errors = json_array()};
    enum sk_verdict verdict = terms_read_all(body, len, terms, read);
    if (json_array_size(read->errors) == 0) {
        json_decref(read->errors);
        read->errors = NULL;
    }
    return verdict;
}

static enum sk_verdict terms_read_all(const char *body, size_t len, struct sk_terms *terms, struct sk_terms_body *read)
{
    json_error_t error;
    json_t *values[MEMBERS];
    if (len == 0) {
        terms_add_error(read->errors, "", "must be a JSON object, but there is no body");
        return SK_VERDICT_BAD_JSON;
    }
    read->document = json_loadb(body, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (read->document == NULL)
        return terms_refuse_text(&error, read->errors);
    if (!json_is_object(read->document)) {
        terms_add_error(read->errors, "", "must be a JSON object");
        return SK_VERDICT_BAD_JSON;
    }
    bool form = terms_check_form(read->document, values, read->errors),
         good = terms_check_values(values, terms, read->errors);
    return !form ? SK_VERDICT_BAD_JSON : good ? SK_VERDICT_FOUND : SK_VERDICT_INVALID;
}

void sk_terms_body_free(struct sk_terms_body *read)
{
    json_decref(read->document);
    json_decref(read->errors);
    *read = (struct sk_terms_body){0};
}

// ---- the form ----

static enum sk_verdict terms_refuse_text(const json_error_t *error, json_t *errors)
{
    char detail[DETAIL_SIZE];
    if (json_error_code(error) == json_error_out_of_memory)
        return SK_VERDICT_OVERLOADED;
    (void)snprintf(detail, sizeof detail, "cannot be read as JSON: %s (line %d, column %d)", terms_reason_of(error),
                   error->line, error->column);
    terms_add_error(errors, "", detail);
    return SK_VERDICT_BAD_JSON;
}

static const char *terms_reason_of(const json_error_t *error)
{
    switch (json_error_code(error)) {
    case json_error_stack_overflow:
        return "it nests too deep";
    case json_error_invalid_utf8:
        return "it is not UTF-8";
    case json_error_premature_end_of_input:
        return "it ends too early";
    case json_error_end_of_input_expected:
        return "there is more behind its end";
    case json_error_null_character:
    case json_error_null_byte_in_key:
        return "\\u0000 is not allowed";
    case json_error_duplicate_key:
        return "a member is there twice; what else is wrong is not listed";
    case json_error_numeric_overflow:
        return "a number is too large";
    default:
        return "the syntax is wrong";
    }
}

static bool terms_check_form(json_t *document, json_t *values[MEMBERS], json_t *errors)
{
    bool right = true;
    const char *name;
    json_t *value;
    for (int i = 0; i < MEMBERS; i++) {
        values[i] = json_object_get(document, members[i].name);
        if (values[i] == NULL && !members[i].optional) {
            terms_add_member_error(errors, members[i].name, "is required");
            right = false;
        }
    }
    json_object_foreach(document, name, value)
    {
        if (terms_is_known(name))
            continue;
        char pointer[POINTER_SIZE];
        bool whole = terms_put_pointer(name, pointer);
        terms_add_error(errors, pointer, whole ? "is not known here" : "is not known here; the name is longer");
        right = false;
    }
    return right;
}

static bool terms_is_known(const char *name)
{
    for (int i = 0; i < MEMBERS; i++) {
        if (strcmp(name, members[i].name) == 0)
            return true;
    }
    return false;
}

// ---- the values ----

// A required member that is missing has been listed before.
static bool terms_check_values(json_t *const values[MEMBERS], struct sk_terms *terms, json_t *errors)
{
    size_t title_len = json_string_length(values[TITLE]);
    terms->title = json_string_value(values[TITLE]);
    terms->currency = values[CURRENCY] == NULL ? currency_default : json_string_value(values[CURRENCY]);
    const bool good[MEMBERS] = {
        [TITLE] = title_len >= 1 && title_len <= TITLE_MAX_BYTES,
        [STOCK] = terms_read_integer(values[STOCK], 0, STOCK_MAX, &terms->stock),
        [PRICE] = terms_read_integer(values[PRICE], 0, price_max_cents, &terms->price_cents),
        [BEGIN_AT] = terms_read_time(values[BEGIN_AT], &terms->begin_ms),
        [END_AT] = terms_read_time(values[END_AT], &terms->end_ms),
        [LIMIT] = terms_read_integer(values[LIMIT], 1, LIMIT_MAX, &terms->user_limit),
        [PAY_WITHIN] = terms_read_integer(values[PAY_WITHIN], 0, PAY_WITHIN_MAX_S, &terms->pay_within_s),
        [CURRENCY] = terms_is_currency(values[CURRENCY]),
    };
    if (values[LIMIT] == NULL)
        terms->user_limit = LIMIT_DEFAULT;
    if (values[PAY_WITHIN] == NULL)
        terms->pay_within_s = PAY_WITHIN_DEFAULT_S;
    bool all = true;
    for (int i = 0; i < MEMBERS; i++) {
        all = all && (good[i] || (members[i].optional && values[i] == NULL));
        if (values[i] != NULL && !good[i])
            terms_add_member_error(errors, members[i].name, members[i].detail);
    }
    if (good[BEGIN_AT] && good[END_AT] && terms->begin_ms >= terms->end_ms) {
        terms_add_member_error(errors, members[END_AT].name, "must be later than begin_at");
        return false;
    }
    return all;
}

static bool terms_read_integer(const json_t *value, int64_t least, int64_t most, int64_t *out)
{
    *out = json_integer_value(value);
    return json_is_integer(value) && *out >= least && *out <= most;
}

static bool terms_is_currency(const json_t *value)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    const char *text = json_string_value(value);
    return text != NULL && json_string_length(value) == 3 && strspn(text, letters) == 3;
}

static bool terms_read_time(const json_t *value, int64_t *out)
{
    return json_is_string(value) && sk_text_time(json_string_value(value), out);
}

// ---- the list of what is wrong ----

static void terms_add_member_error(json_t *errors, const char *name, const char *detail)
{
    char pointer[POINTER_SIZE];
    (void)terms_put_pointer(name, pointer);
    terms_add_error(errors, pointer, detail);
}

static void terms_add_error(json_t *errors, const char *pointer, const char *detail)
{
    size_t count = json_array_size(errors);
    if (count == SK_TERMS_ERRORS_MAX)
        (void)json_array_append_new(errors, json_pack("{s:s,s:s}", "pointer", "", "detail", "has more problems"));
    else if (count < SK_TERMS_ERRORS_MAX)
        (void)json_array_append_new(errors, json_pack("{s:s,s:s}", "pointer", pointer, "detail", detail));
}

// The pointer to a member; false if its name is too long and was cut, between two characters.
static bool terms_put_pointer(const char *name, char out[POINTER_SIZE])
{
    size_t n = strlen(name), len = n > SK_TERMS_NAME_MAX ? SK_TERMS_NAME_MAX : n;
    while (len < n && ((unsigned char)name[len] & 0xc0) == 0x80)
        len--;
    *out++ = '/';
    for (size_t i = 0; i < len; i++) {
        bool escape = name[i] == '~' || name[i] == '/';
        if (escape)
            *out++ = '~';
        *out++ = (char)(!escape ? name[i] : name[i] == '~' ? '0' : '1');
    }
    *out = '\0';
    return len == n;
}
