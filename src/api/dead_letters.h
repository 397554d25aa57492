// The admin's calls on dead letters. Each call answers its handle once.
#ifndef SK_API_DEAD_LETTERS_H
#define SK_API_DEAD_LETTERS_H

#include "call.h"
#include "page.h"

sk_handle sk_handle_dead_letters, sk_handle_requeue, sk_handle_write_off;

// The reactor's thread, as all calls. A page of the dead letters that wait for a decision, oldest first. It may be
// shorter than asked for if dead letters are large.
void sk_dead_letters_list(struct sk_control *control, int64_t voucher_id, const struct sk_page_asked *ask,
                          uint64_t handle);

// Settles the dead letter's orders again. Answers when they are queued, not when they are settled.
void sk_dead_letters_requeue(struct sk_control *control, int64_t voucher_id, int64_t letter, uint64_t handle);

// Refuses the dead letter's orders permanently; their units return.
void sk_dead_letters_write_off(struct sk_control *control, int64_t voucher_id, int64_t letter, uint64_t handle);

#endif
