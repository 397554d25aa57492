#include "assignment.h"

#include <string.h>

#include "hash.h"
#include "maintenance.h"

uint64_t sk_assignment_version(const struct sk_session *session)
{
    size_t count = 0;
    const char(*living)[SK_UUID_SIZE] = sk_session_living(session, &count);
    return count == 0 ? 1 : sk_hash(living[0], count * SK_UUID_SIZE) | 1;
}

// The owner is the living session with the highest hash of session and name.
bool sk_assignment_has(const struct sk_session *session, const char *name)
{
    size_t count = 0;
    const char(*living)[SK_UUID_SIZE] = sk_session_living(session, &count);
    const char *own = sk_session_id(session), *owner = own;
    uint64_t most = 0, words[2] = {sk_hash(name, strlen(name)), 0};
    for (size_t i = 0; i < count; i++) {
        words[1] = sk_hash(living[i], SK_UUID_CHARS);
        uint64_t hash = sk_hash((const char *)words, sizeof words);
        if (i == 0 || hash > most) {
            most = hash;
            owner = living[i];
        }
    }
    return strcmp(owner, own) == 0;
}

bool sk_assignment_has_voucher(const struct sk_session *session, uint64_t version, struct sk_voucher *voucher)
{
    struct sk_assignment *assignment = &voucher->maintenance->assignment;
    if (assignment->version != version)
        *assignment = (struct sk_assignment){.version = version, .mine = sk_assignment_has(session, voucher->tag)};
    return assignment->mine;
}
