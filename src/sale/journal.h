// The format of an entry in a voucher's journal, read here. place_orders.lua writes entries of purchases, with the
// fields `epoch`, `session`, `offer` and `orders`: "order-id user[ quantity[ key]],...". The key is the fingerprint of
// an Idempotency-Key. note_return.lua writes entries of orders that end: `epoch`, `session`, `returns`
// ("order-id,..."), `move`, `by` and `why`; of the move `promoted` the ids are those of units that were taken for users
// who wait.
#ifndef SK_SALE_JOURNAL_H
#define SK_SALE_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "buf.h"
#include "redis_link.h"
#include "redis_reply.h"
#include "uuid.h"

enum {
    SK_JOURNAL_BY_MAX = 64,
    SK_JOURNAL_WHY_MAX = 200,     // bytes
    SK_JOURNAL_ID_SIZE = 44,      // "<ms>-<sequence>", two 64-bit numbers, and NUL
    SK_JOURNAL_ORDERS_MAX = 2048, // in one entry: as many as the largest batch
    SK_JOURNAL_RETURNS_MAX = 128, // in one entry of orders that end: locks the voucher's row for a few ms
};

struct sk_journal_order {
    const char *id, *user; // borrowed for the call
    unsigned quantity;
    uint64_t key;  // 0: none
    int32_t offer; // of its entry; not part of the order's text
};

typedef void sk_journal_each(void *arg, const struct sk_journal_order *order);

// Calls `each` for every order and returns their number, or -1 if the text has another form. `each` may then have run
// for some of them: check with each == NULL first.
int sk_journal_parse(const char *orders, size_t len, sk_journal_each *each, void *arg);

// The same for the ids of orders that end: `user` is empty then.
int sk_journal_parse_returns(const char *returns, size_t len, sk_journal_each *each, void *arg);

// Writes what follows the user in an order's text: nothing for one unit without a key. A list of details always has the
// quantity, and uses sk_journal_key() only.
enum { SK_JOURNAL_MORE_SIZE = 32 };
const char *sk_journal_more(unsigned quantity, uint64_t key, char out[SK_JOURNAL_MORE_SIZE]);
enum { SK_JOURNAL_KEY_SIZE = 17 };
const char *sk_journal_key(uint64_t key, char out[SK_JOURNAL_KEY_SIZE]); // 16 hex digits

struct sk_journal_entry {
    const char *id; // valid as long as the reply
    int64_t epoch;
    int32_t offer;       // of purchases; 0: the entry is older than offers
    const char *session; // the session that holds it, a UUID; NULL: it names none, so none holds it
    const char *orders;  // of purchases, or the ids of those that end; NULL: the entry cannot be read
    size_t orders_len;
    int count;
    const char *move, *by, *why; // of orders that end; NULL: of purchases, or the entry cannot be read
};

// Asks for the first `entries` entries after this id, or of all if it is "": XRANGE. As sk_redis_command() otherwise.
enum sk_status sk_journal_ask(struct sk_redis *redis, const char *key, const char *after, int entries,
                              sk_redis_cb *done, void *arg) SK_MUST_CHECK;

// Reads one element of its reply. False: it is not an element with a journal id.
bool sk_journal_read(const struct sk_reply *element, struct sk_journal_entry *entry);

// Appends the fields and values of an element unchanged, each as "<length>:<bytes>,". Empty if it has none. Keeps at
// most `most` bytes; returns the full length.
size_t sk_journal_raw(const struct sk_reply *element, size_t most, struct sk_buf *raw);

// Orders two journal ids by their numbers: < 0, 0, > 0.
int sk_journal_compare(const char *a, const char *b);

// Whether the entry of this id and epoch is newer than the named one. `name`: "<id>@<epoch>", as PostgreSQL names an
// entry (028_refund_entries.sql). Older names have no epoch: they count as of the same one.
//
// Ids ascend under one epoch. A Redis that has lost data reuses ids if its clock is behind, but then its vouchers
// get a newer epoch before they sell.
bool sk_journal_is_newer(const char *id, int64_t epoch, const char *name);

#endif
