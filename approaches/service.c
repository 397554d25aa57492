#include "service.h"

#include <stdio.h>
#include <string.h>

bool service_run(struct worker *worker, char out[TOKEN_SIZE])
{
    const char *info = redis_text(worker, "INFO server"), *at_id = info == NULL ? NULL : strstr(info, "run_id:");
    return at_id != NULL && sscanf(at_id, "run_id:%47[0-9a-f]", out) == 1;
}

bool service_prepare(struct worker *worker, long units)
{
    const char *const keys[] = {SERVICE_KEYS};
    char run[TOKEN_SIZE];
    return service_run(worker, run) && redis_number(worker, "DEL %s %s %s", keys[0], keys[1], keys[2]) != NONE &&
           redis_number(
               worker,
               "HSET %s stock %ld begin_ms 0 end_ms 9999999999999 state open epoch 1 last epoch-1 offer 1 run %s",
               keys[0], units, run) != NONE;
}

long long service_left(struct worker *worker)
{
    return redis_number(worker, "HGET seckill:{1}:voucher stock");
}
