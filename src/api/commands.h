// What an admin commands about vouchers.
#ifndef SK_API_COMMANDS_H
#define SK_API_COMMANDS_H

#include "talk.h"

// The reactor's thread. Rebuilds the voucher in Redis from PostgreSQL, which closes it for a moment. One that was
// retired is loaded again, closed. Answers its handle once: FOUND with the voucher; LOADING if a rebuild is in progress
// elsewhere or has failed; ARCHIVED; UNKNOWN_VOUCHER; UNAVAILABLE; OVERLOADED.
void sk_command_rebuild(struct sk_control *control, int64_t voucher_id, uint64_t handle);

#endif
