// What an admin commands about vouchers.
#ifndef SK_CONTROL_COMMANDS_H
#define SK_CONTROL_COMMANDS_H

#include "talk.h"

// Rebuilds the voucher in Redis from PostgreSQL, which closes it for a moment. One that was retired is loaded again.
// Answers its ticket once: FOUND with the voucher; LOADING if another is at it.
void sk_command_rebuild(struct sk_control *control, int64_t voucher_id, uint64_t ticket);

#endif
