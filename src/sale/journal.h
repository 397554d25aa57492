// What an entry of a segment's journal looks like: fields `epoch`, `session` and `orders`, the last
// "order-id user,order-id user,...". Written by place_orders.lua, read here.
#ifndef SK_SALE_JOURNAL_H
#define SK_SALE_JOURNAL_H

#include "buf.h"
#include "redis_reply.h"

enum {
    SK_JOURNAL_ID_SIZE = 44,      // "<ms>-<sequence>", two 64-bit numbers, and NUL
    SK_JOURNAL_ORDERS_MAX = 2048, // in one entry: as many as the largest batch
};

// Reads orders: calls `each` for every one and returns their number, or -1 if the text is not of that form
// (then `each` may have run for a part: ask with each == NULL first).
int sk_journal_parse(const char *orders, size_t len, void (*each)(void *arg, const char *id, const char *user),
                     void *arg);

struct sk_journal_entry {
    const char *id; // as long as the reply
    int64_t epoch;
    const char *session; // that holds it, a UUID; NULL: the entry names none, so none holds it
    const char *orders;  // NULL: the entry cannot be read
    size_t orders_len;
    int count;
};

// Reads one element of XRANGE's reply. False: it is not even an element with a journal id.
bool sk_journal_read(const struct sk_reply *element, struct sk_journal_entry *entry);

// Keeps the fields and values of an element as they are: each as "<length>:<bytes>,". Empty if it has none. At most
// `most` bytes are kept; returns how many there are.
size_t sk_journal_raw(const struct sk_reply *element, size_t most, struct sk_buf *raw);

// Orders two journal ids by their numbers: < 0, 0, > 0.
int sk_journal_compare(const char *a, const char *b);

#endif
