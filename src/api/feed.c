// The readers are few (the back ends of a shop), so they are in one list. A statement that was lost is asked again in
// the next tick.
#include "feed.h"

#include <stdlib.h>
#include <string.h>

#include "list.h"
#include "timer.h"
#include "verdict.h"

enum { TICK_MS = 100 };
enum { COLUMN_KIND, COLUMN_TX, COLUMN_SEQ };

struct feed_reader {
    struct sk_list list; // first member
    uint64_t handle;
    const char *kind; // sk_feed_kind()'s; NULL: any
    struct sk_position after[SK_SHARDS_MAX];
};

struct feed_shard {
    struct sk_feed *feed;
    struct sk_pg *link; // borrowed
    bool asked;         // a statement is in progress
};

struct sk_feed {
    struct sk_control *control; // borrowed
    struct sk_timer *timer;
    bool ticks; // the timer runs
    struct sk_list readers;
    size_t shard_count;
    struct feed_shard shards[];
};

static void feed_answer(struct sk_feed *feed, struct feed_reader *reader, enum sk_verdict verdict)
{
    uint64_t handle = reader->handle;
    sk_list_remove(&reader->list);
    free(reader);
    sk_control_answer(feed->control, handle, &(struct sk_answer){.verdict = verdict});
}

const char *sk_feed_kind(const char *name)
{
    static const char *const kinds[] = {"placed", "moves", "sales"};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(name, kinds[i]) == 0)
            return kinds[i];
    }
    return NULL;
}

static void feed_wake(struct sk_feed *feed, size_t shard, const char *kind, const struct sk_position *end)
{
    struct feed_reader *reader = sk_list_first(&feed->readers), *next;
    for (; reader != NULL; reader = next) {
        const struct sk_position *after = &reader->after[shard];
        next = sk_list_next(&feed->readers, &reader->list);
        bool wanted = reader->kind == NULL || strcmp(reader->kind, kind) == 0;
        if (wanted && (end->first > after->first || (end->first == after->first && end->second > after->second)))
            feed_answer(feed, reader, SK_VERDICT_FOUND);
    }
}

static void feed_on_end(void *arg, const struct sk_result *result)
{
    struct feed_shard *shard = arg;
    shard->asked = false;
    for (size_t row = 0; result->rows != NULL && row < sk_rows_count(result->rows); row++) {
        const struct sk_position end = {(uint64_t)sk_rows_number(result->rows, row, COLUMN_TX),
                                        (uint64_t)sk_rows_number(result->rows, row, COLUMN_SEQ)};
        feed_wake(shard->feed, (size_t)(shard - shard->feed->shards), sk_rows_text(result->rows, row, COLUMN_KIND),
                  &end);
    }
}

static void feed_on_tick(void *arg)
{
    struct sk_feed *feed = arg;
    feed->ticks = !sk_list_is_empty(&feed->readers);
    if (!feed->ticks)
        return;
    for (size_t i = 0; i < feed->shard_count; i++) {
        struct feed_shard *shard = &feed->shards[i];
        shard->asked =
            shard->asked || sk_pg_call(shard->link, SK_STATEMENT_FEED_END, 0, NULL, feed_on_end, shard) == SK_OK;
    }
    sk_timer_once(feed->timer, TICK_MS);
}

struct sk_feed *sk_feed_open(struct sk_control *control)
{
    size_t count = control->sale->shard_count;
    struct sk_feed *feed = calloc(1, sizeof *feed + count * sizeof feed->shards[0]);
    if (feed == NULL)
        return NULL;
    feed->control = control;
    feed->shard_count = count;
    sk_list_begin(&feed->readers);
    for (size_t i = 0; i < count; i++)
        feed->shards[i] = (struct feed_shard){.feed = feed, .link = control->sale->shards[i].queries};
    feed->timer = sk_timer_open(control->sale->loop, 0, feed_on_tick, feed);
    if (feed->timer == NULL) {
        free(feed);
        return NULL;
    }
    return feed;
}

bool sk_feed_add(struct sk_feed *feed, const struct sk_position *after, const char *kind, uint64_t handle)
{
    struct feed_reader *reader = calloc(1, sizeof *reader);
    if (reader == NULL)
        return false;
    reader->handle = handle;
    reader->kind = kind;
    memcpy(reader->after, after, feed->shard_count * sizeof after[0]);
    sk_list_add_last(&reader->list, &feed->readers);
    if (!feed->ticks)
        sk_timer_once(feed->timer, TICK_MS);
    feed->ticks = true;
    return true;
}

bool sk_feed_leave(struct sk_feed *feed, uint64_t handle)
{
    struct feed_reader *reader = sk_list_first(&feed->readers);
    while (reader != NULL && reader->handle != handle)
        reader = sk_list_next(&feed->readers, &reader->list);
    if (reader == NULL)
        return false;
    sk_list_remove(&reader->list);
    free(reader);
    return true;
}

void sk_feed_close(struct sk_feed *feed)
{
    struct feed_reader *reader;
    if (feed == NULL)
        return;
    while ((reader = sk_list_first(&feed->readers)) != NULL)
        feed_answer(feed, reader, SK_VERDICT_UNAVAILABLE);
    sk_timer_close(feed->timer);
    free(feed);
}
