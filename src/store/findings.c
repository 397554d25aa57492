#include "findings.h"

#include <stdarg.h>
#include <string.h>

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
    (void)fprintf(findings->out, "%-4s %s: %s\n", names[kind], what, why);
    findings->counts[kind]++;
}

struct sk_clock_seen sk_clock_compare(int64_t says_ms, uint64_t asked_ms, uint64_t answered_ms)
{
    uint64_t took_ms = answered_ms > asked_ms ? answered_ms - asked_ms : 0;
    return (struct sk_clock_seen){true, says_ms - (int64_t)(asked_ms + took_ms / 2), took_ms};
}
