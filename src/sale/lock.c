// At most one call of session_keep.lua is in progress. It is repeated every third of the TTL, at least once a second,
// and at once when the link becomes ready or the session was found lost.
//
// The node of the sessions is *away* from the moment when its link is lost, when another node or none has their slot,
// when it answers with an error, or when the lease ends before a renewal is answered. It is so until a node carries out
// session_keep.lua. A process that was paused meanwhile for a TTL does not sell on: when the node is back, the others
// may have judged its session.
#include "lock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backoff.h"
#include "clock.h"
#include "keys.h"
#include "list.h"
#include "log.h"
#include "params.h"
#include "timer.h"

enum { TOKEN_SIZE = 33, PROCESS_SIZE = 17, TICK_MS = 20, RENEW_MOST_MS = 1000, LIVING_MAX = 4096 };
enum { KEEP_KEYS = 5 + SK_SHARDS_MAX, KEEP_ARGS = KEEP_KEYS + 7 + SK_SHARDS_MAX };
enum { ABLE_SIZE = SK_UUID_CHARS + PROCESS_SIZE + 1 }; // an element of a list of able sessions: "id process"

// NONE -> TAKING -> HELD -> NONE (lost) ...; from each of them ENDING -> ENDED.
enum session_state { SESSION_NONE, SESSION_TAKING, SESSION_HELD, SESSION_ENDING, SESSION_ENDED };

// The sessions that are able to work in a shard.
struct session_able {
    bool own;                     // this session is
    bool elsewhere;               // one of the others is of another process
    char (*others)[SK_UUID_SIZE]; // sorted; owned
    size_t count;
    char key[SK_KEY_SIZE];
};

struct sk_session {
    const struct sk_nodes *nodes;
    struct sk_metrics *metrics;
    struct sk_timer *tick;
    enum session_state state;
    uint32_t ttl_ms;
    bool asking;          // a call of session_keep.lua is in progress
    uint64_t asked_at_ms; // when that call, or the last one, was sent
    uint64_t asked_run;   // ... and to which Redis process
    uint64_t run_number;  // the one that has acknowledged it
    uint64_t ready_run;   // the Redis process that the link is ready with; 0: it is not
    bool away;            // it was held when its node went away
    uint64_t ticked_at_ms;
    uint64_t held_until_ms; // by the monotonic clock, as all times here
    uint64_t renew_at_ms;
    uint64_t taken_at_ms, ready_at_ms; // no session is judged within a TTL of either; ready: or no longer away
    uint64_t takings;
    struct sk_backoff retry;
    char (*living)[SK_UUID_SIZE]; // sorted; owned
    size_t living_count;
    uint64_t deaths;
    struct session_able able[SK_SHARDS_MAX];
    size_t shards;
    uint64_t lists; // changes of these lists
    char id[SK_UUID_SIZE];
    char as_able[ABLE_SIZE];
    char token[TOKEN_SIZE];
    char ttl[12];
    char key[SK_KEY_SIZE];
};

static void session_keep(struct sk_session *session);

static void session_move(struct sk_session *session, enum session_state state)
{
#define TO(name) (1U << SESSION_##name)
    static const unsigned allowed[SESSION_ENDED + 1] = {
        [SESSION_NONE] = TO(TAKING) | TO(ENDING),
        [SESSION_TAKING] = TO(HELD) | TO(NONE) | TO(ENDING),
        [SESSION_HELD] = TO(NONE) | TO(ENDING),
        [SESSION_ENDING] = TO(ENDED),
    };
#undef TO
    SK_ASSERT((allowed[session->state] & 1U << state) != 0);
    session->state = state;
}

static struct sk_redis *session_redis(const struct sk_session *session)
{
    return sk_nodes_orders(session->nodes, SK_SHARED_SLOT);
}

// ---- the state ----

const char *sk_session_id(const struct sk_session *session)
{
    return session->id;
}

static bool session_was_paused(const struct sk_session *session)
{
    return sk_monotonic_ms() >= session->ticked_at_ms + session->ttl_ms;
}

// Whether the session was held until now, whichever node has its slot now. If its lease has ended, it was so only if a
// renewal was in progress, in a process that ran.
static bool session_was_held(const struct sk_session *session)
{
    return session->state == SESSION_HELD &&
           (sk_monotonic_ms() < session->held_until_ms || (session->asking && !session_was_paused(session)));
}

bool sk_session_held(const struct sk_session *session)
{
    return session->state == SESSION_HELD && session->run_number == sk_redis_run_number(session_redis(session)) &&
           sk_monotonic_ms() < session->held_until_ms;
}

bool sk_session_away(const struct sk_session *session)
{
    return session->away ||
           (sk_nodes_is_cluster(session->nodes) && session_was_held(session) && !sk_session_held(session));
}

bool sk_session_sells(const struct sk_session *session, unsigned slot)
{
    return sk_session_held(session) ||
           (sk_session_away(session) &&
            sk_nodes_number(session->nodes, slot) != sk_nodes_number(session->nodes, SK_SHARED_SLOT));
}

uint64_t sk_session_taken(const struct sk_session *session)
{
    return session->takings;
}

static void session_goes_away(struct sk_session *session)
{
    session->away = session->away || (sk_nodes_is_cluster(session->nodes) && session_was_held(session));
}

// ---- the other sessions ----

static int session_compare_ids(const void *a, const void *b)
{
    return strcmp(a, b);
}

static bool session_is_among(const char *id, const char (*ids)[SK_UUID_SIZE], size_t count)
{
    return count > 0 && bsearch(id, ids, count, SK_UUID_SIZE, session_compare_ids) != NULL;
}

// Takes over a sorted list, and frees the old one. True: they differ.
static bool session_replace(char (**list)[SK_UUID_SIZE], size_t *count, char (*with)[SK_UUID_SIZE], size_t with_count)
{
    bool differs = with_count != *count || (with_count > 0 && memcmp(with, *list, with_count * SK_UUID_SIZE) != 0);
    free(*list);
    *list = with;
    *count = with_count;
    return differs;
}

static size_t session_list_size(const struct sk_reply *reply)
{
    size_t count = sk_reply_count(reply);
    return count < LIVING_MAX ? count : LIVING_MAX;
}

// Skips what is no session id. This session is in the list whatever Redis returns.
static bool session_read_living(struct sk_session *session, const struct sk_reply *reply)
{
    size_t most = session_list_size(reply), count = 0;
    char(*living)[SK_UUID_SIZE] = calloc(most + 1, SK_UUID_SIZE);
    if (living == NULL)
        return false; // the list of the last renewal stays
    memcpy(living[count++], session->id, SK_UUID_SIZE);
    for (size_t i = 0; i < most; i++) {
        const char *id = sk_reply_text(sk_reply_at(reply, i), NULL);
        if (id != NULL && sk_uuid_valid(id) && strcmp(id, session->id) != 0)
            memcpy(living[count++], id, SK_UUID_SIZE);
    }
    qsort(living, count, SK_UUID_SIZE, session_compare_ids);
    for (size_t i = 0; i < session->living_count; i++)
        session->deaths += !session_is_among(session->living[i], (const char(*)[SK_UUID_SIZE])living, count);
    return session_replace(&session->living, &session->living_count, living, count);
}

// Skips this session, and entries that name no session.
static bool session_read_able(const struct sk_session *session, struct session_able *able, const struct sk_reply *reply)
{
    size_t most = session_list_size(reply), count = 0;
    const char *process = session->as_able + SK_UUID_SIZE;
    char(*others)[SK_UUID_SIZE] = calloc(most + 1, SK_UUID_SIZE);
    if (others == NULL)
        return false; // the same
    able->elsewhere = false;
    for (size_t i = 0; i < most; i++) {
        const char *text = sk_reply_text(sk_reply_at(reply, i), NULL);
        if (text == NULL || strlen(text) != ABLE_SIZE - 1 || text[SK_UUID_CHARS] != ' ')
            continue;
        memcpy(others[count], text, SK_UUID_CHARS);
        if (!sk_uuid_valid(others[count]) || strcmp(others[count], session->id) == 0)
            continue;
        able->elsewhere = able->elsewhere || strcmp(text + SK_UUID_SIZE, process) != 0;
        count++;
    }
    qsort(others, count, SK_UUID_SIZE, session_compare_ids);
    return session_replace(&able->others, &able->count, others, count);
}

static void session_read_lists(struct sk_session *session, const struct sk_reply *reply)
{
    bool changed = session_read_living(session, sk_reply_at(reply, 1));
    for (size_t i = 0; i < session->shards; i++)
        changed |= session_read_able(session, &session->able[i], sk_reply_at(reply, 2 + i));
    session->lists += changed;
}

const char (*sk_session_living(const struct sk_session *session, size_t *count))[SK_UUID_SIZE]
{
    *count = session->living_count;
    return (const char(*)[SK_UUID_SIZE])session->living;
}

bool sk_session_lives(const struct sk_session *session, const char *id)
{
    return session_is_among(id, (const char(*)[SK_UUID_SIZE])session->living, session->living_count);
}

uint64_t sk_session_deaths(const struct sk_session *session)
{
    return session->deaths;
}

uint64_t sk_session_lists(const struct sk_session *session)
{
    return session->lists;
}

// ---- taking and renewing ----

static void session_lose(struct sk_session *session, const char *why)
{
    sk_metrics_add(session->metrics, SK_METRIC_SESSIONS_LOST, 1);
    sk_log(SK_LOG_WARN, "session lost", "session=%s reason=\"%s\"", session->id, why);
    session_move(session, SESSION_NONE);
    session->renew_at_ms = 0;
}

static void session_log_refusal(const struct sk_reply *reply)
{
    const char *error = sk_reply_error(reply), *protocol = sk_reply_text(sk_reply_at(reply, 1), NULL);
    if (error == NULL && protocol != NULL)
        sk_log_repeat(SK_LOG_ERROR, "instances of another protocol version run; end them first", "version", protocol);
    else
        sk_log_repeat(SK_LOG_WARN, "Redis gives no session", "reason", error != NULL ? error : "it is another's");
}

static void session_on_taken(struct sk_session *session, bool granted, const struct sk_reply *reply)
{
    uint64_t now = sk_monotonic_ms();
    if (!granted) {
        session_move(session, SESSION_NONE);
        session->renew_at_ms = now + sk_backoff_next(&session->retry);
        if (reply != NULL)
            session_log_refusal(reply);
        return;
    }
    sk_backoff_reset(&session->retry);
    session_move(session, SESSION_HELD);
    session->run_number = session->asked_run;
    session->held_until_ms = session->asked_at_ms + session->ttl_ms;
    session->taken_at_ms = now;
    session->takings++;
    session_read_lists(session, reply);
    sk_log(SK_LOG_INFO, "session taken", "session=%s ttl_ms=%" PRIu32, session->id, session->ttl_ms);
}

// An error says nothing about the session: the node is not the right one, or refuses all writes (NOREPLICAS, MISCONF,
// OOM), so the others' sessions are not renewed either.
static void session_note_node(struct sk_session *session, const struct sk_reply *reply)
{
    if (sk_reply_error(reply) != NULL) {
        session_goes_away(session);
    } else if (session->away) {
        session->away = false;
        session->ready_at_ms = sk_monotonic_ms(); // the others need time to renew theirs
    }
}

static void session_on_kept(void *arg, const struct sk_reply *reply)
{
    struct sk_session *session = arg;
    int64_t answer = 0;
    bool answered = reply != NULL && sk_reply_number(sk_reply_at(reply, 0), &answer);
    session->asking = false;
    if (reply != NULL)
        session_note_node(session, reply);
    if (session->state == SESSION_TAKING) {
        session_on_taken(session, answer == 1, reply);
    } else if (session->state == SESSION_HELD && answered && answer == 0) {
        session_lose(session, "Redis has lost it");
    } else if (session->state == SESSION_HELD && answer == 1) {
        session->held_until_ms = session->asked_at_ms + session->ttl_ms;
        session_read_lists(session, reply);
    }
    session_keep(session); // if lost, or answered too late, asks again at once
}

static void session_ask(struct sk_session *session, const char *how)
{
    char shards[SK_PARAM_NUMBER_SIZE];
    const char *argv[KEEP_ARGS] = {session->key, SK_KEY_SESSIONS, SK_KEY_PROTOCOL, SK_KEY_CLOCK};
    int keys = 4;
    for (size_t i = 0; i < session->shards; i++)
        argv[keys++] = session->able[i].key;
    if (!sk_nodes_is_cluster(session->nodes)) // version 4 knew no cluster, and its key has another slot
        argv[keys++] = SK_KEY_SESSIONS_4;
    int n = keys;
    argv[n++] = session->token;
    argv[n++] = session->ttl;
    argv[n++] = session->id;
    argv[n++] = how;
    argv[n++] = SK_PROTOCOL;
    argv[n++] = session->as_able;
    argv[n++] = sk_params_number(shards, (int64_t)session->shards);
    for (size_t i = 0; i < session->shards; i++)
        argv[n++] = session->able[i].own ? "1" : "0";
    uint64_t now = sk_monotonic_ms(); // read before sending: Redis's TTL starts later
    if (sk_redis_script(session_redis(session), SK_SCRIPT_SESSION_KEEP, keys, n, argv, NULL, session_on_kept,
                        session) != SK_OK)
        return; // the next tick tries again
    session->asking = true;
    session->asked_at_ms = now;
    session->asked_run = sk_redis_run_number(session_redis(session));
    session->renew_at_ms = now + (session->ttl_ms / 3 < RENEW_MOST_MS ? session->ttl_ms / 3 : RENEW_MOST_MS);
    if (session->state == SESSION_NONE)
        session_move(session, SESSION_TAKING);
}

static void session_keep(struct sk_session *session)
{
    uint64_t now = sk_monotonic_ms();
    if (session->state == SESSION_HELD && !sk_session_held(session)) {
        session_goes_away(session);
        session_lose(session, now < session->held_until_ms ? "Redis is another process" : "not renewed in time");
    }
    if (session->asking || now < session->renew_at_ms || !sk_redis_ready(session_redis(session)))
        return;
    if (session->state == SESSION_NONE)
        session_ask(session, "take");
    else if (session->state == SESSION_HELD)
        session_ask(session, "renew");
}

void sk_session_link(struct sk_session *session)
{
    const struct sk_redis *redis = session_redis(session);
    uint64_t run = sk_redis_ready(redis) ? sk_redis_run_number(redis) : 0;
    if (run != session->ready_run) {
        session->ready_run = run;
        if (run == 0) {
            session_goes_away(session); // calls in progress are answered with NULL
        } else {
            session->ready_at_ms = sk_monotonic_ms();
            session->renew_at_ms = 0;
        }
    }
    session_keep(session);
}

bool sk_session_await(struct sk_session *session)
{
    if (sk_session_held(session))
        return true;
    session_keep(session);
    return session->asking && session->state != SESSION_ENDING;
}

static void session_on_tick(void *arg)
{
    struct sk_session *session = arg;
    session->away = session->away && !session_was_paused(session);
    sk_session_link(session); // the slot may have another node, too
    session->ticked_at_ms = sk_monotonic_ms();
}

struct sk_session *sk_session_open(uv_loop_t *loop, const struct sk_nodes *nodes, struct sk_metrics *metrics,
                                   const struct sk_session_options *options)
{
    struct sk_session *session = calloc(1, sizeof *session);
    struct sk_uuid_gen ids = {0};
    uint64_t random[2];
    if (session != NULL)
        session->tick = sk_timer_open(loop, TICK_MS, session_on_tick, session);
    if (session == NULL || session->tick == NULL) {
        sk_session_close(session);
        return NULL;
    }
    sk_uuid_next(&ids, session->id);
    sk_random_bytes(random, sizeof random);
    session->nodes = nodes;
    session->ticked_at_ms = sk_monotonic_ms();
    session->metrics = metrics;
    session->ttl_ms = options->ttl_ms;
    session->shards = options->shards;
    session->lists = 1;
    session->retry = (struct sk_backoff){.first_ms = 20, .most_ms = 1000};
    (void)snprintf(session->ttl, sizeof session->ttl, "%" PRIu32, session->ttl_ms);
    (void)snprintf(session->as_able, sizeof session->as_able, "%s %016" PRIx64, session->id, options->process);
    for (size_t i = 0; i < session->shards; i++)
        sk_key_of_able(i, session->able[i].key);
    (void)snprintf(session->token, sizeof session->token, "%016" PRIx64 "%016" PRIx64, random[0], random[1]);
    sk_key_of_session(session->id, session->key);
    return session;
}

// ---- the end ----

static void session_on_ended(void *arg, const struct sk_reply *reply)
{
    struct sk_session *session = arg;
    (void)reply; // if it failed, its TTL ends it
    session_move(session, SESSION_ENDED);
}

bool sk_session_end(struct sk_session *session)
{
    const char *argv[KEEP_ARGS] = {session->key, SK_KEY_SESSIONS};
    int keys = 2;
    if (session->state == SESSION_ENDED || session->state == SESSION_ENDING)
        return session->state == SESSION_ENDED;
    for (size_t i = 0; i < session->shards; i++)
        argv[keys++] = session->able[i].key;
    int n = keys;
    argv[n++] = session->token;
    argv[n++] = session->id;
    argv[n++] = session->as_able;
    session_move(session, SESSION_ENDING);
    if (sk_redis_script(session_redis(session), SK_SCRIPT_SESSION_END, keys, n, argv, NULL, session_on_ended,
                        session) != SK_OK)
        session_move(session, SESSION_ENDED); // its TTL ends it
    return session->state == SESSION_ENDED;
}

void sk_session_close(struct sk_session *session)
{
    if (session == NULL)
        return;
    SK_ASSERT(!session->asking);
    sk_timer_close(session->tick);
    for (size_t i = 0; i < session->shards; i++)
        free(session->able[i].others);
    free(session->living);
    free(session);
}

// ---- who can do background work ----

void sk_session_set_able(struct sk_session *session, size_t shard, bool able)
{
    if (session->able[shard].own == able)
        return;
    session->able[shard].own = able;
    session->lists++;
    session->renew_at_ms = 0;
    session_keep(session);
}

bool sk_session_is_able(const struct sk_session *session, size_t shard)
{
    return session->able[shard].own;
}

const char (*sk_session_others_able(const struct sk_session *session, size_t shard, size_t *count))[SK_UUID_SIZE]
{
    *count = session->able[shard].count;
    return (const char(*)[SK_UUID_SIZE])session->able[shard].others;
}

bool sk_session_able_elsewhere(const struct sk_session *session, size_t shard)
{
    return session->able[shard].elsewhere;
}

// ---- judging ----

struct judgement {
    struct sk_session *session;
    sk_sessions_judged_cb *done;
    void *arg;
    size_t n;
};

static bool session_may_judge(const struct sk_session *session)
{
    uint64_t since_ms = session->taken_at_ms > session->ready_at_ms ? session->taken_at_ms : session->ready_at_ms;
    return sk_session_held(session) && !session->away && sk_monotonic_ms() >= since_ms + session->ttl_ms;
}

// Asks for this session, too: if it is gone, all sessions may be.
static void session_on_judged(void *arg, const struct sk_reply *reply)
{
    struct judgement *judgement = arg;
    struct sk_session *session = judgement->session;
    enum sk_life lives[SK_SESSIONS_JUDGED_MAX];
    int64_t own = 0;
    bool may = sk_reply_count(reply) == judgement->n + 1 && sk_reply_number(sk_reply_at(reply, 0), &own) && own == 1 &&
               session_may_judge(session);
    for (size_t i = 0; i < judgement->n; i++) {
        int64_t there = -1;
        bool known = may && sk_reply_number(sk_reply_at(reply, i + 1), &there);
        lives[i] = !known ? SK_LIFE_UNKNOWN : there == 0 ? SK_LIFE_DEAD : SK_LIFE_LIVING;
    }
    judgement->done(judgement->arg, lives, judgement->n);
    free(judgement);
}

enum sk_status sk_sessions_judge(struct sk_session *session, size_t n, const char (*ids)[SK_UUID_SIZE],
                                 sk_sessions_judged_cb *done, void *arg)
{
    const char *argv[SK_SESSIONS_JUDGED_MAX + 2] = {SK_KEY_SESSIONS, session->id};
    SK_ASSERT(n > 0 && n <= SK_SESSIONS_JUDGED_MAX);
    if (!session_may_judge(session))
        return SK_DOWN;
    struct judgement *judgement = malloc(sizeof *judgement);
    if (judgement == NULL)
        return SK_NO_MEM;
    *judgement = (struct judgement){session, done, arg, n};
    for (size_t i = 0; i < n; i++)
        argv[i + 2] = ids[i];
    enum sk_status status = sk_redis_script(session_redis(session), SK_SCRIPT_SESSIONS_JUDGE, 1, (int)n + 2, argv, NULL,
                                            session_on_judged, judgement);
    if (status != SK_OK)
        free(judgement);
    return status;
}

// ---- named locks ----

// One timer renews all locks of a reactor every third of their TTL.

enum { LOCK_TOKEN_SIZE = 72 };

// TAKING -> HELD or MISSED -> RELEASED. HELD also covers a lock that has been lost meanwhile: its owner is not
// notified.
enum lock_state { LOCK_TAKING, LOCK_HELD, LOCK_MISSED, LOCK_RELEASED };

struct sk_named_locks {
    const struct sk_nodes *nodes;
    struct sk_session *owner;
    struct sk_timer *tick;
    struct sk_list all;
    uint64_t counter;
    char ttl[12];
};

struct sk_named_lock {
    struct sk_list list; // must be first
    struct sk_named_locks *locks;
    sk_named_lock_cb *taken;
    void *arg;
    enum lock_state state;
    unsigned answers; // replies outstanding
    unsigned slot;    // of the key
    char key[SK_KEY_SIZE];
    char token[LOCK_TOKEN_SIZE];
};

static void lock_move(struct sk_named_lock *lock, enum lock_state state)
{
#define TO(name) (1U << LOCK_##name)
    static const unsigned allowed[LOCK_RELEASED + 1] = {
        [LOCK_TAKING] = TO(HELD) | TO(MISSED) | TO(RELEASED),
        [LOCK_HELD] = TO(RELEASED),
        [LOCK_MISSED] = TO(RELEASED),
    };
#undef TO
    SK_ASSERT((allowed[lock->state] & 1U << state) != 0);
    lock->state = state;
}

static struct sk_redis *lock_redis(const struct sk_named_lock *lock)
{
    return sk_nodes_orders(lock->locks->nodes, lock->slot);
}

static void lock_free_if_done(struct sk_named_lock *lock)
{
    if (lock->state != LOCK_RELEASED || lock->answers > 0)
        return;
    sk_list_remove(&lock->list);
    free(lock);
}

static void lock_answered(struct sk_named_lock *lock)
{
    SK_ASSERT(lock->answers > 0);
    lock->answers--;
    lock_free_if_done(lock);
}

static void lock_on_sent(void *arg, const struct sk_reply *reply)
{
    (void)arg;
    (void)reply; // if it failed, the TTL frees the lock
}

static void lock_send_release(const struct sk_named_locks *locks, const char *key, const char *token)
{
    const char *argv[] = {key, token};
    if (sk_redis_script(sk_nodes_orders(locks->nodes, sk_key_slot(key)), SK_SCRIPT_LOCK_RELEASE, 1, 2, argv, NULL,
                        lock_on_sent, NULL) != SK_OK)
        return; // Redis is down: the TTL frees it
}

// A lock that another holds, whose session is looked at.
struct suspect {
    const struct sk_named_locks *locks;
    char key[SK_KEY_SIZE];
    char token[LOCK_TOKEN_SIZE];
};

static void lock_on_judged(void *arg, const enum sk_life *lives, size_t n)
{
    struct suspect *suspect = arg;
    if (n == 1 && lives[0] == SK_LIFE_DEAD)
        lock_send_release(suspect->locks, suspect->key, suspect->token);
    free(suspect);
}

// The token begins with the id of the holder's session.
static void lock_on_cut(void *arg, const struct sk_reply *reply)
{
    struct suspect *suspect = arg;
    struct sk_session *owner = suspect->locks->owner;
    const char *token = reply == NULL ? NULL : sk_reply_text(reply, NULL);
    char id[1][SK_UUID_SIZE] = {""};
    if (token != NULL && strlen(token) > SK_UUID_CHARS && strlen(token) < sizeof suspect->token) {
        memcpy(suspect->token, token, strlen(token));
        memcpy(id[0], token, SK_UUID_CHARS);
    }
    if (!sk_uuid_valid(id[0]) || sk_session_lives(owner, id[0]) ||
        sk_sessions_judge(owner, 1, (const char(*)[SK_UUID_SIZE])id, lock_on_judged, suspect) != SK_OK)
        free(suspect);
}

// If the holder is dead, its TTL frees the lock, unless the clock was set back since.
static void lock_send_cut(const struct sk_named_lock *lock)
{
    const char *argv[] = {lock->key, lock->locks->ttl};
    struct suspect *suspect = calloc(1, sizeof *suspect);
    if (suspect == NULL)
        return;
    suspect->locks = lock->locks;
    memcpy(suspect->key, lock->key, sizeof suspect->key);
    if (sk_redis_script(lock_redis(lock), SK_SCRIPT_LOCK_CUT, 1, 2, argv, NULL, lock_on_cut, suspect) != SK_OK)
        free(suspect); // the next attempt sends it
}

static void lock_on_taken(void *arg, const struct sk_reply *reply)
{
    struct sk_named_lock *lock = arg;
    const char *text = reply == NULL ? NULL : sk_reply_text(reply, NULL);
    bool held = text != NULL && sk_reply_error(reply) == NULL && strcmp(text, "OK") == 0;
    if (!held && reply != NULL && sk_reply_error(reply) == NULL)
        lock_send_cut(lock);
    if (lock->state == LOCK_TAKING) {
        lock_move(lock, held ? LOCK_HELD : LOCK_MISSED);
        lock->taken(lock->arg, held); // may release it
    } else if (held) {
        lock_send_release(lock->locks, lock->key, lock->token); // it was released while it was being taken
    }
    lock_answered(lock);
}

struct sk_named_lock *sk_named_lock_take(struct sk_named_locks *locks, const char *key, sk_named_lock_cb *taken,
                                         void *arg)
{
    struct sk_named_lock *lock = calloc(1, sizeof *lock);
    if (lock == NULL)
        return NULL;
    size_t len = strlen(key);
    SK_ASSERT(len < sizeof lock->key);
    memcpy(lock->key, key, len + 1);
    // Each attempt has its own token, so a release that comes too late cannot release the next holder's lock.
    (void)snprintf(lock->token, sizeof lock->token, "%s-%" PRIu64 "/%s", sk_session_id(locks->owner), ++locks->counter,
                   locks->ttl);
    lock->locks = locks;
    lock->slot = sk_key_slot(key);
    lock->taken = taken;
    lock->arg = arg;
    const char *set[] = {"SET", lock->key, lock->token, "NX", "PX", locks->ttl};
    if (sk_redis_command(lock_redis(lock), 6, set, NULL, lock_on_taken, lock) != SK_OK) {
        free(lock);
        return NULL;
    }
    lock->answers = 1;
    sk_list_add_behind(&lock->list, &locks->all);
    return lock;
}

static void lock_on_renewed(void *arg, const struct sk_reply *reply)
{
    (void)reply; // nothing to do if it is lost: a lock only saves work
    lock_answered(arg);
}

static void lock_on_tick(void *arg)
{
    const struct sk_named_locks *locks = arg;
    for (struct sk_named_lock *lock = sk_list_first(&locks->all); lock != NULL;
         lock = sk_list_next(&locks->all, &lock->list)) {
        const char *argv[] = {lock->key, lock->token, locks->ttl};
        if (lock->state == LOCK_HELD && lock->answers == 0 &&
            sk_redis_script(lock_redis(lock), SK_SCRIPT_LOCK_RENEW, 1, 3, argv, NULL, lock_on_renewed, lock) == SK_OK)
            lock->answers++;
    }
}

void sk_named_lock_release(struct sk_named_lock *lock)
{
    if (lock == NULL)
        return;
    if (lock->state == LOCK_HELD)
        lock_send_release(lock->locks, lock->key, lock->token);
    lock_move(lock, LOCK_RELEASED);
    lock_free_if_done(lock);
}

void sk_named_locks_yield(struct sk_named_locks *locks, size_t shard, size_t shards)
{
    for (struct sk_named_lock *lock = sk_list_first(&locks->all); lock != NULL;
         lock = sk_list_next(&locks->all, &lock->list)) {
        if (lock->state == LOCK_HELD && sk_shard_of_slot(lock->slot, shards) == shard)
            lock_send_release(locks, lock->key, lock->token);
    }
}

struct sk_named_locks *sk_named_locks_open(uv_loop_t *loop, const struct sk_nodes *nodes, struct sk_session *owner,
                                           uint32_t ttl_ms)
{
    struct sk_named_locks *locks = calloc(1, sizeof *locks);
    if (locks != NULL)
        locks->tick = sk_timer_open(loop, ttl_ms / 3, lock_on_tick, locks);
    if (locks == NULL || locks->tick == NULL) {
        free(locks);
        return NULL;
    }
    sk_list_begin(&locks->all);
    locks->nodes = nodes;
    locks->owner = owner;
    (void)snprintf(locks->ttl, sizeof locks->ttl, "%" PRIu32, ttl_ms);
    return locks;
}

void sk_named_locks_close(struct sk_named_locks *locks)
{
    if (locks == NULL)
        return;
    for (struct sk_named_lock *lock; (lock = sk_list_first(&locks->all)) != NULL;) {
        SK_ASSERT(lock->answers == 0);
        sk_list_remove(&lock->list);
        free(lock);
    }
    sk_timer_close(locks->tick);
    free(locks);
}
