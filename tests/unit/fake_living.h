// A fake of the lists of sessions, for units that divide work among them: two at most, this one first. None is able, so
// all living ones divide it. Included by one source of a program.
#ifndef UNIT_FAKE_LIVING_H
#define UNIT_FAKE_LIVING_H

#include "lock.h"

static struct {
    char ids[2][SK_UUID_SIZE];
    size_t count;
    size_t reads; // of the list
} fake_living;

// `count` includes this session.
static void fake_living_are(const char *own, const char *other, size_t count)
{
    memcpy(fake_living.ids[0], own, SK_UUID_SIZE);
    memcpy(fake_living.ids[1], other, SK_UUID_SIZE);
    fake_living.count = count;
}

const char (*sk_session_living(const struct sk_session *session, size_t *count))[SK_UUID_SIZE]
{
    (void)session;
    fake_living.reads++;
    *count = fake_living.count;
    return (const char(*)[SK_UUID_SIZE])fake_living.ids;
}

const char (*sk_session_others_able(const struct sk_session *session, size_t shard, size_t *count))[SK_UUID_SIZE]
{
    (void)session;
    (void)shard;
    *count = 0;
    return NULL;
}

bool sk_session_is_able(const struct sk_session *session, size_t shard)
{
    (void)session;
    (void)shard;
    return false;
}

uint64_t sk_session_lists(const struct sk_session *session)
{
    (void)session;
    return 1 + fake_living.count;
}

#endif
