// How all instances are now, and what they did in the last hour: GET /admin/history.
//
// Every five seconds one reactor of a process adds up what the process counts (metrics.h), writes it into a hash of
// Redis, and reads there what all instances have written. The sums of all of them become a sample in a ring in the
// memory of each process. So any instance answers for all, without asking a store; and while Redis is away it goes on
// with its own figures alone. Nothing depends on it.
#ifndef SK_API_HISTORY_H
#define SK_API_HISTORY_H

#include "call.h"

enum { SK_HISTORY_MS = 5000, SK_HISTORY_SAMPLES = 720, SK_HISTORY_INSTANCES = 64 };

// The ring of a process. Any thread, as all functions of it. NULL: out of memory.
struct sk_history *sk_history_open(void);
void sk_history_close(struct sk_history *history); // NULL is fine

// Answers with the ring. It asks no store.
sk_handle sk_handle_history;

// ---- sampler ----
//
// The reactor's thread, as all functions.

struct sk_sampler;

// Adds a sample to the ring every SK_HISTORY_MS. Borrows both; the context has its control plane. NULL: out of memory.
struct sk_sampler *sk_sampler_open(struct sk_history *history, const struct sk_context *context);

// The process ends: the others need not miss it.
void sk_sampler_leave(struct sk_sampler *sampler);

// Adds no more samples. Before the links are closed.
void sk_sampler_stop(struct sk_sampler *sampler);
void sk_sampler_close(struct sk_sampler *sampler); // after the links were closed; NULL is fine

#endif
