// What an entry of a voucher's journal looks like. Of purchases, by place_orders.lua: fields `epoch`, `session`,
// `offer` and `orders`, "order-id user[ quantity[ key]],..."; key is the fingerprint of an Idempotency-Key. Of orders
// that end, by note_return.lua: `epoch`, `session`, `returns`, "order-id,...", `move`, `by` and `why`. Read here.
#ifndef SK_SALE_JOURNAL_H
#define SK_SALE_JOURNAL_H

#include "buf.h"
#include "redis_reply.h"

enum {
    SK_JOURNAL_BY_MAX = 64,
    SK_JOURNAL_WHY_MAX = 200,     // bytes
    SK_JOURNAL_ID_SIZE = 44,      // "<ms>-<sequence>", two 64-bit numbers, and NUL
    SK_JOURNAL_ORDERS_MAX = 2048, // in one entry: as many as the largest batch
    SK_JOURNAL_RETURNS_MAX = 128, // in one entry of orders that end: as many as hold the voucher's row for a few ms
};

struct sk_journal_order {
    const char *id, *user; // borrowed for the call
    unsigned quantity;
    uint64_t key;  // 0: none
    int32_t offer; // that of its entry; it does not stand beside the order
};

typedef void sk_journal_each(void *arg, const struct sk_journal_order *order);

// Reads orders: calls `each` for every one and returns their number, or -1 if the text is not of that form
// (then `each` may have run for a part: ask with each == NULL first).
int sk_journal_parse(const char *orders, size_t len, sk_journal_each *each, void *arg);

// The same for the ids of orders that end: `user` is empty then.
int sk_journal_parse_returns(const char *returns, size_t len, sk_journal_each *each, void *arg);

// Writes what stands behind the user: nothing for one unit without a key. For the one of a list of details, which says
// the quantity always.
enum { SK_JOURNAL_MORE_SIZE = 32 };
const char *sk_journal_more(unsigned quantity, uint64_t key, char out[SK_JOURNAL_MORE_SIZE]);
enum { SK_JOURNAL_KEY_SIZE = 17 };
const char *sk_journal_key(uint64_t key, char out[SK_JOURNAL_KEY_SIZE]); // 16 hex digits

struct sk_journal_entry {
    const char *id; // as long as the reply
    int64_t epoch;
    int32_t offer;       // of purchases; 0: the entry is older than offers
    const char *session; // that holds it, a UUID; NULL: the entry names none, so none holds it
    const char *orders;  // of purchases, or the ids of those that end; NULL: the entry cannot be read
    size_t orders_len;
    int count;
    const char *move, *by, *why; // of orders that end; NULL: of purchases, or the entry cannot be read
};

// Adds quantity and key, or NULL, to the arrays of place_orders().
void sk_journal_add_details(unsigned quantity, uint64_t key, struct sk_buf *quantities, struct sk_buf *keys);

// Reads one element of XRANGE's reply. False: it is not even an element with a journal id.
bool sk_journal_read(const struct sk_reply *element, struct sk_journal_entry *entry);

// Keeps the fields and values of an element as they are: each as "<length>:<bytes>,". Empty if it has none. At most
// `most` bytes are kept; returns how many there are.
size_t sk_journal_raw(const struct sk_reply *element, size_t most, struct sk_buf *raw);

// Orders two journal ids by their numbers: < 0, 0, > 0.
int sk_journal_compare(const char *a, const char *b);

#endif
