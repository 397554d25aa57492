#include "settlement.h"

#include <stddef.h>
#include <string.h>

static const char *const settlement_words[] = {
    [SK_SETTLEMENT_PLACED] = "placed",     [SK_SETTLEMENT_ALREADY_PLACED] = "already_placed",
    [SK_SETTLEMENT_ENDED] = "ended",       [SK_SETTLEMENT_DUPLICATE] = "duplicate",
    [SK_SETTLEMENT_REPEATED] = "repeated", [SK_SETTLEMENT_REUSED] = "reused",
    [SK_SETTLEMENT_GONE] = "gone",         [SK_SETTLEMENT_SOLD_OUT] = "sold_out",
    [SK_SETTLEMENT_STALE] = "stale",       [SK_SETTLEMENT_CLASH] = "clash",
};

enum sk_settlement sk_settlement_read(const struct sk_rows *rows, size_t row, size_t *n,
                                      struct sk_settlement_more *more)
{
    const char *word = sk_rows_text(rows, row, 1);
    enum sk_settlement settlement = SK_SETTLEMENT_PLACED;
    *n = sk_rows_text(rows, row, 0) == NULL ? SK_SETTLEMENT_OF_ALL : (size_t)sk_rows_number(rows, row, 0) - 1;
    if (more != NULL)
        *more = (struct sk_settlement_more){sk_rows_text(rows, row, 2),   sk_rows_text(rows, row, 3),
                                            sk_rows_number(rows, row, 4), sk_rows_text(rows, row, 5),
                                            sk_rows_text(rows, row, 7),   (unsigned)sk_rows_number(rows, row, 8),
                                            sk_rows_number(rows, row, 9)};
    while (settlement < SK_SETTLEMENT_CLASH && (word == NULL || strcmp(word, settlement_words[settlement]) != 0))
        settlement++;
    return settlement;
}
