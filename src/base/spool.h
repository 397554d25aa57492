// Lines for a file descriptor that may be slow: threads put them down without waiting, and a thread of the spool writes
// them out. What there is no room for is dropped and counted.
#ifndef SK_BASE_SPOOL_H
#define SK_BASE_SPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SK_SPOOL_LINE_MAX = 512 }; // bytes, with the newline

struct sk_spool;
struct sk_spool_lane; // of one thread

// The main thread. Gives a spool with so many lanes for `fd`, which stays the caller's and is the same for all of
// them; `what`, a constant, names the lines in the log. NULL: out of memory, or no thread.
struct sk_spool *sk_spool_open(int fd, size_t lanes, const char *what);

// Borrowed. Each lane has one thread that puts lines.
struct sk_spool_lane *sk_spool_lane(struct sk_spool *spool, size_t number);

// The lane's thread. One whole line, which ends with a newline and is the only one. Never waits.
void sk_spool_put(struct sk_spool_lane *lane, const char *line, size_t len);

// Any thread: lines that had no room, or could not be written, of all lanes and of one.
uint64_t sk_spool_dropped(const struct sk_spool *spool);
uint64_t sk_spool_lane_dropped(const struct sk_spool_lane *lane);

// The main thread, when no lane has a thread any more. Writes what is left, for at most `ms`; what is left then is
// dropped. False: the thread is stuck in a write that cannot be called off. What it needs is left behind. NULL is fine.
bool sk_spool_close(struct sk_spool *spool, unsigned ms);

#endif
