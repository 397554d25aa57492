#include "call.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "client_limits.h"
#include "jwt.h"
#include "text.h"
#include "verdict.h"

enum { WAIT_MAX_S = 60 };

// Undoes the quotes and escapes of a string of structured fields. NULL: it is none, or too long.
static const char *call_unquote(const char *text, char room[SK_REQUEST_KEY_SIZE])
{
    size_t len = 0;
    for (text++; *text != '"'; text++) {
        if (*text == '\\' && *++text != '"' && *text != '\\')
            return NULL;
        if (*text == '\0' || len == SK_REQUEST_KEY_SIZE - 1)
            return NULL;
        room[len++] = *text;
    }
    room[len] = '\0';
    return text[1] == '\0' ? room : NULL;
}

bool sk_call_read_key(const struct sk_context *context, struct sk_request *request, char room[SK_REQUEST_KEY_SIZE],
                      const char **key)
{
    unsigned count = 0;
    *key = NULL;
    if (SK_REQUEST_MAY_HAVE(request, "idempotency-key"))
        *key = sk_request_header(request, "idempotency-key", &count);
    if (count == 0)
        return true;
    if (count == 1 && **key == '"')
        *key = call_unquote(*key, room);
    size_t len = *key == NULL ? 0 : strlen(*key);
    bool good = count == 1 && len >= 1 && len < SK_REQUEST_KEY_SIZE && sk_text_within(*key, '!', '~');
    if (!good)
        sk_answer_refusal(context->answers, request, SK_VERDICT_BAD_IDEMPOTENCY_KEY);
    return good;
}

bool sk_call_read_wait(const struct sk_context *context, struct sk_request *request)
{
    const char *text = sk_request_query(request, "wait", NULL);
    uint64_t seconds = 0;
    if (text != NULL && !sk_text_number(text, WAIT_MAX_S, &seconds))
        return sk_answer_parameter(context->answers, request, "wait", "must be an integer from 0 to 60");
    sk_call_of(request)->wait_s = (unsigned)seconds;
    return true;
}

static bool call_is_encoded(const char *coding)
{
    return coding[0] != '\0' && strcasecmp(coding, "identity") != 0;
}

enum sk_verdict sk_call_body_type(const struct sk_request *request)
{
    if (!sk_request_is_json(request))
        return SK_VERDICT_UNSUPPORTED_MEDIA_TYPE;
    bool encoded = SK_REQUEST_MAY_HAVE(request, "content-encoding") &&
                   sk_request_header_any(request, "content-encoding", call_is_encoded);
    return encoded ? SK_VERDICT_UNSUPPORTED_ENCODING : SK_VERDICT_OK;
}

bool sk_call_body_good(const struct sk_context *context, struct sk_request *request, enum sk_verdict verdict,
                       const struct sk_fields *read)
{
    if (verdict == SK_VERDICT_OK)
        return true;
    if (read->errors != NULL)
        sk_answer_errors(context->answers, request, verdict, read->errors);
    else
        sk_answer_refusal(context->answers, request, verdict);
    return false;
}

// Comes before any store is asked, so a refusal is cheap. It closes the connection, so refused clients hold no slot
// either.
bool sk_call_hold(const struct sk_context *context, struct sk_request *request)
{
    static const struct {
        enum sk_metric refused;
        const char *limit;
    } reasons[] = {
        [SK_LONG_MAY] = {SK_METRIC_LONG_OF_SHARE, "SECKILL_LONG_SHARE"}, // there is no place
        [SK_LONG_OF_USER] = {SK_METRIC_LONG_OF_USER, "SECKILL_LONG_PER_USER"},
        [SK_LONG_OF_ADDRESS] = {SK_METRIC_LONG_OF_ADDRESS, "SECKILL_LONG_PER_ADDRESS"},
    };
    bool place = sk_request_hold(request);
    enum sk_long held = SK_LONG_MAY;
    if (place && context->options->limits != NULL && !context->options->operators)
        held = sk_limits_hold(context->options->limits, request, sk_call_of(request)->user);
    if (place && held == SK_LONG_MAY)
        return true;
    sk_metrics_add(context->options->metrics, reasons[held].refused, 1);
    request->last = true;
    sk_answer_send(context->answers, request,
                   &(struct sk_answer){.verdict = SK_VERDICT_OVERLOADED, .limit = reasons[held].limit});
    return false;
}

// ---- bodies ----
//
// Strict: every required member must be present, once, and no unknown one. jansson rejects duplicate members, trailing
// bytes, \u0000 and too deep nesting. It stops at the first of these; all other errors are listed.
//
// No part of a body that is not JSON is sent back to the client, only the position of the error. Names of unknown
// members are sent: they are UTF-8 then, and jansson escapes them.

enum { POINTER_SIZE = 2 * SK_FIELDS_NAME_MAX + 2, DETAIL_SIZE = 160 };

static void fields_add_error(json_t *errors, const char *pointer, const char *detail)
{
    size_t count = json_array_size(errors);
    if (count == SK_FIELDS_ERRORS_MAX)
        (void)json_array_append_new(errors, json_pack("{s:s,s:s}", "pointer", "", "detail", "has more problems"));
    else if (count < SK_FIELDS_ERRORS_MAX)
        (void)json_array_append_new(errors, json_pack("{s:s,s:s}", "pointer", pointer, "detail", detail));
}

// Writes the pointer to a member. False: its name was too long, and was cut between two characters.
static bool fields_put_pointer(const char *name, char out[POINTER_SIZE])
{
    size_t n = strlen(name), len = n > SK_FIELDS_NAME_MAX ? SK_FIELDS_NAME_MAX : n;
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

static void fields_refuse_form(struct sk_fields *read, const char *pointer, const char *detail)
{
    fields_add_error(read->errors, pointer, detail);
    read->verdict = SK_VERDICT_BAD_JSON;
}

void sk_fields_refuse(struct sk_fields *read, const char *name, const char *detail)
{
    char pointer[POINTER_SIZE];
    (void)fields_put_pointer(name, pointer);
    fields_add_error(read->errors, pointer, detail);
    if (read->verdict == SK_VERDICT_OK)
        read->verdict = SK_VERDICT_INVALID;
}

void sk_fields_check(struct sk_fields *read, const struct sk_field *field, const json_t *value, bool good)
{
    if (value != NULL && !good)
        sk_fields_refuse(read, field->name, field->detail);
}

static bool fields_is_known(const struct sk_field *fields, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(name, fields[i].name) == 0)
            return true;
    }
    return false;
}

static void fields_take(struct sk_fields *read, const struct sk_field *fields, size_t count, const json_t **values)
{
    const char *name;
    json_t *value;
    char pointer[POINTER_SIZE];
    for (size_t i = 0; i < count; i++) {
        values[i] = json_object_get(read->document, fields[i].name);
        if (values[i] == NULL && !fields[i].optional) {
            (void)fields_put_pointer(fields[i].name, pointer);
            fields_refuse_form(read, pointer, "is required");
        }
    }
    json_object_foreach(read->document, name, value)
    {
        if (fields_is_known(fields, count, name))
            continue;
        bool whole = fields_put_pointer(name, pointer);
        fields_refuse_form(read, pointer, whole ? "is not known here" : "is not known here; the name is longer");
    }
}

static const char *fields_reason_of(const json_error_t *error)
{
    static const char *const reasons[] = {
        [json_error_stack_overflow] = "it nests too deep",
        [json_error_invalid_utf8] = "it is not UTF-8",
        [json_error_premature_end_of_input] = "it ends too early",
        [json_error_end_of_input_expected] = "there is more behind its end",
        [json_error_null_character] = "\\u0000 is not allowed",
        [json_error_null_byte_in_key] = "\\u0000 is not allowed",
        [json_error_duplicate_key] = "a member is there twice; what else is wrong is not listed",
        [json_error_numeric_overflow] = "a number is too large",
    };
    size_t code = (size_t)json_error_code(error);
    bool known = code < sizeof reasons / sizeof reasons[0] && reasons[code] != NULL;
    return known ? reasons[code] : "the syntax is wrong";
}

bool sk_fields_open(struct sk_fields *read, const char *body, size_t len, const struct sk_field *fields, size_t count,
                    const json_t **values)
{
    json_error_t error;
    *read = (struct sk_fields){.verdict = SK_VERDICT_OK, .errors = json_array()};
    if (len == 0) {
        fields_refuse_form(read, "", "must be a JSON object, but there is no body");
        return false;
    }
    sk_json_memory_begin();
    read->document = json_loadb(body, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (sk_json_memory_failed()) {
        read->verdict = SK_VERDICT_OVERLOADED;
        return false;
    }
    if (json_is_object(read->document)) {
        fields_take(read, fields, count, values);
        return true;
    }
    char detail[DETAIL_SIZE] = "must be a JSON object";
    if (read->document == NULL)
        (void)snprintf(detail, sizeof detail, "cannot be read as JSON: %s (line %d, column %d)",
                       fields_reason_of(&error), error.line, error.column);
    fields_refuse_form(read, "", detail);
    json_decref(read->document);
    read->document = NULL;
    return false;
}

enum sk_verdict sk_fields_end(struct sk_fields *read)
{
    if (json_array_size(read->errors) == 0) {
        json_decref(read->errors);
        read->errors = NULL;
    }
    return read->verdict;
}

void sk_fields_free(struct sk_fields *read)
{
    json_decref(read->document);
    json_decref(read->errors);
    *read = (struct sk_fields){0};
}

bool sk_fields_integer(const json_t *value, int64_t least, int64_t most, int64_t *out)
{
    *out = json_integer_value(value);
    return json_is_integer(value) && *out >= least && *out <= most;
}

bool sk_fields_text(const json_t *value, size_t least_bytes, size_t most_bytes, const char **out)
{
    size_t len = json_string_length(value);
    *out = json_string_value(value);
    return *out != NULL && len >= least_bytes && len <= most_bytes;
}
