// The slot routes a key. It is one of 16384, as in Redis Cluster (cluster specification, "Key distribution model"):
// CRC16 of the text between the key's braces, modulo 16384. PostgreSQL's rows carry the same number.
#ifndef SK_BASE_SLOT_H
#define SK_BASE_SLOT_H

#include <stddef.h>
#include <stdint.h>

enum { SK_SLOTS = 16384 };

// The slot of a tag, given without its braces. Any thread.
uint16_t sk_slot(const char *tag, size_t len);

#endif
