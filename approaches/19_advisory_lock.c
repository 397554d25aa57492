// A lock by number, held by the server for the session. Like a row lock it has no TTL that can run out, since the
// server notices when its holder is gone.
#include "worker.h"

static bool lock(struct worker *worker, const char *user)
{
    (void)user;
    if (sql(worker, APPROACH_SQL_ADVISORY_LOCK, 0, NULL) == 1)
        return true;
    worker->is_broken = false; // waited too long
    return false;
}

static void unlock(struct worker *worker, const char *user)
{
    (void)user;
    (void)sql(worker, APPROACH_SQL_ADVISORY_UNLOCK, 0, NULL);
}

const struct approach approach_advisory_lock = {
    .number = 19,
    .title = "PostgreSQL's advisory lock",
    .source = "-",
    .claim = "right; needs no row",
    .guards = A_STOCK_IN_SQL,
    .lives = IN_POSTGRES,
    .predicted = 0,
    .lock = lock,
    .unlock = unlock,
};
