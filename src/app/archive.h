// `seckill archive FOLDER [DAYS [ORDERS]]`: moves the orders of vouchers that are retired out of PostgreSQL.
#ifndef SK_APP_ARCHIVE_H
#define SK_APP_ARCHIVE_H

#include "config.h"
#include "status.h"

// Blocks until all is moved of vouchers whose sale ended DAYS days ago (30), at most ORDERS orders in a file (50,000).
// What it does is logged. SK_FAIL: a wrong word, or it could not go on; running it again goes on where it stopped.
enum sk_status sk_archive_run(const struct sk_config *config) SK_MUST_CHECK;

#endif
