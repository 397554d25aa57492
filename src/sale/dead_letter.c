// Letters are in PostgreSQL because a letter, like an order, must outlive Redis's data.
#include "dead_letter.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "journal.h"
#include "log.h"
#include "params.h"

struct dead_letter_put {
    unsigned shard;
    const struct sk_sale *sale;
    sk_dead_letter_cb *done;
    void *arg;
    uint16_t slot;
    int32_t offer;
    int64_t voucher_id;
    char journal_id[SK_JOURNAL_ID_SIZE];
};

static struct dead_letter_put dead_letter_of(const struct sk_voucher *voucher, const char *journal_id,
                                             sk_dead_letter_cb *done, void *arg);
static enum sk_status dead_letter_put(const struct sk_sale *sale, const struct dead_letter_put *letter,
                                      const struct sk_buf *raw, const char *orders, const char *reason);
static char *dead_letter_hex(const char *bytes, size_t n);
static void dead_letter_on_put(void *arg, const struct sk_result *result);

enum sk_status sk_dead_letter_put_order(const struct sk_sale *sale, const struct sk_voucher *voucher,
                                        const char *journal_id, const struct sk_journal_order *order,
                                        sk_dead_letter_cb *done, void *arg)
{
    struct dead_letter_put letter = dead_letter_of(voucher, journal_id, done, arg);
    struct sk_buf orders = {0};
    letter.offer = order->offer;
    char more[SK_JOURNAL_MORE_SIZE];
    sk_buf_printf(&orders, "%s %s%s", order->id, order->user, sk_journal_more(order->quantity, order->key, more));
    enum sk_status status = dead_letter_put(sale, &letter, &orders, orders.data, "PostgreSQL refuses it");
    sk_buf_free(&orders);
    return status;
}

enum sk_status sk_dead_letter_put_unreadable(const struct sk_sale *sale, const struct sk_voucher *voucher,
                                             const char *journal_id, const struct sk_reply *element,
                                             sk_dead_letter_cb *done, void *arg)
{
    struct dead_letter_put letter = dead_letter_of(voucher, journal_id, done, arg);
    struct sk_buf raw = {0};
    char reason[96] = "it cannot be read";
    size_t whole = sk_journal_raw(element, SK_DEAD_LETTER_RAW_MAX, &raw);
    if (whole > raw.len)
        (void)snprintf(reason, sizeof reason, "it cannot be read; the first %zu of %zu bytes are kept", raw.len, whole);
    enum sk_status status = dead_letter_put(sale, &letter, &raw, NULL, reason);
    sk_buf_free(&raw);
    return status;
}

static struct dead_letter_put dead_letter_of(const struct sk_voucher *voucher, const char *journal_id,
                                             sk_dead_letter_cb *done, void *arg)
{
    struct dead_letter_put letter = {
        .done = done, .arg = arg, .slot = voucher->slot, .shard = voucher->shard, .voucher_id = voucher->id};
    (void)snprintf(letter.journal_id, sizeof letter.journal_id, "%s", journal_id);
    return letter;
}

// `orders` NULL: it cannot be read.
static enum sk_status dead_letter_put(const struct sk_sale *sale, const struct dead_letter_put *letter,
                                      const struct sk_buf *raw, const char *orders, const char *reason)
{
    char slot[SK_PARAM_NUMBER_SIZE], voucher_id[SK_PARAM_NUMBER_SIZE], offer[SK_PARAM_NUMBER_SIZE];
    enum sk_status status = SK_NO_MEM;
    char *hex = raw->failed ? NULL : dead_letter_hex(raw->data, raw->len);
    struct dead_letter_put *put = malloc(sizeof *put);
    if (put != NULL && hex != NULL) {
        *put = *letter;
        put->sale = sale;
        const char *params[] = {sk_params_number(slot, letter->slot),
                                sk_params_number(voucher_id, letter->voucher_id),
                                letter->journal_id,
                                hex,
                                orders,
                                reason,
                                sk_params_number(offer, letter->offer)};
        status =
            sk_pg_call(sale->shards[letter->shard].orders, SK_STATEMENT_SET_ASIDE, 7, params, dead_letter_on_put, put);
    }
    if (status != SK_OK)
        free(put);
    free(hex);
    return status;
}

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
    const struct sk_rows *rows = result->rows;
    struct dead_letter_put *put = arg;
    if (rows != NULL) {
        sk_metrics_add(put->sale->metrics, SK_METRIC_DEAD_LETTERS, 1);
        sk_log(SK_LOG_ERROR, "journal entry set aside", "voucher=%" PRId64 " journal_id=%s", put->voucher_id,
               put->journal_id);
    }
    put->done(put->arg, rows != NULL);
    free(put);
}
