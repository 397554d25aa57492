// Named points where a test build can kill, stop or pause itself, so that a fault hits a chosen step and not a random
// one. Other builds contain none of this.
//
// SECKILL_FAILPOINTS="name=action[@n];...", read when a point is first passed. The action runs once, at the n-th
// passing of its point (1st without @n): kill (SIGKILL to ourselves), stop (SIGSTOP) or pause:<ms>.
// SECKILL_FAIL_MALLOC="n", "n@request" or "n@name": the n-th allocation of our own code fails, once; "n+": with all
// after it. It counts from the start, from the first order, or from the first passing of the point `name`.
#ifndef SK_BASE_FAILPOINT_H
#define SK_BASE_FAILPOINT_H

#ifdef SK_FAILPOINTS
void sk_failpoint(const char *name); // any thread
#define SK_FAILPOINT(name) sk_failpoint(name)
#else
#define SK_FAILPOINT(name) ((void)0)
#endif

#endif
