// The troubles of a world: what goes wrong, when, and for how long. They are drawn before the world begins, so each one
// can be left out, and the others stay.
#ifndef SIM_TROUBLE_H
#define SIM_TROUBLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TROUBLES_MAX = 32 };

// Draws them, for the next so many ns. Those whose bit is set in `without` do not happen.
void troubles_begin(uint64_t for_ns, uint64_t without);
size_t troubles_count(void);
// When the last of the long ones is over: those of up to ten minutes, of which few worlds have one.
uint64_t troubles_over_at(void);

// Looks whether something is wrong now; call it twice a second. Returns for how long the stores, and at least one
// instance, have been well.
uint64_t troubles_calm(void);

// Ends all of them: the stores are well, paused instances go on, at least one instance runs.
void troubles_end(void);

#endif
