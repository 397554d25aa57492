// A fake of the reactor's session, for units that only check whether it is held. Included by one source of a program,
// together with fake_stores.h.
#ifndef UNIT_FAKE_SESSION_H
#define UNIT_FAKE_SESSION_H

#include "lock.h"

#define FAKE_SESSION "018bcfe5-6800-7000-8000-00000000005e"

static struct {
    bool lost;  // it is not held
    bool asked; // ... and was requested from Redis
} fake_session;

const char *sk_session_id(const struct sk_session *session)
{
    (void)session;
    return FAKE_SESSION;
}

bool sk_session_held(const struct sk_session *session)
{
    (void)session;
    return !fake_session.lost;
}

bool sk_session_sells(const struct sk_session *session, unsigned slot)
{
    (void)slot;
    return sk_session_held(session);
}

bool sk_session_await(struct sk_session *session)
{
    (void)session;
    return !fake_session.lost || fake_session.asked;
}

#endif
