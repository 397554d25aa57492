// The line of a voucher: users who wait for a unit. A place in it is an order of status `waiting`, which PostgreSQL has
// and Redis does not know (sql/migrations/040_waiting.sql). This module joins them, a batch of one voucher at a time.
//
// Nothing is kept here: a 202 follows the commit, and a client whose answer is lost repeats its request.
#ifndef SK_SALE_LINE_H
#define SK_SALE_LINE_H

#include <stdbool.h>

#include "sale.h"

struct sk_line;

// The reactor's thread, as all functions. One for each shard. NULL: out of memory.
struct sk_line *sk_line_open(const struct sk_sale *sale, const struct sk_shard *shard);
void sk_line_close(struct sk_line *line); // after the links were closed

// Takes over the order: NEW or ASKED, of one unit. Its outcome comes later, never inside this call: WAITING, with the
// order and how many are before it; WAITLIST_FULL; or why else it does not wait.
void sk_line_add(struct sk_line *line, struct sk_voucher *voucher, struct sk_order *order);

// At the end of a loop turn: sends the next batch, unless one is on its way.
void sk_line_flush(struct sk_line *line);

// Whether no order waits for an answer.
bool sk_line_idle(const struct sk_line *line);

#endif
