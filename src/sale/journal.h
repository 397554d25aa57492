// The format of an entry in a voucher's journal, read here. place_orders.lua writes entries of purchases, with the
// fields `epoch`, `session`, `offer` and `orders`: "order-id user[ quantity[ key]],...". The key is the fingerprint of
// an Idempotency-Key. note_return.lua writes entries of orders that end: `epoch`, `session`, `returns`
// ("order-id,..."), `move`, `by` and `why`.
#ifndef SK_SALE_JOURNAL_H
#define SK_SALE_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "buf.h"
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

// Adds the quantity, and the key or NULL, to the arrays of place_orders().
void sk_journal_add_details(unsigned quantity, uint64_t key, struct sk_buf *quantities, struct sk_buf *keys);

// Reads one element of XRANGE's reply. False: it is not an element with a journal id.
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

// ---- order ids ----
//
// The format of an order's id: a UUIDv7 whose last 24 bits are the slot of its voucher (14 bits) and then the low bits
// of the epoch under which its maker asked Redis (10 bits). So the id leads to one node and one shard. It also shows
// whether an order that no store knows may still be in the memory of an instance.
//
// Any thread.

void sk_order_id_make(struct sk_uuid_gen *gen, unsigned slot, int64_t epoch, char id[SK_UUID_SIZE]);

unsigned sk_order_id_slot(const char *id);

// Whether an order of this id may have been accepted although no store knows it. `epoch` is the voucher's; Redis must
// have lost nothing since. False if the id is of this epoch, since Redis or PostgreSQL would know it, or of an epoch
// that has not been. An id of an earlier epoch may be in an instance that is paused or cut off.
bool sk_order_id_may_be_away(const char *id, int64_t epoch);

// ---- what Redis says, as far as it can be ----
//
// Checks values from Redis: every client with write access can write anything. An impossible value is a finding, which
// a rebuild repairs; it refuses no order and starts no loop. Any thread, no allocation.

// The largest number: 15 digits, which Lua's numbers hold exactly.
#define SK_TRUST_MAX INT64_C(999999999999999)

// Most buyers of a voucher: as many as it may have units.
enum { SK_TRUST_BUYERS_MAX = 100000000 };

// A number from 0 to `most`. False: it is anything else, and *value is 0.
bool sk_trust_number(const struct sk_reply *reply, int64_t most, int64_t *value);

// Two numbers "<ms>-<sequence>", whatever their size: safe to show, to log and to send back.
bool sk_trust_is_journal_id(const char *text);

// The version of the buyers, `last`: such an id, or "epoch-<n>", with numbers in range.
bool sk_trust_is_version(const char *text);

// The order id in a buyer's field, as place_orders.lua writes it. False: there is none, and `id` is empty; any other
// text is logged with the voucher. *quantity: its units.
bool sk_trust_order(const struct sk_reply *reply, int64_t voucher_id, char id[SK_UUID_SIZE], unsigned *quantity);

// Whether an error means that a key is damaged: it has the wrong type, or a journal has used up its ids. A rebuild
// repairs that; it would not pass by itself.
bool sk_trust_is_damage(const char *error);

#endif
