// The number that routes: which of 16384 slots a key belongs to, as Redis Cluster has it (cluster specification, "Key
// distribution model"): CRC16 of what stands between the key's braces, modulo 16384. PostgreSQL's rows carry the same.
#ifndef SK_BASE_SLOT_H
#define SK_BASE_SLOT_H

#include <stddef.h>
#include <stdint.h>

enum { SK_SLOTS = 16384 };

// The slot of a tag, given without its braces. Any thread.
uint16_t sk_slot(const char *tag, size_t len);

#endif
