// Listeners of vouchers: each is told how its voucher stands when that has changed, at most four times a second, and
// all of an instance together at most 4,000 times: with more listeners each is told less often. What is told is always
// the whole state, so one that was slow, or away, has missed nothing that counts.
//
// An event: its id grows, and is the Unix time in ms at which the change was seen here.
//   id: 1793300000123
//   data: {"remaining":12,"state":"open","rate":3.4,"server_time":"2026-10-29T20:53:20.123Z"}
//
// `remaining`: units that Redis can give out; null: not known. `state`: the voucher's, as everywhere else. `rate`:
// units that are sold in a second, smoothed over some. A listener of a closed or retired voucher is told so, and ends.
//
// The reactor's thread, as all functions.
#ifndef SK_API_LIVE_H
#define SK_API_LIVE_H

#include "call.h"
#include "query.h"

sk_handle sk_handle_events;

enum {
    SK_LIVE_EACH_MS = 250,       // between two events of a listener, at least
    SK_LIVE_EVENTS_PER_S = 4000, // of an instance
    SK_LIVE_BEAT_MS = 15000,     // a listener hears at least a comment
};

// The wire to the listeners, by handle.
struct sk_live_wire {
    // Whether the listener takes the text, all of it. False: it has not taken what it got before, or is gone.
    bool (*send)(void *arg, uint64_t handle, const char *text, size_t len);
    // The stream ends behind what was taken.
    void (*end)(void *arg, uint64_t handle);
    void *arg;
};

// NULL: out of memory. Borrows control.
struct sk_live *sk_live_open(struct sk_control *control, const struct sk_live_wire *wire);
// Forgets the listeners; nothing is told to them. After the links were closed. NULL is fine.
void sk_live_close(struct sk_live *live);

// The stream of a request is open: its client listens.
void sk_live_on_stream(const struct sk_context *context, struct sk_request *request);

// Whether there is such a voucher: answers the handle once, FOUND without a document, or UNKNOWN_VOUCHER, UNAVAILABLE
// or OVERLOADED. May answer before it returns.
void sk_live_find(struct sk_control *control, int64_t voucher_id, uint64_t handle);

// The handle listens from now on, until it is ended or leaves. It is told the newest state as soon as that is known,
// unless its id is last_id, which it has heard before. False: out of memory, and it does not listen.
bool sk_live_listen(struct sk_live *live, int64_t voucher_id, uint64_t last_id, uint64_t handle);

// Nothing is sent to the handle any more. May have left already.
void sk_live_leave(struct sk_live *live, uint64_t handle);

size_t sk_live_count(const struct sk_live *live);

#endif
