// A round: the segments that are due go through it in pages. Of a page PostgreSQL tells what it knows (one statement),
// then Redis (one write), and audit.c judges: so what PostgreSQL says is always older than what Redis says.
//
//   round -> page -> accounts -> looks -> judge each -> next page -> ... -> publish -> pause
//
// Each call has the deadline of its link, and nothing here waits for what it starts: rebuilds and sweeps go on by
// themselves. So one sick segment holds up no other.
//
// Which segments a reactor looks at follows from the list of living sessions alone (rendezvous hashing: D. Thaler and
// C. Ravishankar, "A name-based mapping scheme for rendezvous", 1996). What a session finds busy it tells the others in
// a hash of Redis: there they look for orders that are pending.
#include "watch.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "backoff.h"
#include "clock.h"
#include "hash.h"
#include "log.h"
#include "params.h"
#include "timer.h"

enum {
    ROUND_MS = 1000,
    IDLE_ROUNDS = 4,           // between two looks at a segment at rest: about five seconds
    PAGE = 164,                // a hundred vouchers of one segment, and room for one of many
    BUSY_MAX = 1024,           // that are told and remembered
    LETTERS_ROUNDS = 5,        // settled dead letters are ended in every fifth round
    DIFFERING_MAX = 2,         // looks in a row before a difference is believed
    DIFFERING_HOLD_MS = 60000, // what a rebuild did not mend is not mended by the next one
};

struct watch_look {
    struct sk_watch *watch;
    struct sk_segment *segment; // pinned
    struct sk_account account;
    bool known; // PostgreSQL has told
};

// A segment that was busy, by name: it may leave the catalogue.
struct watch_busy {
    int64_t voucher_id;
    unsigned number;
};

struct sk_watch {
    const struct sk_core *core;
    struct sk_rebuilds *rebuilds;
    struct sk_sweeper *sweeper;
    struct sk_timer *timer; // owned
    struct sk_backoff jitter;
    uint64_t round;
    bool in_round, hurry;
    bool all;           // this round looks at all segments
    uint64_t all_round; // the last one that did
    size_t at;          // in the catalogue: what comes next
    uint64_t share_version;
    struct watch_look page[PAGE];
    size_t count, answered;
    struct watch_busy found[BUSY_MAX]; // by this reactor, in this round
    size_t found_count;
    struct watch_busy busy[BUSY_MAX]; // by all, at their last looks
    size_t busy_count;
    bool busy_complete;
    struct sk_buf text; // what is published
};

static void watch_on_time(void *arg);
static uint64_t watch_version(const struct sk_watch *watch);
static void watch_next_page(struct sk_watch *watch);
static bool watch_is_due(struct sk_watch *watch, struct sk_segment *segment);
static void watch_ask_accounts(struct sk_watch *watch);
static void watch_on_accounts(void *arg, const struct sk_result *result);
static void watch_look(struct sk_watch *watch);
static void watch_on_look(void *arg, const struct sk_reply *reply);
static void watch_judge(struct watch_look *look, const struct sk_look *seen);
static void watch_answered(struct sk_watch *watch);
static void watch_end_page(struct sk_watch *watch);
static void watch_end_round(struct sk_watch *watch);
static bool watch_is_ours(const struct sk_watch *watch, const char *name);
static void watch_publish(struct sk_watch *watch);
static void watch_on_published(void *arg, const struct sk_reply *reply);

// ---- opening and closing ----

struct sk_watch *sk_watch_open(const struct sk_core *core, struct sk_rebuilds *rebuilds, struct sk_sweeper *sweeper)
{
    struct sk_watch *watch = calloc(1, sizeof *watch);
    if (watch == NULL)
        return NULL;
    watch->core = core;
    watch->rebuilds = rebuilds;
    watch->sweeper = sweeper;
    watch->busy_complete = true;
    watch->jitter = (struct sk_backoff){.first_ms = ROUND_MS, .most_ms = ROUND_MS};
    watch->timer = sk_timer_open(core->loop, 0, watch_on_time, watch);
    if (watch->timer == NULL) {
        free(watch);
        return NULL;
    }
    sk_timer_once(watch->timer, ROUND_MS / 2);
    return watch;
}

void sk_watch_close(struct sk_watch *watch)
{
    if (watch == NULL)
        return;
    sk_timer_close(watch->timer);
    sk_buf_free(&watch->text);
    free(watch);
}

// ---- rounds ----

void sk_watch_hurry(struct sk_watch *watch)
{
    watch->hurry = true;
    if (!watch->in_round)
        sk_timer_once(watch->timer, 0);
}

static void watch_on_time(void *arg)
{
    struct sk_watch *watch = arg;
    watch->in_round = true;
    watch->all = watch->hurry;
    watch->hurry = false;
    watch->round++;
    watch->all_round = watch->all ? watch->round : watch->all_round;
    watch->at = 0;
    watch->found_count = 0;
    watch->share_version = watch_version(watch);
    watch_next_page(watch);
}

static void watch_on_letters_ended(void *arg, const struct sk_result *result)
{
    (void)arg;
    (void)result; // what was not done is done by a later round
}

// Letters end when all their orders are known. Their requeueing ends here, not where it began, because that instance
// may be gone.
static void watch_end_letters(struct sk_watch *watch)
{
    if (watch->round % LETTERS_ROUNDS == 0 && watch_is_ours(watch, "letters") &&
        sk_pg_call(watch->core->ask_pg, SK_STATEMENT_END_SETTLED_LETTERS, 0, NULL, watch_on_letters_ended, NULL) !=
            SK_OK)
        sk_log(SK_DEBUG, "settled dead letters not ended now", "");
}

static void watch_end_round(struct sk_watch *watch)
{
    watch_end_letters(watch);
    watch_publish(watch);
    watch->in_round = false;
    sk_timer_once(watch->timer, watch->hurry ? 0 : ROUND_MS / 2 + sk_backoff_next(&watch->jitter));
}

// ---- which segments ----

// Another list of living sessions has another version; none has 0.
static uint64_t watch_version(const struct sk_watch *watch)
{
    size_t count = 0;
    const char(*living)[SK_UUID_SIZE] = sk_session_living(watch->core->session, &count);
    return count == 0 ? 1 : sk_hash(living[0], count * SK_UUID_SIZE) | 1;
}

// Whether this session has the work of that name: of all living ones it has the highest hash together with it.
static bool watch_is_ours(const struct sk_watch *watch, const char *name)
{
    size_t count = 0;
    const char(*living)[SK_UUID_SIZE] = sk_session_living(watch->core->session, &count);
    const char *own = sk_session_id(watch->core->session), *owner = own;
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

// The same for a segment, worked out once for each list of living sessions.
static bool watch_is_mine(const struct sk_watch *watch, struct sk_segment *segment)
{
    struct sk_watched *watched = &segment->care->watched;
    if (watched->share_version != watch->share_version) {
        watched->share_version = watch->share_version;
        watched->mine = watch_is_ours(watch, segment->tag);
    }
    return watched->mine;
}

// At rest: two looks in a row saw the same, and nothing is under way.
static bool watch_is_at_rest(const struct sk_segment *segment)
{
    const struct sk_watched *watched = &segment->care->watched;
    return watched->look.present && !watched->look.loading && watched->look.same_run && watched->look.journal == 0 &&
           watched->differing == 0 && segment->entries.oldest == NULL &&
           !sk_look_is_behind(&watched->look, segment->seen.epoch, segment->seen.last);
}

// Segments at rest take turns, so each round sees some of them.
static bool watch_is_due(struct sk_watch *watch, struct sk_segment *segment)
{
    if (!watch_is_mine(watch, segment))
        return false;
    return watch->all || !watch_is_at_rest(segment) || (watch->round + segment->slot) % IDLE_ROUNDS == 0;
}

// ---- a page ----

static void watch_next_page(struct sk_watch *watch)
{
    const struct sk_catalogue *catalogue = watch->core->catalogue;
    watch->count = watch->answered = 0;
    for (; watch->at < sk_catalogue_count(catalogue) && watch->count + SK_SEGMENTS_MAX <= PAGE; watch->at++) {
        struct sk_voucher *voucher = sk_catalogue_at(catalogue, watch->at);
        for (unsigned i = 0; i < voucher->segment_count; i++) {
            struct sk_segment *segment = voucher->segments[i];
            if (segment == NULL || !watch_is_due(watch, segment))
                continue;
            watch->page[watch->count++] = (struct watch_look){.watch = watch, .segment = segment};
            sk_segment_pin(segment);
        }
    }
    if (watch->count == 0 || !sk_redis_ready(watch->core->redis))
        watch_end_page(watch);
    else
        watch_ask_accounts(watch);
}

static void watch_ask_accounts(struct sk_watch *watch)
{
    struct sk_buf slots = {0}, vouchers = {0};
    enum sk_status status = SK_NO_MEM;
    sk_params_begin(&slots);
    sk_params_begin(&vouchers);
    for (size_t i = 0; i < watch->count; i++) {
        char number[SK_PARAM_NUMBER_SIZE];
        sk_params_add(&slots, sk_params_number(number, watch->page[i].segment->slot));
        sk_params_add(&vouchers, sk_params_number(number, watch->page[i].segment->voucher_id));
    }
    const char *params[] = {sk_params_end(&slots), sk_params_end(&vouchers)};
    if (params[0] != NULL && params[1] != NULL)
        status = sk_pg_call(watch->core->ask_pg, SK_STATEMENT_SEGMENT_ACCOUNTS, 2, params, watch_on_accounts, watch);
    sk_buf_free(&slots);
    sk_buf_free(&vouchers);
    if (status != SK_OK)
        watch_end_page(watch);
}

static void watch_on_accounts(void *arg, const struct sk_result *result)
{
    struct sk_watch *watch = arg;
    if (result->rows == NULL) {
        watch_end_page(watch);
        return;
    }
    for (size_t row = 0; row < sk_rows_count(result->rows); row++) {
        struct sk_account account;
        sk_account_read(result->rows, row, &account);
        for (size_t i = 0; i < watch->count; i++) {
            struct watch_look *look = &watch->page[i];
            if (look->segment->voucher_id != account.voucher_id || look->segment->slot != account.slot)
                continue;
            look->account = account;
            look->known = true;
            break;
        }
    }
    watch_look(watch);
}

// On the link that orders go by, all in one write.
static void watch_look(struct sk_watch *watch)
{
    for (size_t i = 0; i < watch->count; i++) {
        struct watch_look *look = &watch->page[i];
        const struct sk_segment_keys *keys = &look->segment->keys;
        const char *argv[] = {keys->voucher, keys->buyers, keys->journal};
        if (!look->known || sk_redis_script(watch->core->redis, SK_SCRIPT_LOOK_AT_VOUCHER, 3, 3, argv, NULL,
                                            watch_on_look, look) != SK_OK)
            watch->answered++;
    }
    watch_answered(watch);
}

static void watch_on_look(void *arg, const struct sk_reply *reply)
{
    struct watch_look *look = arg;
    struct sk_watch *watch = look->watch;
    struct sk_look seen;
    if (reply != NULL && sk_look_read(reply, sk_redis_run(watch->core->redis), &seen))
        watch_judge(look, &seen);
    watch->answered++;
    watch_answered(watch);
}

static void watch_answered(struct sk_watch *watch)
{
    if (watch->answered == watch->count)
        watch_end_page(watch);
}

static void watch_end_page(struct sk_watch *watch)
{
    bool more = watch->at < sk_catalogue_count(watch->core->catalogue) && watch->answered == watch->count;
    for (size_t i = 0; i < watch->count; i++)
        sk_segment_unpin(watch->page[i].segment);
    if (watch->count > 0 && more)
        watch_next_page(watch);
    else
        watch_end_round(watch);
}

// ---- what is found ----

// Whether a difference is to be believed: it was there in several looks, and has not just been acted upon.
static bool watch_believes(struct sk_watched *watched, uint64_t now)
{
    if (++watched->differing < DIFFERING_MAX || now < watched->differ_until_ms)
        return false;
    watched->differ_until_ms = now + DIFFERING_HOLD_MS;
    return true;
}

static void watch_rebuild(struct sk_watch *watch, struct sk_segment *segment, enum sk_rebuild_why why)
{
    if (sk_rebuild(watch->rebuilds, segment, why, NULL, NULL) != SK_OK)
        sk_log(SK_DEBUG, "not rebuilt now", "voucher=%" PRId64, segment->voucher_id);
}

static void watch_log_finding(const struct watch_look *look, const struct sk_look *seen, enum sk_finding finding)
{
    const struct sk_account *account = &look->account;
    sk_log(SK_WARN, finding == SK_BOOKS_DIFFER ? "books differ" : "Redis cannot be relied on",
           "voucher=%" PRId64 " finding=%s epoch=%" PRId64 "/%" PRId64 " stock=%" PRId64 "/%" PRId64 " buyers=%" PRId64
           "/%" PRId64 " newest=%s/%s",
           look->segment->voucher_id, sk_finding_name(finding), seen->epoch, account->epoch, seen->stock,
           account->stock, seen->buyers, account->buyers, seen->last, account->newest);
}

// Its sale is long over, and nothing of it is under way.
static bool watch_may_retire(const struct sk_watch *watch, const struct sk_segment *segment)
{
    const struct sk_core *core = watch->core;
    return sk_wall_ms() >= (uint64_t)(segment->voucher->end_ms + core->config->retire_after_ms) &&
           segment->care->lost.orders.count == 0 && watch_is_at_rest(segment) &&
           uv_now(core->loop) >= segment->care->retire_at_ms;
}

static void watch_note_busy(struct sk_watch *watch, const struct sk_segment *segment)
{
    if (watch->found_count < BUSY_MAX)
        watch->found[watch->found_count++] =
            (struct watch_busy){.voucher_id = segment->voucher_id, .number = segment->number};
}

static void watch_sweep(struct sk_watch *watch, struct sk_segment *segment)
{
    if (sk_sweep_segment(watch->sweeper, segment) != SK_OK)
        sk_log(SK_DEBUG, "not swept now", "voucher=%" PRId64, segment->voucher_id);
}

static void watch_judge(struct watch_look *look, const struct sk_look *seen)
{
    struct sk_watch *watch = look->watch;
    struct sk_segment *segment = look->segment;
    struct sk_watched *watched = &segment->care->watched;
    uint64_t now = uv_now(watch->core->loop);
    enum sk_finding finding = sk_audit(&look->account, &watched->look, seen);
    watched->look = *seen;
    watched->looked_at_ms = now;
    if (finding != SK_BOOKS_DIFFER)
        watched->differing = 0;
    if (seen->journal > 0)
        watch_note_busy(watch, segment);
    if (finding == SK_BOOKS_DIFFER) {
        if (watch_believes(watched, now)) {
            watch_log_finding(look, seen, finding);
            watch_rebuild(watch, segment, SK_REBUILD_ORDERED);
        }
    } else if (finding != SK_BOOKS_AGREE) {
        if (finding != SK_BOOKS_LOADING) {
            watch_log_finding(look, seen, finding);
            watch->hurry |= watch->round >= watch->all_round + IDLE_ROUNDS; // it may have lost more
        }
        watch_rebuild(watch, segment, SK_REBUILD_DOUBT);
    } else if (seen->journal > 0) {
        watch_sweep(watch, segment);
    } else if (watch_may_retire(watch, segment)) {
        watch_rebuild(watch, segment, SK_REBUILD_RETIRE);
    }
}

// ---- what is busy ----

static void watch_on_told(void *arg, const struct sk_reply *reply)
{
    (void)arg;
    (void)reply; // the next round tells it again
}

// Tells the other sessions what was found, and reads what they have found. One hash: session -> "voucher.segment,...".
static void watch_publish(struct sk_watch *watch)
{
    const struct sk_core *core = watch->core;
    const char *id = sk_session_id(core->session);
    const char *none[] = {"HDEL", SK_KEY_BUSY, id}, *read[] = {"HGETALL", SK_KEY_BUSY};
    sk_buf_clear(&watch->text);
    for (size_t i = 0; i < watch->found_count; i++)
        sk_buf_printf(&watch->text, "%s%" PRId64 ".%u", i == 0 ? "" : ",", watch->found[i].voucher_id,
                      watch->found[i].number);
    const char *some[] = {"HSET", SK_KEY_BUSY, id, watch->text.data};
    bool empty = watch->found_count == 0 || watch->text.failed;
    if (sk_redis_command(core->ask_redis, empty ? 3 : 4, empty ? none : some, NULL, watch_on_told, NULL) == SK_OK &&
        sk_redis_command(core->ask_redis, 2, read, NULL, watch_on_published, watch) == SK_OK)
        return;
    watch->busy_complete = false;
}

static void watch_read_busy(struct sk_watch *watch, const char *text)
{
    while (*text != '\0') {
        char *end;
        struct watch_busy busy = {.voucher_id = strtoll(text, &end, 10)};
        if (end == text || *end != '.')
            return;
        busy.number = (unsigned)strtoul(end + 1, &end, 10);
        if (watch->busy_count == BUSY_MAX) {
            watch->busy_complete = false;
            return;
        }
        watch->busy[watch->busy_count++] = busy;
        if (*end != ',')
            return;
        text = end + 1;
    }
}

static struct sk_segment *watch_find(const struct sk_watch *watch, const struct watch_busy *busy)
{
    const struct sk_voucher *voucher = sk_catalogue_find(watch->core->catalogue, busy->voucher_id);
    return voucher != NULL && busy->number < voucher->segment_count ? voucher->segments[busy->number] : NULL;
}

static void watch_on_published(void *arg, const struct sk_reply *reply)
{
    struct sk_watch *watch = arg;
    watch->busy_count = 0;
    watch->busy_complete = reply != NULL && sk_reply_error(reply) == NULL;
    for (size_t i = 0; i + 1 < sk_reply_count(reply); i += 2) {
        const char *session = sk_reply_text(sk_reply_at(reply, i), NULL);
        const char *text = sk_reply_text(sk_reply_at(reply, i + 1), NULL);
        if (session != NULL && text != NULL && sk_session_lives(watch->core->session, session))
            watch_read_busy(watch, text);
    }
}

// Two sessions tell of the same segment for a moment when the list of the living changes.
static bool watch_has(struct sk_segment *const *out, size_t count, const struct sk_segment *segment)
{
    while (count > 0 && out[count - 1] != segment)
        count--;
    return count > 0;
}

size_t sk_watch_busy(const struct sk_watch *watch, struct sk_segment **out, size_t most, bool *complete)
{
    struct sk_segment *segment = sk_catalogue_open(watch->core->catalogue);
    size_t count = 0;
    *complete = watch->busy_complete;
    for (; segment != NULL && count < most; segment = segment->entries.next)
        out[count++] = segment;
    if (segment != NULL)
        *complete = false;
    for (size_t i = 0; i < watch->busy_count; i++) {
        segment = watch_find(watch, &watch->busy[i]);
        if (segment == NULL || watch_has(out, count, segment))
            continue; // gone, or listed above
        if (count < most)
            out[count++] = segment;
        else
            *complete = false;
    }
    return count;
}
