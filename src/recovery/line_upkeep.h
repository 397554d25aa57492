// The upkeep of a line: while the sale goes on, units that are in the stock although users wait go to the first of
// them; once it is over, the orders that still wait are refused.
//
// Units that return go to the line by themselves (returns.h). In the stock there are those that an operator has added,
// and one that returned a moment before a user joined.
#ifndef SK_RECOVERY_LINE_UPKEEP_H
#define SK_RECOVERY_LINE_UPKEEP_H

#include "sale.h"
#include "voucher_books.h"

// The reactor's thread. `seen` agrees with the account. Whatever begins goes on batch by batch; what fails is tried
// again by the next call. Whether units are on their way to the line now.
bool sk_line_upkeep(const struct sk_sale *sale, struct sk_voucher *voucher, const struct sk_account *account,
                    const struct sk_snapshot *seen);

#endif
