// Event streams of vouchers. A listener follows up to 32 vouchers. It receives the state of each, and again after a
// change, at most four times a second. What has changed since the last time goes out as one text. An instance sends at
// most 4,000 texts a second; with more listeners each receives fewer. An event carries the whole state, so a listener
// that was slow or away has missed nothing.
//
// An event's id grows, for each voucher. It is the Unix time in ms at which this instance saw the change.
//   id: 1793300000123
//   data: {"voucher_id":"7","remaining":12,"state":"open","phase":"on_sale","rate":3.4,"server_time":"2026-10-29T..."}
//
// `remaining`: units that Redis can give out; null: not known. `state`: the voucher's, as everywhere else. `phase`: of
// these two, the window and the time (phase.h). `rate`: units sold per second, smoothed. If a voucher is closed or
// retired, that state is the last that the listener receives of it. The stream ends with the last of its vouchers,
// whose event has the id `end`. A client that returns with that id gets 204.
//
// The reactor's thread, as all functions.
#ifndef SK_API_LIVE_H
#define SK_API_LIVE_H

#include "call.h"
#include "query.h"

sk_handle sk_handle_events;

enum {
    SK_LIVE_EACH_MS = 250,      // least time between two texts for a listener
    SK_LIVE_TEXTS_PER_S = 4000, // of an instance
    SK_LIVE_BEAT_MS = 15000,    // a listener receives at least a comment so often
    SK_LIVE_VOUCHERS_MAX = 32,  // of a listener: about as many cards of the shop as a large screen shows
};

// Sends to listeners, by handle.
struct sk_live_wire {
    // Takes all of the text, or none. False: the listener has not taken the text before, or is gone.
    bool (*send)(void *arg, uint64_t handle, const char *text, size_t len);
    // Ends the stream after what was taken.
    void (*end)(void *arg, uint64_t handle);
    void *arg;
};

// NULL: out of memory. Borrows control.
struct sk_live *sk_live_open(struct sk_control *control, const struct sk_live_wire *wire);
// Call after the links were closed. Forgets the listeners without sending anything. NULL is fine.
void sk_live_close(struct sk_live *live);

// The stream of a request is open: registers its client as a listener.
void sk_live_on_stream(const struct sk_context *context, struct sk_request *request);

// Registers the handle for 1 to SK_LIVE_VOUCHERS_MAX different vouchers, until it is ended or leaves. It receives the
// current state of each once that is known, unless the id of that event is last_id, which it has seen. False: out of
// memory, and it is not registered.
bool sk_live_listen(struct sk_live *live, const int64_t *voucher_ids, size_t count, uint64_t last_id, uint64_t handle);

// Sends nothing more to the handle, which may have left already.
void sk_live_leave(struct sk_live *live, uint64_t handle);

size_t sk_live_count(const struct sk_live *live);

#endif
