// Tells the service manager whether the reactors are ready, and turn. The main thread, as all functions.
#ifndef SK_APP_SUPERVISOR_H
#define SK_APP_SUPERVISOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "notify.h"
#include "reactor.h"

enum { SK_SUPERVISED_MAX = 65 }; // reactors: as many as the configuration allows, and the operators' one

// Private.
struct sk_supervisor {
    struct sk_notify notify;
    struct sk_reactor *const *reactors; // borrowed
    size_t count;
    uint64_t beats[SK_SUPERVISED_MAX]; // of each reactor, when all were last seen to turn
    uint64_t sent_ms;                  // when that was
    uint64_t extend_ms;                // when the start, or the end, was last given more time
    bool ready_sent, ready, stuck, stopping;
};

// Before the threads start. SK_FAIL: the manager cannot be reached. In any case pass *supervisor to
// sk_supervisor_close().
enum sk_status sk_supervisor_open(struct sk_supervisor *supervisor) SK_MUST_CHECK;
void sk_supervisor_close(struct sk_supervisor *supervisor);

// The started reactors; they must stay until the end.
void sk_supervisor_reactors(struct sk_supervisor *supervisor, struct sk_reactor *const *reactors, size_t count);

// Checks the reactors and notifies the manager. Returns in how many ms to call again.
int64_t sk_supervisor_check(struct sk_supervisor *supervisor);

// Around a reload: the manager waits until it is over.
void sk_supervisor_reloading(struct sk_supervisor *supervisor);
void sk_supervisor_reloaded(struct sk_supervisor *supervisor);

// The instance ends, and its reactors are not stopped yet.
void sk_supervisor_stopping(struct sk_supervisor *supervisor);
// Waits until all reactors have ended, and meanwhile notifies the manager whether they turn.
void sk_supervisor_end(struct sk_supervisor *supervisor);

#endif
