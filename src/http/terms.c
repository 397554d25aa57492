// Strict: every member must be there, once, and nothing else. jansson refuses duplicate members, trailing
// bytes, \u0000 and what nests too deep.
#include "terms.h"

#include <jansson.h>

#include "text.h"

enum { TITLE_MAX_BYTES = 200, STOCK_MAX = 100000000 };
static const int64_t price_max_cents = INT64_C(100000000000);

enum sk_verdict sk_terms_read(const char *body, size_t len, struct sk_terms *terms, struct json_t **document)
{
    json_t *title, *stock, *price, *begin_at, *end_at;
    json_t *json = body == NULL ? NULL : json_loadb(body, len, JSON_REJECT_DUPLICATES, NULL);
    *document = json;
    if (json == NULL || json_unpack(json, "{s:o,s:o,s:o,s:o,s:o!}", "title", &title, "stock", &stock, "price_cents",
                                    &price, "begin_at", &begin_at, "end_at", &end_at) != 0)
        return SK_VERDICT_BAD_JSON;
    if (!json_is_string(title) || !json_is_integer(stock) || !json_is_integer(price) || !json_is_string(begin_at) ||
        !json_is_string(end_at))
        return SK_VERDICT_INVALID;
    terms->title = json_string_value(title);
    terms->stock = json_integer_value(stock);
    terms->price_cents = json_integer_value(price);
    size_t title_len = json_string_length(title);
    if (title_len == 0 || title_len > TITLE_MAX_BYTES || terms->stock < 0 || terms->stock > STOCK_MAX ||
        terms->price_cents < 0 || terms->price_cents > price_max_cents ||
        !sk_text_time(json_string_value(begin_at), &terms->begin_ms) ||
        !sk_text_time(json_string_value(end_at), &terms->end_ms) || terms->begin_ms >= terms->end_ms)
        return SK_VERDICT_INVALID;
    return SK_VERDICT_FOUND;
}

void sk_terms_free(struct json_t *document)
{
    json_decref(document);
}
