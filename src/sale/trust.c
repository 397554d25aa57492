// place_orders.lua has the same limits.
#include "trust.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "order.h"

enum { TRUSTED_DIGITS = 15, MOST_DIGITS = 20 };

bool sk_trust_number(const struct sk_reply *reply, int64_t most, int64_t *value)
{
    if (sk_reply_number(reply, value) && *value >= 0 && *value <= most)
        return true;
    *value = 0;
    return false;
}

// Skips 1 to `most` digits; NULL: there are none, or more.
static const char *trust_after_digits(const char *text, size_t most)
{
    size_t n = strspn(text, "0123456789");
    return n > 0 && n <= most ? text + n : NULL;
}

static bool trust_is_id(const char *text, size_t most_digits)
{
    const char *dash = trust_after_digits(text, most_digits);
    const char *end = dash != NULL && *dash == '-' ? trust_after_digits(dash + 1, most_digits) : NULL;
    return end != NULL && *end == '\0';
}

bool sk_trust_is_journal_id(const char *text)
{
    return trust_is_id(text, MOST_DIGITS);
}

bool sk_trust_is_version(const char *text)
{
    static const char label[] = "epoch-";
    if (strncmp(text, label, sizeof label - 1) != 0)
        return trust_is_id(text, TRUSTED_DIGITS);
    const char *end = trust_after_digits(text + sizeof label - 1, TRUSTED_DIGITS);
    return end != NULL && *end == '\0';
}

bool sk_trust_order(const struct sk_reply *reply, int64_t voucher_id, char id[SK_UUID_SIZE], unsigned *quantity)
{
    size_t len = 0;
    const char *text = sk_reply_text(reply, &len);
    *quantity = 1;
    if (text != NULL && len >= SK_UUID_CHARS && strlen(text) == len) {
        const char *more = text + SK_UUID_CHARS;
        memcpy(id, text, SK_UUID_CHARS);
        id[SK_UUID_CHARS] = '\0';
        if (sk_uuid_valid(id) && (*more == '\0' || *more == ' ')) {
            unsigned long units = *more == ' ' ? strtoul(more + 1, NULL, 10) : 1;
            *quantity = units >= 1 && units <= SK_QUANTITY_MAX ? (unsigned)units : 1;
            return true;
        }
    }
    if (text != NULL && len > 0)
        sk_log(SK_LOG_WARN, "a buyer's order id is none", "voucher=%" PRId64, voucher_id);
    id[0] = '\0';
    return false;
}

bool sk_trust_is_damage(const char *error)
{
    return strncmp(error, "WRONGTYPE", 9) == 0 || strstr(error, "exhausted the last possible ID") != NULL;
}
