// What passed between instances and stores, for the judge: which order was granted when, who holds it, who wrote it,
// and whose session lived. It knows only what was executed. One thread.
#ifndef SIM_WITNESS_H
#define SIM_WITNESS_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "command.h"
#include "embedded.h"
#include "instance.h"

// Redis is about to execute a command, and has executed it, of an instance in this life. Each may fail the world:
//   the end      a session that has ended is still there
//   the journal  an entry is removed before all of its orders are decided
void witness_before_command(size_t node, const struct command *command, int script);
void witness_command(const struct instance *from, uint64_t life, const struct command *command, int script,
                     const struct sk_reply *reply);
// PostgreSQL is about to execute a statement, and has executed it; the first returns what the second is to be told.
// Each may fail the world:
//   the lock   somebody writes orders that another one holds, whose session has lived all the time since then
//   if-match   a change that was meant for another version is made
//   refunds    a refund of a refunded order settles what has been paid since
//   early      an order has expired before its time
//   closed     orders are written to a shard that has lost commits, and somebody could know that
int64_t witness_before(const struct instance *from, size_t shard, enum sk_statement statement,
                       const char *const *params);
void witness_statement(const struct instance *from, size_t shard, enum sk_statement statement,
                       const char *const *params, const PGresult *result, int64_t expected);

// Orders that were granted so many ms ago, and are no rows: fails the world for the first of them. own: only those that
// an instance still holds, which has been well since then.
void witness_stalled(uint64_t ms, bool own);
// Whether an instance has had a session in this life of its.
bool witness_had_session(const struct instance *instance);
// Whether a store's clock has ever been wrong.
bool witness_clocks_differed(void);
// Whether PostgreSQL has said that the voucher may be retired: then its epoch may grow.
bool witness_may_retire(int64_t voucher);

#endif
