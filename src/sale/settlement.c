#include "settlement.h"

#include <string.h>

static const char *const settlement_words[] = {
    [SK_SETTLEMENT_PLACED] = "placed",     [SK_SETTLEMENT_ALREADY_PLACED] = "already_placed",
    [SK_SETTLEMENT_ENDED] = "ended",       [SK_SETTLEMENT_DUPLICATE] = "duplicate",
    [SK_SETTLEMENT_SOLD_OUT] = "sold_out", [SK_SETTLEMENT_STALE] = "stale",
    [SK_SETTLEMENT_CLASH] = "clash",
};

static enum sk_settlement settlement_of(const char *word)
{
    enum sk_settlement settlement = SK_SETTLEMENT_PLACED;
    while (settlement < SK_SETTLEMENT_CLASH && (word == NULL || strcmp(word, settlement_words[settlement]) != 0))
        settlement++;
    return settlement;
}

bool sk_settlement_of_all(const struct sk_rows *rows, enum sk_settlement *settlement)
{
    if (sk_rows_count(rows) != 1 || sk_rows_text(rows, 0, 0) != NULL)
        return false;
    *settlement = settlement_of(sk_rows_text(rows, 0, 1));
    return true;
}

enum sk_settlement sk_settlement_read(const struct sk_rows *rows, size_t row, size_t *n, const char **live_id)
{
    *n = (size_t)sk_rows_number(rows, row, 0) - 1;
    if (live_id != NULL)
        *live_id = sk_rows_text(rows, row, 2);
    return settlement_of(sk_rows_text(rows, row, 1));
}
