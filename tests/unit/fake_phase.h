// The texts of these tests are no vouchers, and stay as they are; test_phase.c is about phases. Included by one source
// of a program.
#ifndef UNIT_FAKE_PHASE_H
#define UNIT_FAKE_PHASE_H

#include "phase.h"

int64_t fake_phase_until_ms = INT64_MAX;

struct sk_phase_span sk_phase_span_now(void)
{
    return (struct sk_phase_span){.until_ms = INT64_MAX};
}

void sk_phase_put(struct sk_buf *out, const char *voucher, struct sk_phase_span *span)
{
    sk_buf_puts(out, voucher);
    span->until_ms = fake_phase_until_ms;
}

#endif
