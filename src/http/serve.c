#include "serve.h"

#include <signal.h>
#include <stdlib.h>

#include "client_limits.h"
#include "descriptors.h"
#include "log.h"
#include "reactor.h"

enum sk_status sk_serve(const struct sk_config *config, bool *left_behind)
{
    sigset_t signals;
    // Blocked before any thread starts, so that sigwait is the one place that sees them.
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGINT);
    (void)pthread_sigmask(SIG_BLOCK, &signals, NULL);
    (void)signal(SIGPIPE, SIG_IGN);

    enum sk_status status = sk_descriptors_reserve(config);
    struct sk_limits *limits = sk_limits_open(config, stderr);
    struct sk_reactor **reactors = calloc((size_t)config->reactors, sizeof(struct sk_reactor *));
    int64_t started = 0;
    if (status == SK_OK && (reactors == NULL || limits == NULL))
        status = SK_NO_MEM;
    while (status == SK_OK && started < config->reactors) {
        status = sk_reactor_start(config, limits, &reactors[started]);
        started += reactors[started] != NULL;
    }
    if (status == SK_OK) {
        int caught = 0;
        sk_log(SK_LOG_INFO, "serving", "listen=%s reactors=%d", config->listen, (int)config->reactors);
        (void)sigwait(&signals, &caught);
        sk_log(SK_LOG_INFO, "stopping", "signal=%d", caught);
    } else {
        sk_log(SK_LOG_ERROR, "cannot start", "reactors=%d of=%d", (int)started, (int)config->reactors);
    }
    for (int64_t i = 0; i < started; i++)
        sk_reactor_stop(reactors[i]);
    for (int64_t i = 0; i < started; i++)
        *left_behind = !sk_reactor_join(reactors[i]) || *left_behind;
    free(reactors);
    if (!*left_behind) // else a thread may still run that has them
        sk_limits_close(limits);
    return status;
}
