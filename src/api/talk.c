#include "talk.h"

#include <stdlib.h>
#include <string.h>

#include "hash.h"

enum { BUCKETS = 512 };

struct sk_asker {
    struct sk_asker *next;
    uint64_t handle;
};

struct sk_talks {
    struct sk_asker askers[SK_TALK_ASKERS_MAX];
    struct sk_asker *spare;
    int used;
    struct sk_talk *buckets[BUCKETS]; // by key; those without one are in the first
    unsigned old_vouchers;            // conversations of users about vouchers that are not in the catalogue
    bool closing;
};

struct sk_talks *sk_talks_open(void)
{
    struct sk_talks *talks = calloc(1, sizeof *talks);
    if (talks == NULL)
        return NULL;
    for (int i = 0; i < SK_TALK_ASKERS_MAX; i++) {
        talks->askers[i].next = talks->spare;
        talks->spare = &talks->askers[i];
    }
    return talks;
}

void sk_talks_close(struct sk_talks *talks)
{
    if (talks == NULL)
        return;
    talks->closing = true;
    for (int i = 0; i < BUCKETS; i++) {
        while (talks->buckets[i] != NULL)
            sk_talk_end(talks->buckets[i], SK_VERDICT_UNAVAILABLE, NULL);
    }
    SK_ASSERT(talks->old_vouchers == 0);
    free(talks);
}

// ---- beginning ----

static struct sk_talk **talk_bucket(struct sk_talks *talks, const char *key)
{
    return &talks->buckets[key[0] == '\0' ? 0 : 1 + sk_hash(key, strlen(key)) % (BUCKETS - 1)];
}

static struct sk_talk *talk_find(struct sk_talks *talks, const char *key)
{
    struct sk_talk *talk = *talk_bucket(talks, key);
    while (talk != NULL && strcmp(talk->key, key) != 0)
        talk = talk->next;
    return talk;
}

static void talk_add_asker(struct sk_talks *talks, struct sk_asker **list, uint64_t handle)
{
    struct sk_asker *asker = talks->spare;
    talks->spare = asker->next;
    talks->used++;
    *asker = (struct sk_asker){.next = *list, .handle = handle};
    *list = asker;
}

static void talk_spare(struct sk_talks *talks, struct sk_asker *asker)
{
    asker->next = talks->spare;
    talks->spare = asker;
    talks->used--;
}

static bool talk_has_place(const struct sk_talks *talks, enum sk_pg_class class)
{
    return talks->used < SK_TALK_ASKERS_MAX - (int)class * SK_TALK_RESERVE;
}

static struct sk_talk *talk_make(struct sk_control *control, enum sk_pg_class class, uint64_t handle, const char *key,
                                 size_t size, void (*start)(struct sk_talk *talk))
{
    struct sk_talks *talks = control->talks;
    bool full = !talk_has_place(talks, class) || talks->closing;
    struct sk_talk *talk = full ? NULL : calloc(1, size);
    sk_metrics_add(control->sale->metrics, talk == NULL ? SK_METRIC_QUESTIONS_FULL : SK_METRIC_QUESTIONS, 1);
    if (talk == NULL)
        return NULL;
    talk->control = control;
    talk->class = class;
    talk->start = start;
    memcpy(talk->key, key, strlen(key) + 1);
    talk_add_asker(talks, &talk->askers, handle);
    struct sk_talk **bucket = talk_bucket(talks, talk->key);
    talk->next = *bucket;
    if (talk->next != NULL)
        talk->next->previous = talk;
    *bucket = talk;
    return talk;
}

void *sk_talk_new(struct sk_control *control, enum sk_pg_class class, uint64_t handle, const char *key, size_t size,
                  void (*start)(struct sk_talk *talk))
{
    struct sk_talks *talks = control->talks;
    struct sk_talk *same = key == NULL ? NULL : talk_find(talks, key);
    SK_ASSERT(size >= sizeof *same && (key == NULL || strlen(key) < SK_TALK_KEY_SIZE));
    if (same != NULL && talk_has_place(talks, class)) {
        talk_add_asker(talks, &same->later, handle);
        return NULL;
    }
    struct sk_talk *talk = talk_make(control, class, handle, key == NULL ? "" : key, size, start);
    if (talk == NULL)
        sk_control_answer(control, handle, &(struct sk_answer){.verdict = SK_VERDICT_OVERLOADED});
    return talk;
}

void *sk_talk_try_new(struct sk_control *control, uint64_t handle, size_t size, void (*start)(struct sk_talk *talk))
{
    return talk_make(control, SK_PG_QUESTIONS, handle, "", size, start);
}

void sk_talk_start(struct sk_talk *talk)
{
    talk->start(talk);
}

// ---- steps ----

void sk_talk_ask_pg(struct sk_talk *talk, enum sk_statement statement, int n, const char *const *params, sk_pg_cb *done)
{
    enum sk_status status = sk_pg_call_as(talk->control->sale->ask_pg, talk->class, statement, n, params, done, talk);
    if (status != SK_OK)
        sk_talk_end(talk, status == SK_DOWN ? SK_VERDICT_UNAVAILABLE : SK_VERDICT_OVERLOADED, NULL);
}

static void talk_followed(struct sk_follow_waiter *waiter, bool ok)
{
    struct sk_talk *talk = (struct sk_talk *)(void *)((char *)waiter - offsetof(struct sk_talk, waiter));
    talk->on_followed(talk, ok);
}

void sk_talk_follow(struct sk_talk *talk, void (*done)(struct sk_talk *talk, bool ok))
{
    talk->waiter.done = talk_followed;
    talk->on_followed = done;
    sk_follow_wait(talk->control->upkeep->follow, &talk->waiter);
}

static void talk_let_go(struct sk_talk *talk)
{
    if (talk->voucher != NULL)
        sk_voucher_unpin(talk->voucher);
    talk->voucher = NULL;
}

struct sk_voucher *sk_talk_find_voucher(struct sk_talk *talk, int64_t id)
{
    talk_let_go(talk);
    talk->voucher = sk_catalogue_find(talk->control->sale->catalogue, id);
    if (talk->voucher != NULL)
        sk_voucher_pin(talk->voucher);
    return talk->voucher;
}

// ---- answering and ending ----

void sk_control_answer(struct sk_control *control, uint64_t handle, const struct sk_answer *answer)
{
    control->on_answer(control->routes, handle, answer);
}

void sk_talk_answer(struct sk_talk *talk, const struct sk_answer *answer)
{
    struct sk_control *control = talk->control;
    struct sk_asker *asker;
    while ((asker = talk->askers) != NULL) {
        uint64_t handle = asker->handle;
        talk->askers = asker->next;
        talk_spare(control->talks, asker);
        sk_control_answer(control, handle, answer);
    }
}

uint64_t sk_talk_take_handle(struct sk_talk *talk)
{
    struct sk_asker *asker = talk->askers;
    if (asker == NULL)
        return 0;
    SK_ASSERT(asker->next == NULL && talk->key[0] == '\0');
    talk->askers = NULL;
    talk_spare(talk->control->talks, asker);
    return asker->handle;
}

static void talk_free(struct sk_talk *talk)
{
    struct sk_talk **bucket = talk_bucket(talk->control->talks, talk->key);
    if (talk->previous != NULL)
        talk->previous->next = talk->next;
    else
        *bucket = talk->next;
    if (talk->next != NULL)
        talk->next->previous = talk->previous;
    sk_buf_free(&talk->body);
    free(talk);
}

void sk_talk_end_with(struct sk_talk *talk, const struct sk_answer *answer)
{
    static const struct sk_answer overloaded = {.verdict = SK_VERDICT_OVERLOADED};
    if (talk->release != NULL)
        talk->release(talk);
    talk->control->talks->old_vouchers -= talk->finding.beside;
    talk->finding.beside = false;
    talk_let_go(talk);
    sk_talk_answer(talk, talk->body.failed ? &overloaded : answer);
    talk->askers = talk->later;
    talk->later = NULL;
    if (talk->askers == NULL) {
        talk_free(talk);
    } else if (talk->control->talks->closing) {
        sk_talk_end(talk, SK_VERDICT_UNAVAILABLE, NULL);
    } else {
        sk_buf_clear(&talk->body);
        talk->start(talk);
    }
}

void sk_talk_end(struct sk_talk *talk, enum sk_verdict verdict, const char *body)
{
    struct sk_answer answer = {.verdict = verdict, .body = body};
    sk_talk_end_with(talk, &answer);
}

// ---- finding a voucher ----

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
    if (counted && talk->control->talks->old_vouchers >= BESIDE_MAX) {
        sk_talk_end(talk, SK_VERDICT_OVERLOADED, NULL);
        return;
    }
    talk->control->talks->old_vouchers += counted;
    talk->finding.beside = counted;
    talk->finding.done(talk, SK_BESIDE_OLD);
}
