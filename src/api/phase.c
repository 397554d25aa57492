// PostgreSQL writes a voucher's JSON without a phase, because the text is cached and the phase depends on the moment.
#include "phase.h"

#include <jansson.h>
#include <string.h>

#include "clock.h"
#include "text.h"

const char *sk_phase(const struct sk_phase_terms *terms, int64_t now_ms)
{
    bool over = terms->state == SK_VOUCHER_CLOSED || terms->state == SK_VOUCHER_RETIRED;
    if (over || now_ms >= terms->end_ms)
        return "ended";
    if (terms->state == SK_VOUCHER_PAUSED)
        return "paused";
    if (now_ms < terms->begin_ms)
        return "upcoming";
    return terms->remaining == 0 ? "sold_out" : "on_sale";
}

struct sk_phase_span sk_phase_span_now(void)
{
    return (struct sk_phase_span){.now_ms = (int64_t)sk_wall_ms(), .until_ms = INT64_MAX};
}

// False: out of memory, or it is no voucher.
static bool phase_read(const char *voucher, struct sk_phase_terms *terms)
{
    const char *state, *begin, *end;
    json_t *remaining;
    json_t *members = json_loads(voucher, 0, NULL);
    bool good = members != NULL &&
                json_unpack(members, "{s:s,s:s,s:s,s:o}", "state", &state, "begin_at", &begin, "end_at", &end,
                            "remaining", &remaining) == 0 &&
                sk_text_time(begin, &terms->begin_ms) && sk_text_time(end, &terms->end_ms);
    if (good) {
        terms->remaining = json_is_integer(remaining) ? json_integer_value(remaining) : -1;
        // One that is being loaded is as good as open.
        terms->state = strcmp(state, "loading") == 0 ? SK_VOUCHER_OPEN : sk_voucher_state_of(state);
    }
    json_decref(members);
    return good;
}

void sk_phase_put(struct sk_buf *out, const char *voucher, struct sk_phase_span *span)
{
    struct sk_phase_terms terms;
    if (!phase_read(voucher, &terms)) {
        out->failed = true;
        return;
    }
    int64_t next_ms = span->now_ms < terms.begin_ms ? terms.begin_ms
                      : span->now_ms < terms.end_ms ? terms.end_ms
                                                    : INT64_MAX;
    span->until_ms = next_ms < span->until_ms ? next_ms : span->until_ms;
    sk_buf_add(out, voucher, strlen(voucher) - 1);
    sk_buf_printf(out, ",\"phase\":\"%s\"}", sk_phase(&terms, span->now_ms));
}
