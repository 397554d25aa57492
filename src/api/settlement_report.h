// Queries both stores for the settlement report of a voucher (report.h).
//
// The reactor's thread, as all functions.
#ifndef SK_API_SETTLEMENT_REPORT_H
#define SK_API_SETTLEMENT_REPORT_H

#include "call.h"
#include "report.h"

sk_handle sk_handle_settlement;

enum { SK_REPORT_MS = 60000 }; // most time for counting

// The settlements that are being counted: one for each shard. NULL: out of memory.
struct sk_settlements *sk_settlements_open(void);
void sk_settlements_close(struct sk_settlements *settlements); // none is being counted. NULL is fine

// Answers the handle once, perhaps before it returns: FOUND and the document in this format, or a refusal. Counting
// takes PostgreSQL a second or two for a million orders, on a link of its own, so nothing else waits behind it. A
// reactor counts for one voucher and format at a time; above that OVERLOADED.
void sk_settlement_report(struct sk_control *control, int64_t voucher_id, enum sk_report_format format,
                          uint64_t handle);

#endif
