// The field `traceparent`, checked against a second parser that follows the grammar of the specification.
#include "traceparent.h"

#include <regex.h>

#include "fuzz.h"

static regex_t form, blanks;

// NOLINTNEXTLINE(readability-non-const-parameter)
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    MUST(regcomp(&form, "^[ \t]*([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$", REG_EXTENDED) == 0);
    MUST(regcomp(&blanks, "[ \t]+$", REG_EXTENDED) == 0);
    return 0;
}

static bool is_zero(const char *digits, size_t n)
{
    return strspn(digits, "0") >= n;
}

// Cuts off trailing blanks.
static bool second_opinion(char *text, regmatch_t parts[6])
{
    regmatch_t end;
    if (regexec(&blanks, text, 1, &end, 0) == 0)
        text[end.rm_so] = '\0';
    if (regexec(&form, text, 6, parts, 0) != 0)
        return false;
    const char *version = text + parts[1].rm_so;
    bool added = parts[5].rm_so >= 0;
    return memcmp(version, "ff", 2) != 0 && !(memcmp(version, "00", 2) == 0 && added) &&
           !is_zero(text + parts[2].rm_so, SK_TRACE_ID_CHARS) && !is_zero(text + parts[3].rm_so, SK_SPAN_ID_CHARS);
}

static void must_come_back(const struct sk_traceparent *read)
{
    struct sk_traceparent again;
    char text[SK_TRACEPARENT_SIZE];
    sk_traceparent_put(read, text);
    MUST(strlen(text) == SK_TRACEPARENT_SIZE - 1);
    MUST(sk_traceparent_read(text, &again));
    MUST(strcmp(again.trace_id, read->trace_id) == 0 && strcmp(again.span_id, read->span_id) == 0);
    MUST(again.flags == read->flags);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sk_traceparent read = {0};
    regmatch_t parts[6];
    uint64_t random[3] = {0};
    char *text = fuzz_text(data, size);
    bool taken = sk_traceparent_read(text, &read);
    MUST(taken == second_opinion(text, parts));
    if (taken) {
        MUST(strncmp(read.trace_id, text + parts[2].rm_so, SK_TRACE_ID_CHARS) == 0);
        MUST(strncmp(read.span_id, text + parts[3].rm_so, SK_SPAN_ID_CHARS) == 0);
        MUST(strlen(read.trace_id) == SK_TRACE_ID_CHARS && strlen(read.span_id) == SK_SPAN_ID_CHARS);
        MUST((read.flags & ~(SK_TRACE_SAMPLED | SK_TRACE_RANDOM)) == 0);
        must_come_back(&read);
    }
    memcpy(random, data, size < sizeof random ? size : sizeof random);
    sk_traceparent_make(&read, random);
    must_come_back(&read);
    free(text);
    return 0;
}
