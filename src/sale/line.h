// The line of vouchers that have granted orders: they take turns, and one that cannot be written now is passed over
// until its pause is over, so that it holds up no other.
#ifndef SK_SALE_LINE_H
#define SK_SALE_LINE_H

#include "voucher.h"

// Starts zeroed. The reactor's thread, as all functions; times are uv_now's. A voucher in the line has orders, whose
// entries pin it.
struct sk_line {
    struct sk_voucher *first, *last;
};

void sk_line_add(struct sk_line *line, struct sk_voucher *voucher); // at the end, unless it is in it

// The first that is not paused leaves the line; `may` NULL: any. NULL: there is none.
struct sk_voucher *sk_line_take(struct sk_line *line, uint64_t now_ms, bool (*may)(const struct sk_voucher *voucher));

enum sk_pause {
    SK_PAUSE_LOCKED, // another transaction holds its row
    SK_PAUSE_FAILED, // any other failure of a statement
};

// Pauses the voucher, longer each time until a batch of it was settled: up to 2 s. Logs that its row is locked, unless
// the pauses have stopped growing.
void sk_line_pause(struct sk_voucher *voucher, enum sk_pause why, uint64_t now_ms);

// A batch of it was refused permanently. Pauses it if that has happened too often in a row: more often than it takes to
// find one bad order among good ones.
void sk_line_refused(struct sk_voucher *voucher, uint64_t now_ms);

// A batch that it shared with others has failed, perhaps for another's sake: the next one is of it alone.
void sk_line_part(struct sk_voucher *voucher);

void sk_line_settled(struct sk_voucher *voucher);

#endif
