// Dead letters: journal entries and orders that cannot be settled, kept unchanged in PostgreSQL. Orders in letters hold
// their units and stay pending until an administrator decides: retry, or write off.
#ifndef SK_SALE_DEAD_LETTER_H
#define SK_SALE_DEAD_LETTER_H

#include "sale.h"

// Runs once, later. True: the letter is stored, and its content may leave the journal.
typedef void sk_dead_letter_cb(void *arg, bool kept);

// The reactor's thread, as all functions; all texts are borrowed for the call. Calls are idempotent. `done` runs only
// after SK_OK.

// An order that PostgreSQL refuses. `journal_id` is that of its entry, or empty.
enum sk_status sk_dead_letter_put_order(const struct sk_sale *sale, const struct sk_voucher *voucher,
                                        const char *journal_id, const struct sk_journal_order *order,
                                        sk_dead_letter_cb *done, void *arg) SK_MUST_CHECK;

// A journal entry that cannot be read: an element of XRANGE's reply. Its first SK_DEAD_LETTER_RAW_MAX bytes are kept;
// the reason mentions any more.
enum { SK_DEAD_LETTER_RAW_MAX = 64 * 1024 };
enum sk_status sk_dead_letter_put_unreadable(const struct sk_sale *sale, const struct sk_voucher *voucher,
                                             const char *journal_id, const struct sk_reply *element,
                                             sk_dead_letter_cb *done, void *arg) SK_MUST_CHECK;

#endif
