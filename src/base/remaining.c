#include "remaining.h"

#include <string.h>

void sk_remaining_note(struct sk_remaining_rows *rows, int64_t voucher_id, int64_t units)
{
    size_t at = 0;
    while (at < rows->count && rows->rows[at].voucher_id > voucher_id)
        at++;
    if (at < rows->count && rows->rows[at].voucher_id == voucher_id) {
        rows->rows[at].units += units;
        return;
    }
    if (at == SK_REMAINING_MAX)
        return;
    if (rows->count < SK_REMAINING_MAX)
        rows->count++;
    memmove(&rows->rows[at + 1], &rows->rows[at], (rows->count - at - 1) * sizeof rows->rows[0]);
    rows->rows[at] = (struct sk_remaining_row){voucher_id, units};
}

void sk_remaining_publish(struct sk_remaining *remaining, const struct sk_remaining_rows *rows)
{
    if (pthread_mutex_trylock(&remaining->lock) != 0)
        return;
    remaining->kept.count = rows->count;
    memcpy(remaining->kept.rows, rows->rows, rows->count * sizeof rows->rows[0]);
    (void)pthread_mutex_unlock(&remaining->lock);
}

void sk_remaining_read(struct sk_remaining *remaining, struct sk_remaining_rows *out)
{
    (void)pthread_mutex_lock(&remaining->lock);
    for (size_t i = 0; i < remaining->kept.count; i++)
        sk_remaining_note(out, remaining->kept.rows[i].voucher_id, remaining->kept.rows[i].units);
    (void)pthread_mutex_unlock(&remaining->lock);
}
