// A shard opens once its own beat was read, after all others have returned what they know of it. Those that are away
// are waited for only for a moment: one shard that is away at the start must not keep the others from selling. If one
// of them then knows better, the shard closes.
//
// That is why a reactor raises no beat before each shard has answered it once, however long that takes. A beat that is
// raised is new: afterwards nothing shows that the database was old.
#include "beats.h"

#include <inttypes.h>
#include <stdlib.h>

#include "assignment.h"
#include "log.h"
#include "params.h"
#include "timer.h"

enum { BEAT_MS = 1000, STILL_MS = 3000, FIRST_MS = 50, WAIT_MS = 5000 };
enum { COLUMN_SHARD, COLUMN_BEAT }; // of shard_beat.sql

static const char restored_reason[] = "the shard was restored from an older copy, and lacks orders";

struct beats_shard {
    struct sk_beats *beats;
    int64_t known;        // the newest beat that any session has seen
    int64_t sent;         // `known` when the statement in progress was sent
    bool asking;          // a statement is in progress
    bool opens;           // its answer may open the shard: what the others know was known when it was sent
    bool answered;        // it has returned once what it knows
    bool restored;        // it has an older beat than the known one
    int64_t own;          // its beat, when it was read last
    uint64_t grown_at_ms; // when that was read first, or when it was not read
};

struct sk_beats {
    const struct sk_sale *sale;
    struct sk_timer *timer; // owned; NULL: there is one shard
    uint64_t wait_until_ms;
    struct beats_shard shards[SK_SHARDS_MAX];
};

static void beats_on_time(void *arg);
static void beats_ask(struct sk_beats *beats, size_t shard);
static void beats_on_row(void *arg, const struct sk_result *result);
static void beats_set_closed(struct sk_beats *beats, size_t shard, bool closed);
static bool beats_all_answered(const struct sk_beats *beats);

struct sk_beats *sk_beats_open(const struct sk_sale *sale)
{
    struct sk_beats *beats = calloc(1, sizeof *beats);
    if (beats == NULL)
        return NULL;
    beats->sale = sale;
    if (sale->shard_count <= 1)
        return beats;
    beats->wait_until_ms = uv_now(sale->loop) + WAIT_MS;
    for (size_t i = 0; i < sale->shard_count; i++) {
        beats->shards[i].beats = beats;
        beats_set_closed(beats, i, true);
    }
    beats->timer = sk_timer_open(sale->loop, 0, beats_on_time, beats);
    if (beats->timer == NULL) {
        free(beats);
        return NULL;
    }
    sk_timer_once(beats->timer, FIRST_MS);
    return beats;
}

void sk_beats_close(struct sk_beats *beats)
{
    if (beats == NULL)
        return;
    sk_timer_close(beats->timer);
    free(beats);
}

void sk_beats_hurry(struct sk_beats *beats)
{
    if (beats->timer != NULL)
        sk_timer_once(beats->timer, 0);
}

// ---- reading and raising ----

static void beats_on_time(void *arg)
{
    struct sk_beats *beats = arg;
    bool closed = false;
    for (size_t i = 0; i < beats->sale->shard_count; i++)
        beats_ask(beats, i);
    for (size_t i = 0; i < beats->sale->shard_count; i++)
        closed = closed || (beats->sale->shards[i].closed && !beats->shards[i].restored);
    sk_timer_once(beats->timer, closed && uv_now(beats->sale->loop) < beats->wait_until_ms ? FIRST_MS : BEAT_MS);
}

// Its session's link to the shard may be busy with a report, or down. Then all others raise the beat.
static bool beats_stands_still(const struct beats_shard *one)
{
    return one->answered && uv_now(one->beats->sale->loop) >= one->grown_at_ms + STILL_MS;
}

static bool beats_can_read(struct beats_shard *one, size_t shard)
{
    const struct sk_sale *sale = one->beats->sale;
    bool can = sk_pg_ready(sale->shards[shard].reports);
    if (!can)
        one->grown_at_ms = uv_now(sale->loop); // for all that is known
    return can;
}

static void beats_ask(struct sk_beats *beats, size_t shard)
{
    const struct sk_sale *sale = beats->sale;
    struct beats_shard *one = &beats->shards[shard];
    char number[SK_PARAM_NUMBER_SIZE];
    struct sk_buf seen = {0};
    if (one->asking || !beats_can_read(one, shard))
        return;
    bool heard = beats_all_answered(beats);
    bool raises = heard && sk_session_held(sale->session) &&
                  (sk_assignment_has(sale->session, shard, "beat") || beats_stands_still(one));
    sk_params_begin(&seen);
    for (size_t i = 0; i < sale->shard_count; i++)
        sk_params_add(&seen, sk_params_number(number, beats->shards[i].known));
    const char *params[] = {sk_params_end(&seen), raises ? "1" : "0"};
    one->sent = one->known;
    one->opens = heard || uv_now(sale->loop) >= beats->wait_until_ms;
    one->asking = params[0] != NULL && sk_pg_call(sale->shards[shard].reports, SK_STATEMENT_SHARD_BEAT, 2, params,
                                                  beats_on_row, one) == SK_OK;
    sk_buf_free(&seen);
}

static void beats_log_restored(size_t shard, int64_t beat, int64_t known)
{
    sk_log(SK_LOG_ERROR, restored_reason,
           "shard=%zu copy_of_ms=%" PRId64 " seen_ms=%" PRId64 " older_by_s=%" PRId64
           " its_vouchers=stopped to_use_it_as_it_is=\"SELECT accept_shard(%" PRId64 ")\"",
           shard, beat, known, (known - beat) / 1000, known);
}

// Whether it is an older copy.
static bool beats_judge(struct beats_shard *one, size_t shard, int64_t beat, int64_t known)
{
    bool restored = beat < known;
    if (restored && !one->restored)
        beats_log_restored(shard, beat, known);
    else if (!restored && one->restored)
        sk_log(SK_LOG_INFO, "the shard is open again", "shard=%zu", shard);
    one->restored = restored;
    return restored;
}

bool sk_beats_fit(const struct sk_beats *beats, size_t shard, int64_t beat)
{
    return beat >= beats->shards[shard].known;
}

bool sk_beats_is_restored(const struct sk_beats *beats, size_t shard)
{
    return beats->shards[shard].restored;
}

static void beats_set_closed(struct sk_beats *beats, size_t shard, bool closed)
{
    struct sk_shard *of = &beats->sale->shards[shard];
    if (of->closed == closed)
        return;
    of->closed = closed;
    sk_pg_hold(of->orders, closed);
    sk_pg_hold(of->queries, closed);
}

static void beats_drop_links(const struct sk_sale *sale, size_t shard)
{
    struct sk_pg *const links[] = {sale->shards[shard].orders, sale->shards[shard].queries,
                                   sale->shards[shard].reports};
    for (size_t i = 0; i < sizeof links / sizeof links[0]; i++)
        sk_pg_drop(links[i], restored_reason);
}

// Its own beat, and what it knows of the others.
static void beats_on_row(void *arg, const struct sk_result *result)
{
    struct beats_shard *one = arg;
    struct sk_beats *beats = one->beats;
    size_t shard = (size_t)(one - beats->shards);
    int64_t own = 0;
    one->asking = false;
    if (result->rows == NULL)
        return;
    for (size_t row = 0; row < sk_rows_count(result->rows); row++) {
        size_t of = (size_t)sk_rows_number(result->rows, row, COLUMN_SHARD);
        int64_t beat = sk_rows_number(result->rows, row, COLUMN_BEAT);
        if (of == shard)
            own = beat;
        if (of < beats->sale->shard_count && beat > beats->shards[of].known)
            beats->shards[of].known = beat;
    }
    if (own != one->own || !one->answered)
        one->grown_at_ms = uv_now(beats->sale->loop);
    one->own = own;
    one->answered = true;
    bool restored = beats_judge(one, shard, own, one->sent);
    if (restored)
        beats_drop_links(beats->sale, shard);
    if (restored || one->opens)
        beats_set_closed(beats, shard, restored);
}

static bool beats_all_answered(const struct sk_beats *beats)
{
    size_t answered = 0;
    for (size_t i = 0; i < beats->sale->shard_count; i++)
        answered += beats->shards[i].answered;
    return answered == beats->sale->shard_count;
}
