// Which instances the living sessions belong to, for people. Each session writes it into a hash of Redis after it was
// taken, and then once a minute, so that lost entries come back. Nothing depends on it.
//
// The reactor's thread, as all functions.
#ifndef SK_RECOVERY_INSTANCES_H
#define SK_RECOVERY_INSTANCES_H

#include "sale.h"

struct sk_instances;

// NULL: out of memory.
struct sk_instances *sk_instances_open(const struct sk_sale *sale);
void sk_instances_close(struct sk_instances *instances); // after the links were closed; NULL is fine

// The text of a session: "version+scopes start ttl name", with blanks between; versions that know no scopes do not say
// so. Times in ms, the start as Unix time; the name is the machine's with the port that it listens on.
enum { SK_INSTANCE_WORD_MAX = 79 }; // of version and name, characters

struct sk_instance {
    char version[SK_INSTANCE_WORD_MAX + 1], name[SK_INSTANCE_WORD_MAX + 1]; // of A-Z a-z 0-9 . _ : + ~ -
    uint64_t started_ms, ttl_ms;
    bool scopes; // it knows vouchers that share a scope
};

// Any thread. The name of the instance that listens there; NULL: without a port.
void sk_instances_name(const char *listen, char name[SK_INSTANCE_WORD_MAX + 1]);

// Any thread. False: the text is not valid.
bool sk_instances_read(const char *text, struct sk_instance *instance);

// Any thread. Whether each session in a reply of list_instances.lua knows scopes. One that has written no text yet does
// not.
bool sk_instances_know_scopes(const struct sk_reply *reply);

#endif
