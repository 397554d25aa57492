// What an admin does about dead letters. Each call answers its ticket once.
#ifndef SK_CONTROL_LETTERS_H
#define SK_CONTROL_LETTERS_H

#include "talk.h"

// The reactor's thread, as all calls.
void sk_letters_list(struct sk_control *control, int64_t voucher_id, uint64_t ticket);

// Tries to settle the letter's orders again. Answers when they are on their way, not when they are settled.
void sk_letters_requeue(struct sk_control *control, int64_t voucher_id, int64_t letter, uint64_t ticket);

// Refuses the letter's orders, permanently; their units return.
void sk_letters_write_off(struct sk_control *control, int64_t voucher_id, int64_t letter, uint64_t ticket);

#endif
