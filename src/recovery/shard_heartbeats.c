// A shard opens once its own heartbeat was read, after all others have returned what they know of it. Those that are
// away are waited for only for a moment: one shard that is away at the start must not keep the others from selling. If
// one of them then knows better, the shard closes.
//
// That is why a reactor raises no heartbeat before each shard has answered it once, however long that takes. A
// heartbeat that is raised is new: afterwards nothing shows that the database was old.
#include "shard_heartbeats.h"

#include <inttypes.h>
#include <stdlib.h>

#include "assignment.h"
#include "log.h"
#include "params.h"
#include "timer.h"

enum { BEAT_MS = 1000, STILL_MS = 3000, FIRST_MS = 50, WAIT_MS = 5000 };
enum { COLUMN_SHARD, COLUMN_BEAT }; // of shard_beat.sql

static const char restored_reason[] = "the shard was restored from an older copy, and lacks orders";

struct heartbeats_shard {
    struct sk_heartbeats *heartbeats;
    int64_t known;        // the newest heartbeat that any session has seen
    int64_t sent;         // `known` when the statement in progress was sent
    bool asking;          // a statement is in progress
    bool opens;           // its answer may open the shard: what the others know was known when it was sent
    bool answered;        // it has returned once what it knows
    bool restored;        // it has an older heartbeat than the known one
    int64_t own;          // its heartbeat, when it was read last
    uint64_t grown_at_ms; // when that was read first, or when it was not read
};

struct sk_heartbeats {
    const struct sk_sale *sale;
    struct sk_timer *timer; // owned; NULL: there is one shard
    uint64_t wait_until_ms;
    struct heartbeats_shard shards[SK_SHARDS_MAX];
};

static void heartbeats_set_closed(struct sk_heartbeats *heartbeats, size_t shard, bool closed)
{
    struct sk_shard *of = &heartbeats->sale->shards[shard];
    if (of->closed == closed)
        return;
    of->closed = closed;
    sk_pg_hold(of->orders, closed);
    sk_pg_hold(of->queries, closed);
}

// ---- reading and raising ----

// Whether it is an older copy.
static bool heartbeats_judge(struct heartbeats_shard *one, size_t shard, int64_t heartbeat, int64_t known)
{
    bool restored = heartbeat < known;
    if (restored && !one->restored)
        sk_log(SK_LOG_ERROR, restored_reason,
               "shard=%zu copy_of_ms=%" PRId64 " seen_ms=%" PRId64 " older_by_s=%" PRId64
               " its_vouchers=stopped to_use_it_as_it_is=\"SELECT accept_shard(%" PRId64 ")\"",
               shard, heartbeat, known, (known - heartbeat) / 1000, known);
    else if (!restored && one->restored)
        sk_log(SK_LOG_INFO, "the shard is open again", "shard=%zu", shard);
    one->restored = restored;
    return restored;
}

static void heartbeats_drop_links(const struct sk_sale *sale, size_t shard)
{
    struct sk_pg *const links[] = {sale->shards[shard].orders, sale->shards[shard].queries,
                                   sale->shards[shard].reports};
    for (size_t i = 0; i < sizeof links / sizeof links[0]; i++)
        sk_pg_drop(links[i], restored_reason);
}

// Its own heartbeat, and what it knows of the others.
static void heartbeats_on_row(void *arg, const struct sk_result *result)
{
    struct heartbeats_shard *one = arg;
    struct sk_heartbeats *heartbeats = one->heartbeats;
    size_t shard = (size_t)(one - heartbeats->shards);
    int64_t own = 0;
    one->asking = false;
    if (result->rows == NULL)
        return;
    for (size_t row = 0; row < sk_rows_count(result->rows); row++) {
        size_t of = (size_t)sk_rows_number(result->rows, row, COLUMN_SHARD);
        int64_t heartbeat = sk_rows_number(result->rows, row, COLUMN_BEAT);
        if (of == shard)
            own = heartbeat;
        if (of < heartbeats->sale->shard_count && heartbeat > heartbeats->shards[of].known)
            heartbeats->shards[of].known = heartbeat;
    }
    if (own != one->own || !one->answered)
        one->grown_at_ms = uv_now(heartbeats->sale->loop);
    one->own = own;
    one->answered = true;
    bool restored = heartbeats_judge(one, shard, own, one->sent);
    if (restored)
        heartbeats_drop_links(heartbeats->sale, shard);
    if (restored || one->opens)
        heartbeats_set_closed(heartbeats, shard, restored);
}

static bool heartbeats_all_answered(const struct sk_heartbeats *heartbeats)
{
    size_t answered = 0;
    for (size_t i = 0; i < heartbeats->sale->shard_count; i++)
        answered += heartbeats->shards[i].answered;
    return answered == heartbeats->sale->shard_count;
}

// Its session's link to the shard may be busy with a report, or down. Then all others raise the heartbeat.
static bool heartbeats_stands_still(const struct heartbeats_shard *one)
{
    return one->answered && uv_now(one->heartbeats->sale->loop) >= one->grown_at_ms + STILL_MS;
}

static void heartbeats_ask(struct sk_heartbeats *heartbeats, size_t shard)
{
    const struct sk_sale *sale = heartbeats->sale;
    struct heartbeats_shard *one = &heartbeats->shards[shard];
    char number[SK_PARAM_NUMBER_SIZE];
    struct sk_buf seen = {0};
    if (one->asking)
        return;
    if (!sk_pg_ready(sale->shards[shard].reports)) {
        one->grown_at_ms = uv_now(sale->loop); // for all that is known
        return;
    }
    bool heard = heartbeats_all_answered(heartbeats);
    bool raises = heard && sk_session_held(sale->session) &&
                  (sk_assignment_has(sale->session, shard, "beat") || heartbeats_stands_still(one));
    sk_params_begin(&seen);
    for (size_t i = 0; i < sale->shard_count; i++)
        sk_params_add(&seen, sk_params_number(number, heartbeats->shards[i].known));
    const char *params[] = {sk_params_end(&seen), raises ? "1" : "0"};
    one->sent = one->known;
    one->opens = heard || uv_now(sale->loop) >= heartbeats->wait_until_ms;
    one->asking = params[0] != NULL && sk_pg_call(sale->shards[shard].reports, SK_STATEMENT_SHARD_BEAT, 2, params,
                                                  heartbeats_on_row, one) == SK_OK;
    sk_buf_free(&seen);
}

static void heartbeats_on_time(void *arg)
{
    struct sk_heartbeats *heartbeats = arg;
    bool closed = false;
    for (size_t i = 0; i < heartbeats->sale->shard_count; i++)
        heartbeats_ask(heartbeats, i);
    for (size_t i = 0; i < heartbeats->sale->shard_count; i++)
        closed = closed || (heartbeats->sale->shards[i].closed && !heartbeats->shards[i].restored);
    sk_timer_once(heartbeats->timer,
                  closed && uv_now(heartbeats->sale->loop) < heartbeats->wait_until_ms ? FIRST_MS : BEAT_MS);
}

struct sk_heartbeats *sk_heartbeats_open(const struct sk_sale *sale)
{
    struct sk_heartbeats *heartbeats = calloc(1, sizeof *heartbeats);
    if (heartbeats == NULL)
        return NULL;
    heartbeats->sale = sale;
    if (sale->shard_count <= 1)
        return heartbeats;
    heartbeats->wait_until_ms = uv_now(sale->loop) + WAIT_MS;
    for (size_t i = 0; i < sale->shard_count; i++) {
        heartbeats->shards[i].heartbeats = heartbeats;
        heartbeats_set_closed(heartbeats, i, true);
    }
    heartbeats->timer = sk_timer_open(sale->loop, 0, heartbeats_on_time, heartbeats);
    if (heartbeats->timer == NULL) {
        free(heartbeats);
        return NULL;
    }
    sk_timer_once(heartbeats->timer, FIRST_MS);
    return heartbeats;
}

void sk_heartbeats_close(struct sk_heartbeats *heartbeats)
{
    if (heartbeats == NULL)
        return;
    sk_timer_close(heartbeats->timer);
    free(heartbeats);
}

void sk_heartbeats_hurry(struct sk_heartbeats *heartbeats)
{
    if (heartbeats->timer != NULL)
        sk_timer_once(heartbeats->timer, 0);
}

// ---- what is known ----

bool sk_heartbeats_fit(const struct sk_heartbeats *heartbeats, size_t shard, int64_t heartbeat)
{
    return heartbeat >= heartbeats->shards[shard].known;
}

bool sk_heartbeats_is_restored(const struct sk_heartbeats *heartbeats, size_t shard)
{
    return heartbeats->shards[shard].restored;
}
