// The body of POST /admin/vouchers. Accepted terms must be within bounds, and be the same after they are written and
// read again. A rejection must list its reasons as JSON, with RFC 6901 pointers; a pointer to an unknown member must
// lead to it.
#include <jansson.h>

#include "fuzz.h"
#include "terms.h"

static const struct sk_terms_rules rules = {.tickets = true};

static void must_be_within_bounds(const struct sk_terms *terms)
{
    size_t title_len = strlen(terms->title); // to the first NUL; it must contain none
    json_t *title = json_stringn(terms->title, title_len);
    MUST(title != NULL); // it is UTF-8
    json_decref(title);
    MUST(title_len >= 1 && title_len <= 200);
    MUST(terms->description == NULL || strlen(terms->description) <= 1000);
    MUST(terms->picture == NULL || terms->picture[0] == '\0'); // no origin is listed
    MUST(terms->stock >= 0 && terms->stock <= 100000000);
    MUST(terms->price_cents >= 0 && terms->price_cents <= INT64_C(100000000000));
    MUST(terms->begin_ms >= 0 && terms->begin_ms < terms->end_ms);
    MUST(terms->ticket == 0 || terms->ticket == 1);
    MUST(terms->work_bits >= 0 && terms->work_bits <= 24);
}

static void must_mean_the_same(const struct sk_terms *terms, const struct json_t *document)
{
    struct sk_terms again;
    struct sk_fields second;
    char *body = json_dumps(document, JSON_COMPACT | JSON_ENSURE_ASCII);
    MUST(body != NULL);
    MUST(sk_terms_read(body, strlen(body), &rules, &again, &second) == SK_VERDICT_OK);
    MUST(strcmp(again.title, terms->title) == 0);
    MUST(again.stock == terms->stock && again.price_cents == terms->price_cents);
    MUST(again.begin_ms == terms->begin_ms && again.end_ms == terms->end_ms);
    MUST(again.ticket == terms->ticket && again.work_bits == terms->work_bits);
    sk_fields_free(&second);
    free(body);
}

// The name in a pointer to a member of the document; the caller frees it.
static char *name_in(const char *pointer)
{
    char *name = strdup(pointer + 1), *to = name;
    MUST(name != NULL && pointer[0] == '/');
    for (const char *at = pointer + 1; *at != '\0'; at++) {
        MUST(*at != '/'); // members of members are not reported
        MUST(*at != '~' || at[1] == '0' || at[1] == '1');
        if (*at == '~')
            *to++ = *++at == '0' ? '~' : '/';
        else
            *to++ = *at;
    }
    *to = '\0';
    return name;
}

static void must_be_an_error(const json_t *error, const json_t *document)
{
    const char *pointer, *detail;
    json_t *copy = json_deep_copy(error);
    MUST(json_unpack(copy, "{s:s,s:s!}", "pointer", &pointer, "detail", &detail) == 0);
    MUST(detail[0] != '\0' && strlen(detail) < 160);
    if (pointer[0] != '\0') {
        char *name = name_in(pointer);
        MUST(strlen(name) <= SK_FIELDS_NAME_MAX);
        bool cut = strstr(detail, "the name is longer") != NULL, missing = strcmp(detail, "is required") == 0;
        MUST(cut || (json_object_get(document, name) == NULL) == missing);
        free(name);
    }
    json_decref(copy);
}

static void must_be_told(const struct sk_fields *read)
{
    char *text = json_dumps(read->errors, JSON_COMPACT);
    MUST(text != NULL);
    json_t *errors = json_loads(text, JSON_REJECT_DUPLICATES, NULL), *error;
    size_t i;
    MUST(json_array_size(errors) >= 1 && json_array_size(errors) <= SK_FIELDS_ERRORS_MAX + 1);
    json_array_foreach(errors, i, error)
    {
        must_be_an_error(error, read->document);
    }
    json_decref(errors);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sk_terms terms = {0};
    struct sk_fields read;
    char *body = fuzz_bytes(data, size);
    enum sk_verdict verdict = sk_terms_read(body, size, &rules, &terms, &read);
    MUST(verdict == SK_VERDICT_OK || verdict == SK_VERDICT_BAD_JSON || verdict == SK_VERDICT_INVALID);
    MUST((read.errors == NULL) == (verdict == SK_VERDICT_OK));
    if (verdict == SK_VERDICT_OK) {
        must_be_within_bounds(&terms);
        must_mean_the_same(&terms, read.document);
    } else {
        must_be_told(&read);
    }
    sk_fields_free(&read);
    free(body);
    return 0;
}
