// What the operating system says of this process.
#ifndef SK_BASE_PROCESS_H
#define SK_BASE_PROCESS_H

#include <stdint.h>

struct sk_process {
    uint64_t cpu_us; // of all threads, since its start
    uint64_t resident_bytes, virtual_bytes;
    uint64_t open_fds, max_fds;
};

// Any thread. What cannot be known is 0.
void sk_process_read(struct sk_process *process);

#endif
