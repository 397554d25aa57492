#include "findings.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "address.h"
#include "log.h"

enum { WHY_SIZE = 512 };

void sk_find(struct sk_findings *findings, enum sk_finding kind, const char *what, const char *format, ...)
{
    static const char *const names[SK_FINDING_KINDS] = {"ok", "warn", "fail"};
    char why[WHY_SIZE];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(why, sizeof why, format, args);
    va_end(args);
    const char *consequence = kind == SK_FINDING_OK ? strstr(why, "; ") : NULL;
    size_t n = consequence == NULL ? strlen(why) : (size_t)(consequence - why);
    why[n] = '\0';
    for (size_t i = 0; i < n; i++) {
        if (why[i] < ' ' || why[i] > '~')
            why[i] = ' ';
    }
    while (n > 0 && why[n - 1] == ' ')
        why[--n] = '\0';
    findings->counts[kind]++;
    if (findings->out != NULL) {
        (void)fprintf(findings->out, "%-4s %s: %s\n", names[kind], what, why);
    } else if (kind == SK_FINDING_FAIL) {
        char text[2 * WHY_SIZE];
        (void)snprintf(text, sizeof text, "%s: %s", what, why);
        sk_log_text(SK_LOG_ERROR, "the configuration is refused", "reason", text);
    }
}

void sk_find_way(struct sk_findings *findings, const char *what, const struct sockaddr *peer, bool encrypted)
{
    struct sk_address address;
    char text[SK_ADDRESS_SIZE] = "this machine";
    bool known = sk_address_of(peer, &address), near = !known || sk_address_is_loopback(&address);
    if (!near)
        sk_address_put(&address, text);
    SK_FIND_UNLESS(findings, encrypted || near, SK_FINDING_WARN, what,
                   "%s%s; without TLS its password and the orders can be read on the way", text,
                   encrypted ? ", by TLS" : "");
}

void sk_find_way_of(struct sk_findings *findings, const char *what, int fd, bool encrypted)
{
    struct sockaddr_storage peer = {.ss_family = AF_UNSPEC};
    socklen_t len = sizeof peer;
    (void)getpeername(fd, (struct sockaddr *)&peer, &len); // on failure the peer is gone, which the next query finds
    sk_find_way(findings, what, (const struct sockaddr *)&peer, encrypted);
}

struct sk_clock_seen sk_clock_compare(int64_t says_ms, uint64_t asked_ms, uint64_t answered_ms)
{
    uint64_t took_ms = answered_ms > asked_ms ? answered_ms - asked_ms : 0;
    return (struct sk_clock_seen){true, says_ms - (int64_t)(asked_ms + took_ms / 2), took_ms};
}

void sk_clocks_note(struct sk_clocks_seen *clocks, const struct sk_clock_seen *seen)
{
    if (!seen->known)
        return;
    if (!clocks->least.known || seen->ahead_ms < clocks->least.ahead_ms)
        clocks->least = *seen;
    if (!clocks->most.known || seen->ahead_ms > clocks->most.ahead_ms)
        clocks->most = *seen;
}

const struct sk_clock_seen *sk_clocks_farthest(const struct sk_clocks_seen *clocks, const struct sk_clock_seen *from)
{
    int64_t least_ms = llabs(clocks->least.ahead_ms - from->ahead_ms);
    return llabs(clocks->most.ahead_ms - from->ahead_ms) > least_ms ? &clocks->most : &clocks->least;
}
