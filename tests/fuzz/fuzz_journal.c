// The text of a journal entry, and the order of journal ids. A readable entry, written again, must give the original
// text; otherwise the journal would change whose order it is.
//
// With SK_FUZZ_PLANT it is built with a bug that `run --self-test` must find.
#include "journal.h"
#include "order.h"

#include "fuzz.h"
#include "text.h"
#include "uuid.h"

static void write_down(void *arg, const struct sk_journal_order *order)
{
    const char *id = order->id, *user = order->user;
    char more[SK_JOURNAL_MORE_SIZE];
    struct sk_buf *seen = arg;
    MUST(sk_uuid_valid(id));
    MUST(sk_text_user(user));
#ifdef SK_FUZZ_PLANT
    MUST(user[0] != 'b' || user[1] == 'o');
#endif
    MUST(order->quantity >= 1 && order->quantity <= SK_QUANTITY_MAX);
    sk_buf_printf(seen, "%s%s %s%s", seen->len == 0 ? "" : ",", id, user,
                  sk_journal_more(order->quantity, order->key, more));
}

static void must_read_as_written(const char *orders, size_t len)
{
    struct sk_buf seen = {0};
    int count = sk_journal_parse(orders, len, NULL, NULL);
    MUST(count == -1 || count > 0);
    MUST(sk_journal_parse(orders, len, write_down, &seen) == count);
    if (count > 0)
        MUST(!seen.failed && seen.len == len && memcmp(seen.data, orders, len) == 0);
    sk_buf_free(&seen);
}

static int sign(int n)
{
    return (n > 0) - (n < 0);
}

static void must_be_an_order(const char *a, const char *b)
{
    MUST(sk_journal_compare(a, a) == 0);
    MUST(sk_journal_compare(b, b) == 0);
    MUST(sign(sk_journal_compare(a, b)) == -sign(sk_journal_compare(b, a)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *orders = fuzz_bytes(data, size);
    must_read_as_written(orders, size);
    free(orders);

    const uint8_t *comma = size == 0 ? NULL : memchr(data, ',', size);
    size_t half = comma == NULL ? size / 2 : (size_t)(comma - data);
    char *a = fuzz_text(data, half), *b = fuzz_text(data + half + (comma != NULL), size - half - (comma != NULL));
    must_be_an_order(a, b);
    free(a);
    free(b);
    return 0;
}
