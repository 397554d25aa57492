// Checks whether a rebuild is needed, under its lock and before Redis is closed for it.
#ifndef SK_RECOVERY_REBUILD_CHECK_H
#define SK_RECOVERY_REBUILD_CHECK_H

#include "maintenance.h"
#include "sale.h"

enum sk_rebuild_need {
    SK_REBUILD_NEEDED,
    SK_REBUILD_WELL,    // in doubt: Redis has not lost the voucher
    SK_REBUILD_NOT_YET, // to be retired: in PostgreSQL something of the sale is open
    SK_REBUILD_UNKNOWN, // a store failed
};

typedef void sk_rebuild_check_cb(void *arg, enum sk_rebuild_need need);

struct sk_rebuild_check {
    sk_rebuild_check_cb *done;
    void *arg;
    // Private:
    const struct sk_sale *sale;
    struct sk_voucher *voucher;
    enum sk_rebuild_why why;
    struct sk_account account;
};

// The reactor's thread. Calls `done` once, perhaps before it returns. `check` and the voucher must live until then.
void sk_rebuild_check(struct sk_rebuild_check *check, const struct sk_sale *sale, struct sk_voucher *voucher,
                      enum sk_rebuild_why why);

#endif
