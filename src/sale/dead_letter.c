// PostgreSQL keeps the letters, because a letter must outlive Redis's data as an order does.
#include "dead_letter.h"

#include <inttypes.h>
#include <stdio.h>

#include "log.h"

struct put {
    sk_dead_letter_cb *done;
    void *arg;
    int64_t voucher_id;
    char journal_id[SK_JOURNAL_ID_SIZE];
};

static void on_put(void *arg, const struct sk_rows *rows)
{
    struct put *put = arg;
    if (rows != NULL)
        sk_log(SK_ERROR, "journal entry set aside", "voucher=%" PRId64 " journal_id=%s", put->voucher_id,
               put->journal_id);
    put->done(put->arg, rows != NULL);
    free(put);
}

enum sk_status sk_dead_letter_put(const struct sk_core *core, const struct sk_dead_letter *letter,
                                  sk_dead_letter_cb *done, void *arg)
{
    char voucher_id[24];
    struct sk_buf hex = {0};
    struct put *put = malloc(sizeof *put);
    enum sk_status status = SK_NO_MEM;
    (void)snprintf(voucher_id, sizeof voucher_id, "%" PRId64, letter->voucher_id);
    sk_buf_puts(&hex, "\\x");
    for (size_t i = 0; i < letter->raw_len; i++)
        sk_buf_printf(&hex, "%02x", (unsigned char)letter->raw[i]);
    if (put == NULL || hex.failed)
        goto out;
    *put = (struct put){.done = done, .arg = arg, .voucher_id = letter->voucher_id};
    (void)snprintf(put->journal_id, sizeof put->journal_id, "%s", letter->journal_id);
    const char *params[] = {voucher_id, letter->journal_id, hex.data, letter->orders, letter->reason};
    status = sk_pg_call(core->pg, SK_STATEMENT_SET_ASIDE, 5, params, on_put, put);
out:
    if (status != SK_OK)
        free(put);
    sk_buf_free(&hex);
    return status;
}
