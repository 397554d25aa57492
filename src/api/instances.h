// The instances of this deployment, from Redis: the living sessions, and what each has reported (roster.h).
//
// The reactor's thread.
#ifndef SK_API_INSTANCES_H
#define SK_API_INSTANCES_H

#include "call.h"
#include "query.h"

sk_handle sk_handle_instances;

// Answers the handle once: FOUND and the list; UNAVAILABLE; OVERLOADED.
void sk_list_instances(struct sk_control *control, uint64_t handle);

#endif
