// Strict: every member must be there, once, with its type, and nothing else. jansson refuses duplicate
// members, trailing bytes, \u0000 and what nests too deep.
#include "terms.h"

#include <jansson.h>
#include <string.h>

#include "text.h"

enum { TITLE_MAX_BYTES = 200, STOCK_MAX = 100000000 };
static const int64_t price_max_cents = INT64_C(100000000000);

enum sk_verdict sk_terms_read(const char *body, size_t len, struct sk_terms *terms, struct json_t **document)
{
    const char *begin_at, *end_at;
    json_int_t stock, price;
    json_t *json = body == NULL ? NULL : json_loadb(body, len, JSON_REJECT_DUPLICATES, NULL);
    *document = json;
    if (json == NULL || json_unpack(json, "{s:s,s:I,s:I,s:s,s:s!}", "title", &terms->title, "stock", &stock,
                                    "price_cents", &price, "begin_at", &begin_at, "end_at", &end_at) != 0)
        return SK_VERDICT_BAD_JSON;
    size_t title_len = strlen(terms->title);
    if (title_len == 0 || title_len > TITLE_MAX_BYTES || stock < 0 || stock > STOCK_MAX || price < 0 ||
        price > price_max_cents || !sk_text_time(begin_at, &terms->begin_ms) || !sk_text_time(end_at, &terms->end_ms) ||
        terms->begin_ms >= terms->end_ms)
        return SK_VERDICT_INVALID;
    terms->stock = stock;
    terms->price_cents = price;
    return SK_VERDICT_FOUND;
}

void sk_terms_free(struct json_t *document)
{
    json_decref(document);
}
