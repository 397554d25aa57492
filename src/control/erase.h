// `seckill erase USER`: a user's id gives way to a pseudonym in all that PostgreSQL keeps.
#ifndef SK_CONTROL_ERASE_H
#define SK_CONTROL_ERASE_H

#include "config.h"
#include "status.h"

// Blocks until it is done, all or nothing. What it did is logged, without the id. SK_FAIL: the word is not a user's id,
// the user has orders of vouchers that are not retired, or PostgreSQL could not be asked.
enum sk_status sk_erase_run(const struct sk_config *config) SK_MUST_CHECK;

#endif
