// A connection to PostgreSQL for a command that runs to its end: blocking, one call after the other, without a loop.
// The service itself uses pg_link.h.
//
// All functions: the thread that opened it. Errors are logged here.
#ifndef SK_STORE_PG_ONCE_H
#define SK_STORE_PG_ONCE_H

#include "embedded.h"
#include "pg_result.h"
#include "shards.h"
#include "status.h"

struct sk_pg_once;

// Connects to shard `number` of these (shards.h). NULL: that failed, or the database is another shard.
struct sk_pg_once *sk_pg_once_open(const struct sk_shards *shards, size_t number);
void sk_pg_once_close(struct sk_pg_once *pg); // NULL is fine

// Runs a statement with text parameters. *rows is borrowed until the next call, or the close. SK_FAIL: the server
// refused, or the connection is lost and the outcome unknown.
enum sk_status sk_pg_once_run(struct sk_pg_once *pg, enum sk_keeping statement, int n, const char *const *params,
                              const struct sk_rows **rows) SK_MUST_CHECK;

#endif
