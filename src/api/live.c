// Each voucher with listeners has one feed. For all of them it takes one snapshot from Redis, every 250 ms at most, and
// makes one event for each change. Snapshots have a rate limit, as texts do: many vouchers with one listener each are
// checked less often, instead of taking Redis from the buyers. Feeds that were never read get every second snapshot:
// they need not wait for all others, and however many come and go, the others are read.
//
// Listeners stand in a ring, in the order in which they were served. Each time slice serves from its head while the
// rate limit allows. So thousands of texts are spread evenly, and none blocks the loop for long. With more listeners
// than the limit allows, each waits longer, and then receives the newest states. A text costs a system call, whatever
// is in it: so the news of all vouchers of a listener go out as one, and cost one of the limit.
//
// There is no history, deliberately: Last-Event-ID only avoids repeating the current state of a single voucher. The
// last event of a stream has an id of its own, which any instance knows: an EventSource opens every stream again that
// ends, unless it then gets 204.
#include "live.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "catalogue.h"
#include "clock.h"
#include "list.h"
#include "params.h"
#include "phase.h"
#include "rates.h"
#include "response.h"
#include "text.h"
#include "timer.h"
#include "trust.h"
#include "voucher_books.h"
#include "vouchers.h"

enum { SLICE_MS = 25, READS_PER_S = 400, BUCKETS = 4096, FEED_BUCKETS = 256, NOT_KNOWN = -1 };
#define END_ID "end" // all other ids are numbers

static const char first_text[] = "retry: 3000\n\n", beat_text[] = ":\n\n", end_line[] = "id: " END_ID;

enum { SHOWN_SIZE = 128, EVENT_SIZE = 256, TEXT_SIZE = SK_LIVE_VOUCHERS_MAX * EVENT_SIZE, DETAIL_SIZE = 64 };
enum { RATE_OVER_MS = 2000, TENTHS_UP_TO = 10 };

struct live_feed {
    struct sk_list list; // first member; in `fresh`, or in `feeds` in the order of the snapshots
    struct sk_live *live;
    struct live_feed *same_bucket;
    int64_t voucher_id;
    struct sk_voucher *voucher; // pinned; NULL: it was retired before anyone listened
    size_t listeners;
    uint64_t asked_ms; // 0: not yet
    bool asking;       // a snapshot is in progress
    int64_t remaining; // or NOT_KNOWN
    uint64_t known_ms; // when that was known
    double rate;
    bool over;              // the event is the last one
    char shown[SHOWN_SIZE]; // the data of the event
    uint64_t id;            // of the event
    char event[EVENT_SIZE];
    size_t event_len; // 0: nothing was shown yet
};

struct live_listener {
    struct sk_list list; // first member; in the order in which they were served
    struct live_listener *same_bucket;
    uint64_t handle;
    uint64_t visited_ms, sent_ms;
    size_t count;
    struct live_subscription {
        struct live_feed *feed;
        uint64_t sent_id; // of its newest event that the listener has
    } subscriptions[];    // those that are not over
};

struct sk_live {
    struct sk_control *control; // borrowed
    struct sk_live_wire wire;
    struct sk_timer *timer;
    struct sk_pace texts, reads;
    size_t count;
    struct sk_list listeners, feeds, fresh; // fresh: feeds that were not read yet
    bool fresh_next;                        // the next snapshot is theirs
    struct live_listener *by_handle[BUCKETS];
    struct live_feed *by_voucher[FEED_BUCKETS];
};

// ---- feeds ----

static struct live_feed *live_feed_of(struct sk_live *live, int64_t voucher_id)
{
    struct live_feed **bucket = &live->by_voucher[(uint64_t)voucher_id % FEED_BUCKETS], *feed = *bucket;
    while (feed != NULL && feed->voucher_id != voucher_id)
        feed = feed->same_bucket;
    if (feed != NULL)
        return feed;
    feed = calloc(1, sizeof *feed);
    if (feed == NULL)
        return NULL;
    feed->live = live;
    feed->voucher_id = voucher_id;
    feed->remaining = NOT_KNOWN;
    feed->voucher = sk_catalogue_find(live->control->sale->catalogue, voucher_id);
    if (feed->voucher != NULL)
        sk_voucher_pin(feed->voucher);
    feed->same_bucket = *bucket;
    *bucket = feed;
    sk_list_add_last(&feed->list, &live->fresh);
    return feed;
}

// Frees the feed, unless a listener has it, or a snapshot is in progress, whose end frees it.
static void live_feed_let_go(struct live_feed *feed)
{
    struct live_feed **at = &feed->live->by_voucher[(uint64_t)feed->voucher_id % FEED_BUCKETS];
    if (feed->listeners > 0 || feed->asking)
        return;
    while (*at != feed)
        at = &(*at)->same_bucket;
    *at = feed->same_bucket;
    sk_list_remove(&feed->list);
    if (feed->voucher != NULL)
        sk_voucher_unpin(feed->voucher);
    free(feed);
}

// ---- an event ----

// NULL: it is not in the catalogue.
static enum sk_voucher_state live_state(const struct sk_voucher *voucher)
{
    return voucher == NULL || voucher->left ? SK_VOUCHER_RETIRED : voucher->state;
}

static bool live_is_over(const struct sk_voucher *voucher)
{
    return live_state(voucher) == SK_VOUCHER_CLOSED || live_state(voucher) == SK_VOUCHER_RETIRED;
}

static void live_show(struct live_feed *feed)
{
    char shown[SHOWN_SIZE], time[SK_TIME_SIZE], remaining[SK_PARAM_NUMBER_SIZE] = "null";
    uint64_t now = sk_wall_ms();
    struct sk_phase_terms terms = {.state = live_state(feed->voucher), .remaining = feed->remaining};
    if (feed->voucher != NULL) {
        terms.begin_ms = feed->voucher->begin_ms;
        terms.end_ms = feed->voucher->end_ms;
    }
    if (feed->remaining != NOT_KNOWN)
        (void)sk_params_number(remaining, feed->remaining);
    (void)snprintf(shown, sizeof shown, "\"remaining\":%s,\"state\":\"%s\",\"phase\":\"%s\",\"rate\":%.*f", remaining,
                   sk_voucher_state_name(terms.state), sk_phase(&terms, (int64_t)now),
                   feed->rate < TENTHS_UP_TO ? 1 : 0, feed->rate);
    feed->over = live_is_over(feed->voucher);
    if (strcmp(shown, feed->shown) == 0)
        return;
    memcpy(feed->shown, shown, sizeof shown);
    feed->id = now > feed->id ? now : feed->id + 1;
    sk_text_put_time((int64_t)now, time);
    int n = snprintf(feed->event, sizeof feed->event,
                     "id: %" PRIu64 "\ndata: {\"voucher_id\":\"%" PRId64 "\",%s,\"server_time\":\"%s\"}\n\n", feed->id,
                     feed->voucher_id, shown, time);
    SK_ASSERT(n > 0 && (size_t)n < sizeof feed->event);
    feed->event_len = (size_t)n;
}

// ---- a snapshot ----

// Reads the units that can be sold now. False: Redis does not know.
static bool live_read_stock(const struct sk_reply *reply, int64_t *stock)
{
    const char *state = sk_reply_text(sk_reply_at(reply, SK_SNAPSHOT_STATE), NULL);
    const char *opened = sk_reply_text(sk_reply_at(reply, SK_SNAPSHOT_RUN), NULL);
    bool known = state != NULL && sk_voucher_state_of(state) != SK_VOUCHER_RETIRED; // nor loading
    return known && opened != NULL && opened[0] != '\0' &&
           sk_trust_number(sk_reply_at(reply, SK_SNAPSHOT_STOCK), SK_TRUST_MAX, stock);
}

// The rate counts units sold. Returned units do not lower it.
static void live_count(struct live_feed *feed, int64_t stock, uint64_t now)
{
    if (feed->remaining != NOT_KNOWN && now > feed->known_ms) {
        double ms = (double)(now - feed->known_ms);
        double sold = feed->remaining > stock ? (double)(feed->remaining - stock) : 0;
        feed->rate += (sold * 1000 / ms - feed->rate) * ms / (RATE_OVER_MS + ms);
    }
    feed->remaining = stock;
    feed->known_ms = now;
}

static void live_on_snapshot(void *arg, const struct sk_reply *reply)
{
    struct live_feed *feed = arg;
    int64_t stock;
    const struct sk_sale *sale = feed->live->control->sale;
    const struct sk_redis *redis = feed->voucher == NULL ? NULL : sk_sale_ask_redis(sale, feed->voucher);
    bool known = reply != NULL && live_read_stock(reply, &stock);
    bool away = !known && !sk_redis_ready(redis);
    feed->asking = false;
    if (known)
        live_count(feed, stock, uv_now(sale->loop));
    else if (away)
        feed->remaining = NOT_KNOWN; // nothing can be bought now
    if (known || away || live_is_over(feed->voucher))
        live_show(feed);
    live_feed_let_go(feed);
}

static void live_ask_redis(struct live_feed *feed)
{
    const struct sk_voucher *voucher = feed->voucher;
    enum sk_status status = SK_DOWN;
    if (feed->asking)
        return;
    if (voucher != NULL) {
        feed->asking = true;
        status = sk_snapshot_ask(sk_sale_ask_redis(feed->live->control->sale, voucher), &voucher->keys, NULL,
                                 live_on_snapshot, feed);
    }
    if (status != SK_OK)
        live_on_snapshot(feed, NULL);
}

// ---- listeners ----

static struct live_listener **live_bucket_of_handle(struct sk_live *live, uint64_t handle)
{
    return &live->by_handle[(handle ^ handle >> 32) % BUCKETS];
}

static void live_unsubscribe(struct live_listener *listener, struct live_subscription *subscription)
{
    struct live_feed *feed = subscription->feed;
    *subscription = listener->subscriptions[--listener->count];
    SK_ASSERT(feed->listeners > 0);
    feed->listeners--;
    live_feed_let_go(feed);
}

static void live_free(struct live_listener *listener)
{
    while (listener->count > 0)
        live_unsubscribe(listener, &listener->subscriptions[listener->count - 1]);
    free(listener);
}

static void live_forget(struct sk_live *live, struct live_listener *listener)
{
    struct live_listener **at = live_bucket_of_handle(live, listener->handle);
    while (*at != listener)
        at = &(*at)->same_bucket;
    *at = listener->same_bucket;
    sk_list_remove(&listener->list);
    SK_ASSERT(live->count > 0);
    live->count--;
    live_free(listener);
}

bool sk_live_listen(struct sk_live *live, const int64_t *voucher_ids, size_t count, uint64_t last_id, uint64_t handle)
{
    struct live_listener **bucket = live_bucket_of_handle(live, handle);
    struct live_listener *listener = calloc(1, sizeof *listener + count * sizeof *listener->subscriptions);
    if (listener == NULL)
        return false;
    while (listener->count < count) {
        struct live_feed *feed = live_feed_of(live, voucher_ids[listener->count]);
        if (feed == NULL) {
            live_free(listener);
            return false;
        }
        feed->listeners++;
        listener->subscriptions[listener->count++] = (struct live_subscription){feed, last_id};
    }
    listener->handle = handle;
    listener->sent_ms = uv_now(live->control->sale->loop);
    listener->same_bucket = *bucket;
    *bucket = listener;
    sk_list_add_behind(&listener->list, &live->listeners); // it is served first
    if (live->count++ == 0)
        sk_timer_once(live->timer, 0);
    (void)live->wire.send(live->wire.arg, handle, first_text, sizeof first_text - 1);
    return true;
}

void sk_live_leave(struct sk_live *live, uint64_t handle)
{
    struct live_listener *listener = *live_bucket_of_handle(live, handle);
    while (listener != NULL && listener->handle != handle)
        listener = listener->same_bucket;
    if (listener != NULL)
        live_forget(live, listener);
}

// ---- a time slice ----

// NULL: no feed is due.
static struct live_feed *live_next_feed(struct sk_live *live, uint64_t now)
{
    struct live_feed *fresh = sk_list_first(&live->fresh), *feed = sk_list_first(&live->feeds);
    // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): one that is freed has left the list
    if (feed != NULL && now - feed->asked_ms < SK_LIVE_EACH_MS)
        feed = NULL;
    return fresh != NULL && (feed == NULL || live->fresh_next) ? fresh : feed;
}

// The last state is news in any case: the listener does not know yet that it is the last one.
static bool live_is_news(const struct live_subscription *subscription)
{
    const struct live_feed *feed = subscription->feed;
    return feed->event_len > 0 && (feed->over || feed->id != subscription->sent_id);
}

// Gives an event, which begins with its id, the id of the last one. Returns its length.
static size_t live_put_end(char *event, size_t len)
{
    size_t end_len = sizeof end_line - 1;
    const char *after_id = memchr(event, '\n', len);
    SK_ASSERT(after_id != NULL && (size_t)(after_id - event) >= end_len);
    size_t rest = len - (size_t)(after_id - event);
    memmove(event + end_len, after_id, rest);
    memcpy(event, end_line, end_len);
    return end_len + rest;
}

// What the listener is to receive now: all news, or a comment after a long silence. Returns its length.
static size_t live_put_text(const struct live_listener *listener, uint64_t now, char out[TEXT_SIZE])
{
    size_t len = 0, last_at = 0;
    bool ends = true;
    for (size_t i = 0; i < listener->count; i++) {
        const struct live_feed *feed = listener->subscriptions[i].feed;
        ends = ends && feed->over;
        if (!live_is_news(&listener->subscriptions[i]))
            continue;
        last_at = len;
        memcpy(out + len, feed->event, feed->event_len);
        len += feed->event_len;
    }
    if (ends)
        len = last_at + live_put_end(out + last_at, len - last_at);
    if (len == 0 && now - listener->sent_ms >= SK_LIVE_BEAT_MS) {
        len = sizeof beat_text - 1;
        memcpy(out, beat_text, len);
    }
    return len;
}

// The listener has all news. It leaves the vouchers that are over, and its stream ends with the last of them.
static void live_note_sent(struct sk_live *live, struct live_listener *listener)
{
    for (size_t i = listener->count; i-- > 0;) {
        struct live_subscription *subscription = &listener->subscriptions[i];
        if (live_is_news(subscription))
            subscription->sent_id = subscription->feed->id;
        if (subscription->feed->over)
            live_unsubscribe(listener, subscription);
    }
    if (listener->count == 0) {
        uint64_t handle = listener->handle;
        live_forget(live, listener);
        live->wire.end(live->wire.arg, handle);
    }
}

// False: the rate limit does not allow it now. Afterwards the listener may be gone.
static bool live_serve(struct sk_live *live, struct live_listener *listener, uint64_t now)
{
    char text[TEXT_SIZE];
    size_t len = live_put_text(listener, now, text);
    if (len > 0 && !sk_pace_take(&live->texts, now))
        return false;
    listener->visited_ms = now;
    sk_list_remove(&listener->list);
    sk_list_add_last(&listener->list, &live->listeners);
    if (len > 0) {
        if (!live->wire.send(live->wire.arg, listener->handle, text, len))
            return true;
        listener->sent_ms = now;
    }
    live_note_sent(live, listener);
    return true;
}

static void live_on_slice(void *arg)
{
    struct sk_live *live = arg;
    uint64_t now = uv_now(live->control->sale->loop);
    struct live_feed *feed;
    struct live_listener *listener;
    while ((feed = live_next_feed(live, now)) != NULL && sk_pace_take(&live->reads, now)) {
        live->fresh_next = feed->asked_ms != 0;
        sk_list_remove(&feed->list);
        sk_list_add_last(&feed->list, &live->feeds);
        feed->asked_ms = now;
        live_ask_redis(feed);
    }
    while ((listener = sk_list_first(&live->listeners)) != NULL &&
           // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): one that is freed has left the list
           now - listener->visited_ms >= SK_LIVE_EACH_MS) {
        if (!live_serve(live, listener, now))
            break;
    }
    if (live->count > 0)
        sk_timer_once(live->timer, SLICE_MS);
}

// ---- opening and closing ----

struct sk_live *sk_live_open(struct sk_control *control, const struct sk_live_wire *wire)
{
    struct sk_live *live = calloc(1, sizeof *live);
    if (live == NULL)
        return NULL;
    uint64_t now = uv_now(control->sale->loop), reactors = (uint64_t)control->reactors;
    uint64_t texts = SK_LIVE_TEXTS_PER_S / reactors, reads = READS_PER_S / reactors;
    live->control = control;
    live->wire = *wire;
    live->texts = sk_pace_begin(texts, 1 + texts * SLICE_MS / 1000, now);
    live->reads = sk_pace_begin(reads == 0 ? 1 : reads, 1 + reads * SLICE_MS / 1000, now);
    sk_list_begin(&live->listeners);
    sk_list_begin(&live->feeds);
    sk_list_begin(&live->fresh);
    live->timer = sk_timer_open(control->sale->loop, 0, live_on_slice, live);
    if (live->timer == NULL) {
        free(live);
        return NULL;
    }
    return live;
}

size_t sk_live_count(const struct sk_live *live)
{
    return live->count;
}

void sk_live_close(struct sk_live *live)
{
    if (live == NULL)
        return;
    while (live->listeners.next != &live->listeners)
        live_forget(live, (struct live_listener *)live->listeners.next);
    // The links are closed, so no snapshot is in progress.
    SK_ASSERT(sk_list_is_empty(&live->feeds) && sk_list_is_empty(&live->fresh));
    sk_timer_close(live->timer);
    free(live);
}

// ---- the calls: the events of one voucher, and of several ----

// The voucher of the path, or those of the query. Returns their number; 0: the query has no such list.
static size_t live_read_ids(struct sk_request *request, int64_t ids[SK_LIVE_VOUCHERS_MAX])
{
    const char *text = sk_request_query(request, "ids", NULL);
    size_t count = 0;
    ids[0] = sk_call_of(request)->voucher_id;
    if (ids[0] != 0)
        return 1;
    while (text != NULL && count < SK_LIVE_VOUCHERS_MAX) {
        char id[SK_NUMBER_SIZE];
        size_t len = strcspn(text, ",");
        (void)snprintf(id, sizeof id, "%.*s", (int)len, text);
        if (len >= sizeof id || !sk_text_voucher_id(id, &ids[count]))
            return 0;
        for (size_t i = 0; i < count; i++) {
            if (ids[i] == ids[count])
                return 0;
        }
        count++;
        if (text[len] == '\0')
            return count;
        text += len + 1;
    }
    return 0;
}

static void live_on_gone(const struct sk_context *context, struct sk_request *request)
{
    sk_live_leave(context->control->live, request->handle);
}

// Checks one voucher after the other, those of the catalogue at once. If all exist, the stream begins, unless the
// client has seen its end.
static void live_check(const struct sk_context *context, struct sk_request *request)
{
    struct sk_call *call = sk_call_of(request);
    const struct sk_catalogue *catalogue = context->control->sale->catalogue;
    int64_t ids[SK_LIVE_VOUCHERS_MAX];
    size_t count = live_read_ids(request, ids);
    while (call->checked < count && sk_catalogue_find(catalogue, ids[call->checked]) != NULL)
        call->checked++;
    if (call->checked < count) {
        sk_check_offer(context->control, ids[call->checked], request->handle);
        return;
    }
    const char *last_id = sk_request_header(request, "last-event-id", NULL);
    bool ended = last_id != NULL && strcmp(last_id, END_ID) == 0;
    for (size_t i = 0; ended && i < count; i++)
        ended = live_is_over(sk_catalogue_find(catalogue, ids[i]));
    if (ended) {
        sk_answer_nothing(context->answers, request);
        return;
    }
    call->on_gone = live_on_gone;
    sk_answer_stream(context->answers, request, sk_stream_new(request));
}

// The listener receives the state of a retired voucher, too. A refusal names the unknown one of several vouchers.
static void live_on_found(const struct sk_context *context, struct sk_request *request, const struct sk_answer *answer)
{
    struct sk_call *call = sk_call_of(request);
    struct sk_answer refusal = *answer;
    char detail[DETAIL_SIZE];
    int64_t ids[SK_LIVE_VOUCHERS_MAX];
    if (answer->verdict == SK_VERDICT_FOUND || answer->verdict == SK_VERDICT_ENDED) {
        call->checked++;
        live_check(context, request);
        return;
    }
    if (answer->verdict == SK_VERDICT_UNKNOWN_VOUCHER && call->voucher_id == 0) {
        (void)live_read_ids(request, ids);
        (void)snprintf(detail, sizeof detail, "there is no voucher %" PRId64, ids[call->checked]);
        refusal.parameter = "ids";
        refusal.detail = detail;
    }
    sk_answer_send(context->answers, request, &refusal);
}

_Static_assert(SK_LIVE_VOUCHERS_MAX == 32, "as the refusal says");

void sk_handle_events(const struct sk_context *context, struct sk_request *request)
{
    int64_t ids[SK_LIVE_VOUCHERS_MAX];
    if (context->draining) {
        sk_answer_refusal(context->answers, request, SK_VERDICT_SHUTTING_DOWN);
        return;
    }
    if (live_read_ids(request, ids) == 0) {
        (void)sk_answer_parameter(context->answers, request, "ids",
                                  "must be 1 to 32 different voucher ids, separated by commas");
        return;
    }
    if (!sk_call_hold(context, request))
        return;
    sk_call_of(request)->on_answer = live_on_found;
    live_check(context, request);
}

// Last-Event-ID may be anything; if it is no id of ours, the client has seen no event. Events of several vouchers may
// have the same id, so it does not tell which of them were seen.
void sk_live_on_stream(const struct sk_context *context, struct sk_request *request)
{
    const char *text = sk_request_header(request, "last-event-id", NULL);
    int64_t ids[SK_LIVE_VOUCHERS_MAX];
    size_t count = live_read_ids(request, ids);
    uint64_t last_id = 0;
    if (count > 1 || text == NULL || !sk_text_number(text, INT64_MAX, &last_id))
        last_id = 0;
    if (context->control == NULL || !sk_live_listen(context->control->live, ids, count, last_id, request->handle))
        sk_stream_end(request);
}
