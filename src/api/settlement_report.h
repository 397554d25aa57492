// The settlement report of a voucher, in one document.
#ifndef SK_API_SETTLEMENT_REPORT_H
#define SK_API_SETTLEMENT_REPORT_H

#include "report.h"
#include "talk.h"

enum { SK_REPORT_MS = 60000 }; // that counting may take

// Answers the handle once, with FOUND and the document in this format, or with a refusal; it may do so before it
// returns. Counting takes PostgreSQL a second or two for a million orders, on a link of its own, so that nothing else
// waits behind it. A reactor does it for one voucher and format at a time: past that OVERLOADED.
void sk_settlement_report(struct sk_control *control, int64_t voucher_id, enum sk_report_format format,
                          uint64_t handle);

#endif
