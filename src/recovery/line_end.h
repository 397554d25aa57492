// The end of a line: once the sale is over, the orders that still wait are refused.
#ifndef SK_RECOVERY_LINE_END_H
#define SK_RECOVERY_LINE_END_H

#include "sale.h"
#include "voucher_books.h"

// The reactor's thread. If the sale is over and users wait, their orders are refused, batch by batch until none is
// left. May be called again at any time; what fails is tried again by the next call.
void sk_line_end(const struct sk_sale *sale, struct sk_voucher *voucher, const struct sk_account *account);

#endif
