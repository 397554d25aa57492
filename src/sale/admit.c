// Two checks. The refusal cache (`refusals.newest`) answers SOLD_OUT, ENDED, PAUSED and NOT_STARTED from memory for a
// short time after Redis has answered so. A cached refusal expires by this instance's setting, and by the `cache_ms`
// that Redis allows all instances: a sale that reopens sells nothing for that long (lua/shared/voucher.lua). So both
// times count from before Redis was asked, and are checked at the moment of use.
//
// Winners must still get their order id, even before the start, since Redis's clock may go back. So the cache needs a
// filter of the buyers, and of those who may repeat an order that has ended. It is read from Redis once for each state
// of the buyers, which the voucher's `last` names. Without such a filter all requests ask Redis.
//
// The load check comes second, because a request refused from memory is no load. It answers OVERLOADED if too many
// purchases are in progress, or too many have come in this second.
#include "admit.h"

#include <string.h>

#include "clock.h"
#include "failpoint.h"
#include "filter.h"
#include "full_line.h"
#include "trust.h"

enum { MAYBE_MORE = 1000, NS_PER_MS = 1000000 };
enum { PAUSES = 9 };                         // ms of pause for each ms that a reading took
enum { PAGES_MIN = 1000, PAGE_LEAST = 100 }; // HSCAN returns far more names a page

struct admit_reading {
    const struct sk_sale *sale;
    struct sk_voucher *voucher;
    struct sk_filter *filter;
    uint64_t since_ms;
    uint64_t run_number; // the Redis process: a cursor is valid in one only
    bool repeats;        // counts, or reads, those who bought before and may repeat it: after the buyers
    size_t names;        // of both hashes
    size_t pages_left;   // bounds the scan: a cursor of Redis ends
    int64_t epoch;       // of the refusal, as the version
    char version[SK_VERSION_SIZE];
    int64_t cache_ms; // of `version`
};

static void admit_on_scanned(void *arg, const struct sk_reply *reply);
static void admit_on_counted(void *arg, const struct sk_reply *reply);

// ---- reading the buyers ----

static void admit_end_reading(struct admit_reading *reading, bool complete)
{
    struct sk_refusal_cache *cache = &reading->voucher->refusals;
    // Limits reading to a tenth of the time, however often the buyers change.
    uint64_t now = uv_now(reading->sale->loop);
    cache->read_after_ms = now + PAUSES * (now - reading->since_ms);
    cache->filtering = false;
    if (complete) {
        sk_filter_free(cache->filter);
        cache->filter = reading->filter;
        cache->filter_epoch = reading->epoch;
        memcpy(cache->filter_version, reading->version, sizeof cache->filter_version);
        cache->cache_ms = (uint64_t)reading->cache_ms;
    } else {
        sk_filter_free(reading->filter);
    }
    sk_voucher_unpin(reading->voucher);
    free(reading);
}

static void admit_ask(struct admit_reading *reading, int argc, const char **argv, sk_redis_cb *done)
{
    if (sk_redis_command(sk_sale_redis(reading->sale, reading->voucher), argc, argv, NULL, done, reading) != SK_OK)
        admit_end_reading(reading, false);
}

// A rebuild of the voucher, or a loss of all of Redis's data, may have deleted the buyers during the scan. Then the
// state, the version or the epoch differs now. While they are the same, so is `cache_ms`.
static void admit_on_confirmed(void *arg, const struct sk_reply *reply)
{
    struct admit_reading *reading = arg;
    const char *state = sk_reply_text(sk_reply_at(reply, 0), NULL);
    const char *version = sk_reply_text(sk_reply_at(reply, 1), NULL);
    (void)sk_trust_number(sk_reply_at(reply, 2), SK_TRUST_MAX, &reading->cache_ms); // 0: nothing may be cached
    int64_t epoch;
    bool same_epoch = sk_trust_number(sk_reply_at(reply, 3), SK_TRUST_MAX, &epoch) && epoch == reading->epoch;
    admit_end_reading(reading, state != NULL && sk_voucher_state_of(state) != SK_VOUCHER_RETIRED && version != NULL &&
                                   strcmp(version, reading->version) == 0 && same_epoch);
}

static void admit_scan(struct admit_reading *reading, const char *cursor)
{
    const struct sk_voucher_keys *keys = &reading->voucher->keys;
    const char *argv[] = {"HSCAN", reading->repeats ? keys->repeats : keys->buyers, cursor, "COUNT", "1000"};
    if (sk_sale_run_number(reading->sale, reading->voucher) != reading->run_number)
        admit_end_reading(reading, false);
    else
        admit_ask(reading, 5, argv, admit_on_scanned);
}

// A complete scan returns every buyer that was there from its start to its end. While state and version stay the same,
// only corrections remove buyers. So the filter may hold too many, never too few.
static void admit_on_scanned(void *arg, const struct sk_reply *reply)
{
    struct admit_reading *reading = arg;
    const char *cursor = sk_reply_text(sk_reply_at(reply, 0), NULL);
    const struct sk_reply *pairs = sk_reply_at(reply, 1);
    if (cursor == NULL || pairs == NULL || reading->pages_left-- == 0) {
        admit_end_reading(reading, false);
        return;
    }
    for (size_t i = 0; i + 1 < sk_reply_count(pairs); i += 2) {
        const char *user = sk_reply_text(sk_reply_at(pairs, i), NULL);
        if (user != NULL)
            sk_filter_add(reading->filter, user, strcspn(user, " ")); // drops the key of "user key"
    }
    if (strcmp(cursor, "0") == 0 && reading->repeats) {
        const char *argv[] = {"HMGET", reading->voucher->keys.voucher, "state", "last", "cache_ms", "epoch"};
        admit_ask(reading, 6, argv, admit_on_confirmed);
        return;
    }
    // Repeats are read after buyers: an order that ends meanwhile moves from the buyers to the repeats.
    reading->repeats = reading->repeats || strcmp(cursor, "0") == 0;
    admit_scan(reading, cursor);
}

static void admit_count(struct admit_reading *reading)
{
    const struct sk_voucher_keys *keys = &reading->voucher->keys;
    const char *argv[] = {"HLEN", reading->repeats ? keys->repeats : keys->buyers};
    admit_ask(reading, 2, argv, admit_on_counted);
}

static void admit_on_counted(void *arg, const struct sk_reply *reply)
{
    struct admit_reading *reading = arg;
    int64_t count;
    if (!sk_trust_number(reply, SK_TRUST_BUYERS_MAX, &count)) {
        admit_end_reading(reading, false);
        return;
    }
    reading->names += (size_t)count;
    if (!reading->repeats) {
        reading->repeats = true;
        admit_count(reading);
        return;
    }
    reading->repeats = false;
    reading->pages_left = PAGES_MIN + reading->names / PAGE_LEAST;
    reading->filter = sk_filter_new(reading->names + MAYBE_MORE);
    SK_FAILPOINT("admit.counted");
    if (reading->filter == NULL)
        admit_end_reading(reading, false);
    else
        admit_scan(reading, "0");
}

static void admit_read_buyers(const struct sk_sale *sale, struct sk_voucher *voucher, const struct sk_refusal *refusal)
{
    struct admit_reading *reading = calloc(1, sizeof *reading);
    if (reading == NULL)
        return;
    reading->sale = sale;
    reading->voucher = voucher;
    reading->epoch = refusal->epoch;
    memcpy(reading->version, refusal->version, sizeof reading->version);
    reading->since_ms = uv_now(sale->loop);
    reading->run_number = sk_sale_run_number(sale, voucher);
    voucher->refusals.filtering = true;
    sk_voucher_pin(voucher);
    admit_count(reading);
}

// ---- the refusal cache ----

// A Redis that has lost data may reuse a journal id, and so a version, but under a newer epoch.
static bool admit_has_filter(const struct sk_voucher *voucher, const struct sk_refusal *refusal)
{
    return voucher->refusals.filter != NULL && voucher->refusals.filter_epoch == refusal->epoch &&
           strcmp(voucher->refusals.filter_version, refusal->version) == 0;
}

void sk_admit_remember(const struct sk_sale *sale, struct sk_voucher *voucher, const struct sk_refusal *refusal)
{
    uint64_t now = uv_now(sale->loop);
    uint64_t until = refusal->asked_at_ms + (uint64_t)sale->options->sold_out_mark_ms;
    if (refusal->code == SK_PURCHASE_NOT_STARTED && refusal->begin_at_ms <= until)
        until = refusal->begin_at_ms - 1; // ends before the start: both clocks truncate to whole ms
    if (until <= now)
        return;
    voucher->refusals.newest = *refusal;
    voucher->refusals.newest.until_ms = until;
    bool may_read = !voucher->refusals.filtering && now >= voucher->refusals.read_after_ms;
    if (!admit_has_filter(voucher, refusal) && may_read)
        admit_read_buyers(sale, voucher, refusal);
}

void sk_admit_forget(struct sk_voucher *voucher)
{
    voucher->refusals.newest.until_ms = 0;
}

// ---- the two checks ----

static bool admit_refuses_from_cache(const struct sk_voucher *voucher, const char *user, uint64_t now_ms,
                                     struct sk_purchase_result *result)
{
    const struct sk_refusal *refusal = &voucher->refusals.newest;
    if (refusal->until_ms <= now_ms || !admit_has_filter(voucher, refusal) ||
        sk_filter_maybe(voucher->refusals.filter, user, strlen(user)))
        return false;
    uint64_t precisely_ms = sk_monotonic_ms(); // uv_now() may be older than a pause of this process
    if (refusal->until_ms <= precisely_ms || refusal->asked_at_ms + voucher->refusals.cache_ms <= precisely_ms)
        return false;
    result->code = refusal->code;
    if (refusal->code == SK_PURCHASE_NOT_STARTED)
        result->retry_after_ms = refusal->begin_at_ms > now_ms ? refusal->begin_at_ms - now_ms : 1;
    return true;
}

static bool admit_is_loaded(const struct sk_sale *sale, const struct sk_voucher *voucher, uint64_t now_ms)
{
    size_t most = (size_t)sale->options->purchases_max;
    bool full = most > 0 && !sk_order_pool_has_room(sale->orders, most, voucher->shard);
    return full || (sale->purchases != NULL && !sk_rate_take(sale->purchases, now_ms * NS_PER_MS));
}

bool sk_admit_refuses(const struct sk_sale *sale, struct sk_voucher *voucher, const char *user, bool *joins,
                      struct sk_purchase_result *result)
{
    uint64_t now = uv_now(sale->loop);
    *result = (struct sk_purchase_result){0};
    bool refuses = admit_refuses_from_cache(voucher, user, now, result);
    if (refuses && joins != NULL && result->code == SK_PURCHASE_SOLD_OUT) {
        *joins = !sk_full_line_refuses(voucher, user);
        refuses = !*joins;
        result->code = refuses ? SK_PURCHASE_WAITLIST_FULL : result->code;
    }
    if (!refuses) {
        bool closed = sk_sale_shard(sale, voucher)->closed;
        refuses = closed || admit_is_loaded(sale, voucher, now);
        result->code = closed ? SK_PURCHASE_UNAVAILABLE : SK_PURCHASE_OVERLOADED;
    }
    sk_metrics_add(sale->metrics, SK_METRIC_REFUSED_MEMORY, refuses);
    return refuses;
}
