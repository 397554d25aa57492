// The phase of a sale: what its state, window and stock mean to a buyer at one moment. Of the conditions that hold, the
// first decides:
//
//   ended      the voucher is closed or retired, or its window is over
//   paused     an operator has paused it
//   upcoming   the window has not begun
//   sold_out   no unit remains; one may return
//   on_sale    otherwise
//
// Whether this instance can sell now is `can_sell`.
//
// Any thread.
#ifndef SK_API_PHASE_H
#define SK_API_PHASE_H

#include <stdint.h>

#include "buf.h"
#include "voucher.h"

struct sk_phase_terms {
    enum sk_voucher_state state;
    int64_t begin_ms, end_ms; // Unix ms
    int64_t remaining;        // negative: not known
};

// The name, a constant.
const char *sk_phase(const struct sk_phase_terms *terms, int64_t now_ms);

// When phases were computed, and how long time alone leaves them as they are.
struct sk_phase_span {
    int64_t now_ms;   // Unix ms
    int64_t until_ms; // from then on one of them is another; INT64_MAX: never
};

struct sk_phase_span sk_phase_span_now(void);

// Appends a voucher's JSON, as PostgreSQL wrote it, with the member `phase`. `remaining` may be null in it: not known.
// *span includes it afterwards.
void sk_phase_put(struct sk_buf *out, const char *voucher, struct sk_phase_span *span);

// The same with the phase of now, as a text of the caller's; NULL is copied as NULL. False: out of memory.
static inline bool sk_phase_copy(char **copy, const char *voucher)
{
    struct sk_buf text = {0};
    struct sk_phase_span span = sk_phase_span_now();
    if (voucher != NULL)
        sk_phase_put(&text, voucher, &span);
    *copy = text.data;
    return !text.failed;
}

#endif
