#include "beside.h"

enum { BESIDE_MAX = 16 }; // users' questions to PostgreSQL about vouchers that are not in the catalogue, at a time

static void beside_on_followed(struct sk_talk *talk, bool ok);
static void beside_ask_for_old(struct sk_talk *talk);

void sk_beside_find(struct sk_talk *talk, int64_t id, void (*done)(struct sk_talk *talk, enum sk_beside beside))
{
    const struct sk_follow *follow = talk->control->upkeep->follow;
    talk->finding.id = id;
    talk->finding.done = done;
    if (sk_talk_find_voucher(talk, id) != NULL)
        done(talk, SK_BESIDE_FOUND);
    else if (sk_follow_complete(follow) && id <= sk_follow_newest_id(follow))
        beside_ask_for_old(talk);
    else
        sk_talk_follow(talk, beside_on_followed);
}

void sk_beside_find_later(struct sk_talk *talk, int64_t id, void (*done)(struct sk_talk *talk, enum sk_beside beside))
{
    talk->finding.id = id;
    talk->finding.done = done;
    sk_talk_follow(talk, beside_on_followed);
}

static void beside_on_followed(struct sk_talk *talk, bool ok)
{
    const struct sk_follow *follow = talk->control->upkeep->follow;
    int64_t id = talk->finding.id;
    if (!ok)
        sk_talk_end(talk, SK_VERDICT_UNAVAILABLE, NULL);
    else if (sk_talk_find_voucher(talk, id) != NULL)
        talk->finding.done(talk, SK_BESIDE_FOUND);
    else if (id <= sk_follow_newest_id(follow))
        beside_ask_for_old(talk);
    else
        talk->finding.done(talk, SK_BESIDE_UNKNOWN);
}

static void beside_ask_for_old(struct sk_talk *talk)
{
    bool counted = talk->class == SK_PG_QUESTIONS;
    if (counted && talk->control->beside_catalogue >= BESIDE_MAX) {
        sk_talk_end(talk, SK_VERDICT_OVERLOADED, NULL);
        return;
    }
    talk->control->beside_catalogue += counted;
    talk->finding.beside = counted;
    talk->finding.done(talk, SK_BESIDE_OLD);
}
