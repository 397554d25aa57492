// The body of POST /admin/vouchers. What is found acceptable must be within bounds, and be found the same after
// it has been written anew.
#include <jansson.h>

#include "fuzz.h"
#include "terms.h"

static void must_be_within_bounds(const struct sk_terms *terms)
{
    size_t title_len = strlen(terms->title); // to the first NUL, of which there must be none
    json_t *title = json_stringn(terms->title, title_len);
    MUST(title != NULL); // it is UTF-8
    json_decref(title);
    MUST(title_len >= 1 && title_len <= 200);
    MUST(terms->stock >= 0 && terms->stock <= 100000000);
    MUST(terms->price_cents >= 0 && terms->price_cents <= INT64_C(100000000000));
    MUST(terms->begin_ms >= 0 && terms->begin_ms < terms->end_ms);
}

static void must_mean_the_same(const struct sk_terms *terms, const struct json_t *document)
{
    struct sk_terms again;
    struct json_t *second = NULL;
    char *body = json_dumps(document, JSON_COMPACT | JSON_ENSURE_ASCII);
    MUST(body != NULL);
    MUST(sk_terms_read(body, strlen(body), &again, &second) == SK_VERDICT_FOUND);
    MUST(strcmp(again.title, terms->title) == 0);
    MUST(again.stock == terms->stock && again.price_cents == terms->price_cents);
    MUST(again.begin_ms == terms->begin_ms && again.end_ms == terms->end_ms);
    sk_terms_free(second);
    free(body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sk_terms terms = {0};
    struct json_t *document = NULL;
    char *body = fuzz_bytes(data, size);
    enum sk_verdict verdict = sk_terms_read(body, size, &terms, &document);
    MUST(verdict == SK_VERDICT_FOUND || verdict == SK_VERDICT_BAD_JSON || verdict == SK_VERDICT_INVALID);
    if (verdict == SK_VERDICT_FOUND) {
        must_be_within_bounds(&terms);
        must_mean_the_same(&terms, document);
    }
    sk_terms_free(document);
    free(body);
    return 0;
}
