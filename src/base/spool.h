// Writes lines to a file descriptor that may be slow. Threads put lines without waiting, and the spool's thread writes
// them. Lines that find no room are dropped and counted.
#ifndef SK_BASE_SPOOL_H
#define SK_BASE_SPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SK_SPOOL_LINE_MAX = 512 }; // bytes, with the newline

struct sk_spool;
struct sk_spool_lane; // for one thread

// The main thread. Gives a spool with `lanes` lanes for `fd`, which the caller keeps and all lanes share. `what`, a
// constant, is the log message for dropped lines. NULL: out of memory, or no thread.
struct sk_spool *sk_spool_open(int fd, size_t lanes, const char *what);

// Borrowed. Each lane has one thread that puts lines.
struct sk_spool_lane *sk_spool_lane(struct sk_spool *spool, size_t number);

// The lane's thread. `line` is exactly one line and ends with a newline. Never waits.
void sk_spool_put(struct sk_spool_lane *lane, const char *line, size_t len);

// Any thread. The lines that found no room or could not be written: of all lanes, and of one.
uint64_t sk_spool_dropped(const struct sk_spool *spool);
uint64_t sk_spool_lane_dropped(const struct sk_spool_lane *lane);

// The main thread, when no lane has a thread any more. Writes the remaining lines for at most `ms`, then drops the
// rest. False: the spool's thread is stuck in a write that cannot be cancelled, so its memory is not freed. NULL is
// fine.
bool sk_spool_close(struct sk_spool *spool, unsigned ms);

#endif
