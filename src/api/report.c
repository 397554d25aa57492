// A sum that is wrong stays wrong whatever is still to come, so it is told even while the account is open.
#include "report.h"

#include <stdlib.h>
#include <string.h>

#include "voucher.h"

enum { COLUMN_STATE, COLUMN_REFUSED, COLUMN_PRICES, COLUMN_NUMBERS };

static bool report_read_refused(const char *text, struct sk_report *report);
static bool report_read_prices(const char *text, struct sk_report *report);
static const char *report_read_number(const char *text, char end, int64_t *number);
static void report_judge_redis(const struct sk_report *report, struct sk_judgement *judgement);

// ---- reading ----

bool sk_report_read(const struct sk_rows *rows, struct sk_report *report)
{
    const char *state = sk_rows_text(rows, 0, COLUMN_STATE), *refused = sk_rows_text(rows, 0, COLUMN_REFUSED);
    const char *prices = sk_rows_text(rows, 0, COLUMN_PRICES);
    int column = COLUMN_NUMBERS;
    if (state == NULL || strlen(state) >= sizeof report->state)
        return false;
    memcpy(report->state, state, strlen(state) + 1);
#define REPORT_READ(name) report->name = sk_rows_number(rows, 0, column++);
    SK_REPORT_NUMBERS(REPORT_READ)
#undef REPORT_READ
    return (refused == NULL || report_read_refused(refused, report)) &&
           (prices == NULL || report_read_prices(prices, report));
}

// 'REASON orders units,...'; reasons past the bound are counted in refused_orders alone.
static bool report_read_refused(const char *text, struct sk_report *report)
{
    for (report->reasons = 0; *text != '\0' && report->reasons < SK_REPORT_REASONS_MAX; report->reasons++) {
        size_t len = strcspn(text, " ");
        char *reason = report->refused[report->reasons].reason;
        if (text[len] != ' ' || len >= SK_REPORT_WORD_SIZE)
            return false;
        memcpy(reason, text, len);
        reason[len] = '\0';
        text = report_read_number(text + len + 1, ' ', &report->refused[report->reasons].orders);
        if (text != NULL)
            text = report_read_number(text, ',', &report->refused[report->reasons].units);
        if (text == NULL)
            return false;
    }
    return true;
}

// 'CURRENCY cents orders units paid_orders paid_units,...'
static bool report_read_prices(const char *text, struct sk_report *report)
{
    for (report->price_count = 0; *text != '\0' && report->price_count < SK_REPORT_PRICES_MAX; report->price_count++) {
        size_t of_currency = strcspn(text, " ");
        char *price = report->prices[report->price_count].price;
        int64_t numbers[5];
        if (text[of_currency] != ' ')
            return false;
        size_t len = of_currency + 1 + strcspn(text + of_currency + 1, " ");
        if (len >= SK_REPORT_WORD_SIZE)
            return false;
        memcpy(price, text, len);
        price[len] = '\0';
        text += of_currency + 1;
        for (int i = 0; text != NULL && i < 5; i++)
            text = report_read_number(text, i < 4 ? ' ' : ',', &numbers[i]);
        if (text == NULL)
            return false;
        report->prices[report->price_count].cents = numbers[0];
        report->prices[report->price_count].orders = numbers[1];
        report->prices[report->price_count].units = numbers[2];
        report->prices[report->price_count].paid_orders = numbers[3];
        report->prices[report->price_count].paid_units = numbers[4];
    }
    return true;
}

// Returns what follows the number and `end`, or the text's end. NULL: it is none.
static const char *report_read_number(const char *text, char end, int64_t *number)
{
    char *after;
    *number = strtoll(text, &after, 10);
    if (after == text || (*after != end && *after != '\0'))
        return NULL;
    return *after == '\0' ? after : after + 1;
}

// ---- judging ----

void sk_report_judge(const struct sk_report *report, struct sk_judgement *judgement)
{
    *judgement = (struct sk_judgement){.verdict = SK_REPORT_BALANCED};
    int64_t *missing = judgement->missing;
    enum sk_voucher_state state = sk_voucher_state_of(report->state);
    bool may_sell = state == SK_VOUCHER_OPEN || state == SK_VOUCHER_PAUSED;
    if (may_sell && report->at_ms < report->end_ms)
        missing[SK_REPORT_SALE_ON] = (report->end_ms - report->at_ms + 999) / 1000;
    if (report->pay_within_s > 0)
        missing[SK_REPORT_UNPAID] = report->unpaid_orders;
    missing[SK_REPORT_DEAD_LETTERS] = report->letters;

    judgement->sums[SK_REPORT_SUM_UNITS].is =
        report->unpaid_units + report->paid_units + report->stock + report->kept_units;
    judgement->sums[SK_REPORT_SUM_UNITS].should_be = report->units;
    judgement->sums[SK_REPORT_SUM_LIVE].is = report->live_counted;
    judgement->sums[SK_REPORT_SUM_LIVE].should_be = report->unpaid_orders + report->paid_orders;
    judgement->sums[SK_REPORT_SUM_DUPLICATES].is = report->duplicates;
    report_judge_redis(report, judgement);

    for (int i = 0; i < SK_REPORT_MISSING_COUNT; i++) {
        if (missing[i] != 0)
            judgement->verdict = SK_REPORT_OPEN;
    }
    for (int i = 0; i < SK_REPORT_SUM_COUNT; i++) {
        if (judgement->sums[i].is != judgement->sums[i].should_be)
            judgement->verdict = SK_REPORT_WRONG;
    }
}

// Numbers of another moment prove nothing.
static void report_judge_redis(const struct sk_report *report, struct sk_judgement *judgement)
{
    int64_t buyers = report->account_buyers;
    switch (report->books) {
    case SK_REPORT_COMPARED:
        judgement->sums[SK_REPORT_SUM_STOCK].is = report->redis_stock;
        judgement->sums[SK_REPORT_SUM_STOCK].should_be = report->account_stock;
        judgement->sums[SK_REPORT_SUM_BUYERS].is = report->redis_buyers;
        judgement->sums[SK_REPORT_SUM_BUYERS].should_be = buyers;
        break;
    case SK_REPORT_MOVING:
        judgement->missing[SK_REPORT_JOURNAL] = report->redis_journal;
        judgement->missing[SK_REPORT_PENDING] = report->redis_buyers > buyers ? report->redis_buyers - buyers : 0;
        judgement->missing[SK_REPORT_REDIS] = 1;
        break;
    case SK_REPORT_UNSURE:
    case SK_REPORT_LOADING:
    case SK_REPORT_MISSING:
    case SK_REPORT_UNKNOWN:
        judgement->missing[SK_REPORT_JOURNAL] = report->redis_journal;
        judgement->missing[SK_REPORT_REDIS] = 1;
        break;
    case SK_REPORT_RETIRED:
        break;
    }
}
