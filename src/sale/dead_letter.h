// Dead letters: journal entries that cannot be settled, kept in PostgreSQL as they were. Their orders hold
// their units and stay pending until somebody decides: try again, or write off.
#ifndef SK_SALE_DEAD_LETTER_H
#define SK_SALE_DEAD_LETTER_H

#include "core.h"

struct sk_dead_letter {
    int64_t voucher_id;
    const char *journal_id; // all texts are borrowed for the call
    const char *raw;
    size_t raw_len;
    const char *orders; // NULL: cannot be read
    const char *reason;
};

// Runs once, later.
typedef void sk_dead_letter_cb(void *arg, bool kept);

// The reactor's thread. Keeps the letter; said again, it changes nothing. The entry may leave the journal when
// `kept` is told true. `done` runs only after SK_OK.
enum sk_status sk_dead_letter_put(const struct sk_core *core, const struct sk_dead_letter *letter,
                                  sk_dead_letter_cb *done, void *arg) SK_MUST_CHECK;

#endif
