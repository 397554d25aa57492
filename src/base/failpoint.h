// Named points at which a test build can be made to die, stop or pause, so that a fault hits a certain step
// and not a lucky moment. Other builds contain none of this.
//
// SECKILL_FAILPOINTS="name=action[@n];...", read at the first passing: at the n-th passing (1st without @n) of
// the point, once: kill (SIGKILL to ourselves), stop (SIGSTOP) or pause:<ms>.
// SECKILL_FAIL_MALLOC="n", "n@request" or "n@name": the n-th allocation of our own code fails, once; counted from the
// start, from the first order on, or from the first passing of the point of that name on.
#ifndef SK_BASE_FAILPOINT_H
#define SK_BASE_FAILPOINT_H

#ifdef SK_FAILPOINTS
void sk_failpoint(const char *name); // any thread
#define SK_FAILPOINT(name) sk_failpoint(name)
#else
#define SK_FAILPOINT(name) ((void)0)
#endif

#endif
