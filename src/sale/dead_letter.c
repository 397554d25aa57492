// Letters are in PostgreSQL because a letter, like an order, must outlive Redis's data.
#include "dead_letter.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "journal.h"
#include "log.h"
#include "params.h"

// Kept until PostgreSQL has answered.
struct dead_letter {
    const struct sk_sale *sale;
    sk_dead_letter_cb *done;
    void *arg;
    int64_t voucher_id;
    char journal_id[SK_JOURNAL_ID_SIZE];
};

// What a letter has besides its place in the journal.
struct dead_letter_content {
    const struct sk_buf *raw;
    const char *orders; // NULL: it cannot be read
    int32_t offer;
    const char *reason;
};

// PostgreSQL's hex format of a bytea. NULL: out of memory.
static char *dead_letter_hex(const char *bytes, size_t n)
{
    static const char digits[] = "0123456789abcdef";
    char *hex = malloc(2 * n + 3), *at = hex;
    if (hex == NULL)
        return NULL;
    *at++ = '\\';
    *at++ = 'x';
    for (size_t i = 0; i < n; i++) {
        *at++ = digits[(unsigned char)bytes[i] >> 4];
        *at++ = digits[(unsigned char)bytes[i] & 15];
    }
    *at = '\0';
    return hex;
}

static void dead_letter_on_put(void *arg, const struct sk_result *result)
{
    struct dead_letter *letter = arg;
    bool kept = result->rows != NULL;
    if (kept) {
        sk_metrics_add(letter->sale->metrics, SK_METRIC_DEAD_LETTERS, 1);
        sk_log(SK_LOG_ERROR, "journal entry set aside", "voucher=%" PRId64 " journal_id=%s", letter->voucher_id,
               letter->journal_id);
    }
    letter->done(letter->arg, kept);
    free(letter);
}

static enum sk_status dead_letter_put(const struct sk_sale *sale, const struct sk_voucher *voucher,
                                      const char *journal_id, const struct dead_letter_content *content,
                                      sk_dead_letter_cb *done, void *arg)
{
    char slot[SK_PARAM_NUMBER_SIZE], voucher_id[SK_PARAM_NUMBER_SIZE], offer[SK_PARAM_NUMBER_SIZE];
    enum sk_status status = SK_NO_MEM;
    char *hex = content->raw->failed ? NULL : dead_letter_hex(content->raw->data, content->raw->len);
    struct dead_letter *letter = malloc(sizeof *letter);
    if (letter != NULL && hex != NULL) {
        *letter = (struct dead_letter){.sale = sale, .done = done, .arg = arg, .voucher_id = voucher->id};
        (void)snprintf(letter->journal_id, sizeof letter->journal_id, "%s", journal_id);
        const char *params[] = {sk_params_number(slot, voucher->slot),
                                sk_params_number(voucher_id, voucher->id),
                                letter->journal_id,
                                hex,
                                content->orders,
                                content->reason,
                                sk_params_number(offer, content->offer)};
        status = sk_pg_call(sk_sale_shard(sale, voucher)->orders, SK_STATEMENT_SET_ASIDE, 7, params, dead_letter_on_put,
                            letter);
    }
    if (status != SK_OK)
        free(letter);
    free(hex);
    return status;
}

enum sk_status sk_dead_letter_put_order(const struct sk_sale *sale, const struct sk_voucher *voucher,
                                        const char *journal_id, const struct sk_journal_order *order,
                                        sk_dead_letter_cb *done, void *arg)
{
    struct sk_buf text = {0};
    char more[SK_JOURNAL_MORE_SIZE];
    sk_buf_printf(&text, "%s %s%s", order->id, order->user, sk_journal_more(order->quantity, order->key, more));
    const struct dead_letter_content content = {&text, text.data, order->offer, "PostgreSQL refuses it"};
    enum sk_status status = dead_letter_put(sale, voucher, journal_id, &content, done, arg);
    sk_buf_free(&text);
    return status;
}

enum sk_status sk_dead_letter_put_unreadable(const struct sk_sale *sale, const struct sk_voucher *voucher,
                                             const char *journal_id, const struct sk_reply *element,
                                             sk_dead_letter_cb *done, void *arg)
{
    struct sk_buf raw = {0};
    char reason[96] = "it cannot be read";
    size_t whole = sk_journal_raw(element, SK_DEAD_LETTER_RAW_MAX, &raw);
    if (whole > raw.len)
        (void)snprintf(reason, sizeof reason, "it cannot be read; the first %zu of %zu bytes are kept", raw.len, whole);
    const struct dead_letter_content content = {.raw = &raw, .reason = reason};
    enum sk_status status = dead_letter_put(sale, voucher, journal_id, &content, done, arg);
    sk_buf_free(&raw);
    return status;
}
