// The pessimistic way (悲观锁): the row stays locked until the transaction ends. The lock belongs to the connection. It
// is released at once when its owner is killed. While its owner is paused it stays, and all others wait.
#include "worker.h"

static bool lock(struct worker *worker, const char *user)
{
    (void)user;
    if (sql(worker, APPROACH_SQL_BEGIN, 0, NULL) == NONE)
        return false;
    if (sql(worker, APPROACH_SQL_READ_STOCK_FOR_UPDATE, 0, NULL) == 1)
        return true;
    worker->is_broken = false; // waited too long
    (void)sql(worker, APPROACH_SQL_ROLLBACK, 0, NULL);
    return false;
}

static void unlock(struct worker *worker, const char *user)
{
    (void)user;
    (void)sql(worker, APPROACH_SQL_COMMIT, 0, NULL);
}

const struct approach approach_sql_for_update = {
    .number = 18,
    .title = "SELECT ... FOR UPDATE",
    .source = "-",
    .claim = "right; all wait in line",
    .guards = A_STOCK_IN_SQL,
    .lives = IN_POSTGRES,
    .predicted = 0,
    .lock = lock,
    .unlock = unlock,
};
