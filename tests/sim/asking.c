// The second implementation of asking.h: worlds have one Redis without sentinels, so nobody asks.
#include "asking.h"

#include "status.h"

struct sk_asking *sk_asking_open(const struct sk_asking_options *options)
{
    (void)options;
    SK_ASSERT(false);
    return NULL;
}

void sk_asking_close(struct sk_asking *asking)
{
    (void)asking;
}

bool sk_asking_send(struct sk_asking *asking, int argc, const char **argv)
{
    (void)asking;
    (void)argc;
    (void)argv;
    return false;
}

void sk_asking_next(struct sk_asking *asking, const struct sk_redis_host *at, bool at_once)
{
    (void)asking;
    (void)at;
    (void)at_once;
}
