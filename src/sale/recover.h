// Recovery: settles journal entries whose instance did not live to settle them.
#ifndef SK_SALE_RECOVER_H
#define SK_SALE_RECOVER_H

#include "core.h"
#include "writer.h"

struct sk_recover;

// The reactor's thread. NULL: out of memory. The writer is set once it exists.
struct sk_recover *sk_recover_open(const struct sk_core *core);
void sk_recover_set_writer(struct sk_recover *recover, struct sk_writer *writer);
void sk_recover_close(struct sk_recover *recover); // after the links were closed

// The writer says: one recovered entry is settled. arg is the sk_recover.
void sk_recover_settled(void *arg);

// Reads the orders of a journal entry ("id user,id user,..."): calls `each` for every order and returns
// their number, or -1 if the text is not of that form (then `each` may have run for a part: ask with
// each == NULL first).
int sk_recover_parse(const char *orders, size_t len, void (*each)(void *arg, const char *id, const char *user),
                     void *arg);

#endif
