#include "service_log.h"

#include <string.h>

#include "wait.h"

enum { LOG_SIZE = 1 << 22, END_BYTES = 2048 }; // Check drops messages that are longer than 8 KB

static char logged[LOG_SIZE];

int service_log_count(const struct service *service, const char *text)
{
    int count = 0;
    service_read_log(service, logged, sizeof logged);
    for (const char *at = logged; (at = strstr(at, text)) != NULL; at++)
        count++;
    return count;
}

void service_log_must_have(const struct service *service, int times, const char *text)
{
    uint64_t until_ms = sk_monotonic_ms() + WAIT_DEADLINE_MS;
    for (int count; (count = service_log_count(service, text)) < times; (void)usleep(WAIT_PAUSE_US)) {
        size_t len = strlen(logged);
        ck_assert_msg(sk_monotonic_ms() < until_ms, "'%s' is in the log %d times, not %d; its end:\n%s", text, count,
                      times, logged + (len > END_BYTES ? len - END_BYTES : 0));
    }
}
