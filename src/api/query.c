#include "query.h"

#include <stdlib.h>
#include <string.h>

#include "catalogue.h"
#include "hash.h"
#include "order_id.h"
#include "verdict.h"

enum { BUCKETS = 512 };

struct sk_asker {
    struct sk_asker *next;
    uint64_t handle;
};

struct sk_queries {
    struct sk_asker askers[SK_QUERY_ASKERS_MAX];
    struct sk_asker *spare;
    int used;
    struct sk_query *buckets[BUCKETS]; // by key; those without one are in the first
    unsigned old_vouchers;             // queries of users about vouchers that are not in the catalogue
    bool closing;
};

struct sk_queries *sk_queries_open(void)
{
    struct sk_queries *queries = calloc(1, sizeof *queries);
    if (queries == NULL)
        return NULL;
    for (int i = 0; i < SK_QUERY_ASKERS_MAX; i++) {
        queries->askers[i].next = queries->spare;
        queries->spare = &queries->askers[i];
    }
    return queries;
}

void sk_queries_close(struct sk_queries *queries)
{
    if (queries == NULL)
        return;
    queries->closing = true;
    for (int i = 0; i < BUCKETS; i++) {
        while (queries->buckets[i] != NULL)
            sk_query_end(queries->buckets[i], SK_VERDICT_UNAVAILABLE, NULL);
    }
    SK_ASSERT(queries->old_vouchers == 0);
    free(queries);
}

// ---- beginning ----

static struct sk_query **query_bucket(struct sk_queries *queries, const char *key)
{
    return &queries->buckets[key[0] == '\0' ? 0 : 1 + sk_hash(key, strlen(key)) % (BUCKETS - 1)];
}

static void query_add_asker(struct sk_queries *queries, struct sk_asker **list, uint64_t handle)
{
    struct sk_asker *asker = queries->spare;
    queries->spare = asker->next;
    queries->used++;
    *asker = (struct sk_asker){.next = *list, .handle = handle};
    *list = asker;
}

static void query_spare(struct sk_queries *queries, struct sk_asker *asker)
{
    asker->next = queries->spare;
    queries->spare = asker;
    SK_ASSERT(queries->used > 0);
    queries->used--;
}

static bool query_has_place(const struct sk_queries *queries, enum sk_pg_class class)
{
    return queries->used < SK_QUERY_ASKERS_MAX - (int)class * SK_QUERY_RESERVE;
}

static struct sk_query *query_make(struct sk_control *control, enum sk_pg_class class, uint64_t handle, const char *key,
                                   size_t size, void (*start)(struct sk_query *query))
{
    struct sk_queries *queries = control->queries;
    bool full = !query_has_place(queries, class) || queries->closing;
    struct sk_query *query = full ? NULL : calloc(1, size);
    sk_metrics_add(control->sale->metrics, query == NULL ? SK_METRIC_QUERIES_FULL : SK_METRIC_QUERIES, 1);
    if (query == NULL)
        return NULL;
    query->control = control;
    query->class = class;
    query->start = start;
    memcpy(query->key, key, strlen(key) + 1);
    query_add_asker(queries, &query->askers, handle);
    struct sk_query **bucket = query_bucket(queries, query->key);
    query->next = *bucket;
    if (query->next != NULL)
        query->next->previous = query;
    *bucket = query;
    return query;
}

void *sk_query_new(struct sk_control *control, enum sk_pg_class class, uint64_t handle, const char *key, size_t size,
                   void (*start)(struct sk_query *query))
{
    struct sk_queries *queries = control->queries;
    struct sk_query *same = key == NULL ? NULL : *query_bucket(queries, key);
    SK_ASSERT(size >= sizeof *same && (key == NULL || strlen(key) < SK_QUERY_KEY_SIZE));
    while (same != NULL && strcmp(same->key, key) != 0)
        same = same->next;
    if (same != NULL && query_has_place(queries, class)) {
        query_add_asker(queries, &same->later, handle);
        return NULL;
    }
    struct sk_query *query = query_make(control, class, handle, key == NULL ? "" : key, size, start);
    if (query == NULL)
        sk_control_answer(control, handle, &(struct sk_answer){.verdict = SK_VERDICT_OVERLOADED});
    return query;
}

void *sk_query_try_new(struct sk_control *control, uint64_t handle, size_t size, void (*start)(struct sk_query *query))
{
    return query_make(control, SK_PG_QUERIES, handle, "", size, start);
}

void sk_query_start(struct sk_query *query)
{
    query->start(query);
}

// ---- steps ----

unsigned sk_query_shard_of_voucher(const struct sk_query *query, int64_t id)
{
    return sk_shard_of_voucher(id, query->control->sale->shard_count);
}

unsigned sk_query_shard_of_order(const struct sk_query *query, const char *order_id)
{
    return sk_shard_of_slot(sk_order_id_slot(order_id), query->control->sale->shard_count);
}

void sk_query_ask_pg(struct sk_query *query, enum sk_statement statement, int n, const char *const *params,
                     sk_pg_cb *done)
{
    enum sk_status status = sk_pg_call_as(query->control->sale->shards[query->shard].queries, query->class, statement,
                                          n, params, done, query);
    if (status != SK_OK)
        sk_query_end(query, status == SK_DOWN ? SK_VERDICT_UNAVAILABLE : SK_VERDICT_OVERLOADED, NULL);
}

// ---- several shards ----

void sk_gather_begin(struct sk_gather *gather, struct sk_query *query,
                     void (*done)(struct sk_query *query, struct sk_gathered *gathered))
{
    *gather = (struct sk_gather){.query = query, .done = done, .gathered = {.complete = true}};
    gather->failure = SK_VERDICT_UNAVAILABLE;
}

// The query, and with it the gather, may be gone after `done`.
static void gather_end(struct sk_gather *gather)
{
    struct sk_query *query = gather->query;
    struct sk_gathered gathered = gather->gathered;
    struct sk_rows *copies[SK_SHARDS_MAX];
    bool any = false;
    memcpy((void *)copies, (const void *)gather->copies, sizeof copies);
    for (size_t i = 0; i < SK_SHARDS_MAX; i++)
        any = any || gathered.rows[i] != NULL;
    if (any)
        gather->done(query, &gathered);
    else if (gather->none != NULL && gather->failure == SK_VERDICT_UNAVAILABLE)
        gather->none(query);
    else
        sk_query_end(query, gather->failure, NULL);
    for (size_t i = 0; i < SK_SHARDS_MAX; i++)
        sk_rows_free(copies[i]);
}

// The last rows need no copy.
static void gather_on_rows(void *arg, const struct sk_result *result)
{
    const struct sk_gather_part *part = arg;
    struct sk_gather *gather = part->gather;
    const struct sk_rows *rows = result->rows;
    SK_ASSERT(gather->waiting > 0);
    gather->waiting--;
    if (rows != NULL && gather->waiting > 0)
        rows = gather->copies[part->shard] = sk_rows_copy(rows);
    gather->gathered.rows[part->shard] = rows;
    gather->gathered.counts[part->shard] = rows == NULL ? 0 : sk_rows_count(rows);
    gather->gathered.complete = gather->gathered.complete && rows != NULL;
    if (gather->waiting == 0)
        gather_end(gather);
}

void sk_gather_ask(struct sk_gather *gather, size_t shard, enum sk_statement statement, int n,
                   const char *const *params)
{
    const struct sk_query *query = gather->query;
    const struct sk_sale *sale = query->control->sale;
    struct sk_gather_part *part = &gather->parts[shard];
    *part = (struct sk_gather_part){gather, shard};
    enum sk_status status = SK_DOWN;
    if (sale->shard_count <= 1 ||
        !sk_pg_lags(sale->shards[shard].queries)) // the others' rows do not wait for one that hangs
        status = sk_pg_call_as(sale->shards[shard].queries, query->class, statement, n, params, gather_on_rows, part);
    gather->waiting += status == SK_OK;
    gather->gathered.complete = gather->gathered.complete && status == SK_OK;
    if (status != SK_OK && status != SK_DOWN)
        gather->failure = SK_VERDICT_OVERLOADED;
}

void sk_gather_end(struct sk_gather *gather)
{
    if (gather->waiting == 0)
        gather_end(gather);
}

// ---- the catalogue ----

static void query_followed(struct sk_catalogue_sync_waiter *waiter, bool ok)
{
    struct sk_query *query = (struct sk_query *)(void *)((char *)waiter - offsetof(struct sk_query, waiter));
    query->on_followed(query, ok);
}

void sk_query_follow(struct sk_query *query, void (*done)(struct sk_query *query, bool ok))
{
    query->waiter.done = query_followed;
    query->on_followed = done;
    sk_catalogue_sync_wait(query->control->recovery->syncs[query->shard], &query->waiter);
}

static void query_let_go(struct sk_query *query)
{
    if (query->voucher != NULL)
        sk_voucher_unpin(query->voucher);
    query->voucher = NULL;
}

struct sk_voucher *sk_query_find_voucher(struct sk_query *query, int64_t id)
{
    query_let_go(query);
    query->voucher = sk_catalogue_find(query->control->sale->catalogue, id);
    query->shard = query->voucher == NULL ? sk_query_shard_of_voucher(query, id) : query->voucher->shard;
    if (query->voucher != NULL)
        sk_voucher_pin(query->voucher);
    return query->voucher;
}

// ---- answering and ending ----

void sk_control_answer(struct sk_control *control, uint64_t handle, const struct sk_answer *answer)
{
    control->on_answer(control->routes, handle, answer);
}

void sk_query_answer(struct sk_query *query, const struct sk_answer *answer)
{
    struct sk_control *control = query->control;
    struct sk_asker *asker;
    while ((asker = query->askers) != NULL) {
        uint64_t handle = asker->handle;
        query->askers = asker->next;
        query_spare(control->queries, asker);
        sk_control_answer(control, handle, answer);
    }
}

uint64_t sk_query_take_handle(struct sk_query *query)
{
    struct sk_asker *asker = query->askers;
    if (asker == NULL)
        return 0;
    SK_ASSERT(asker->next == NULL && query->key[0] == '\0');
    query->askers = NULL;
    query_spare(query->control->queries, asker);
    return asker->handle;
}

static void query_free(struct sk_query *query)
{
    struct sk_query **bucket = query_bucket(query->control->queries, query->key);
    if (query->previous != NULL)
        query->previous->next = query->next;
    else
        *bucket = query->next;
    if (query->next != NULL)
        query->next->previous = query->previous;
    sk_buf_free(&query->body);
    free(query);
}

void sk_query_end_with(struct sk_query *query, const struct sk_answer *answer)
{
    static const struct sk_answer overloaded = {.verdict = SK_VERDICT_OVERLOADED};
    if (query->release != NULL)
        query->release(query);
    SK_ASSERT(query->control->queries->old_vouchers >= query->finding.counted);
    query->control->queries->old_vouchers -= query->finding.counted;
    query->finding.counted = false;
    query_let_go(query);
    sk_query_answer(query, query->body.failed ? &overloaded : answer);
    query->askers = query->later;
    query->later = NULL;
    if (query->askers == NULL) {
        query_free(query);
    } else if (query->control->queries->closing) {
        sk_query_end(query, SK_VERDICT_UNAVAILABLE, NULL);
    } else {
        sk_buf_clear(&query->body);
        query->start(query);
    }
}

void sk_query_end(struct sk_query *query, enum sk_verdict verdict, const char *body)
{
    struct sk_answer answer = {.verdict = verdict, .body = body};
    sk_query_end_with(query, &answer);
}

// ---- finding a voucher ----

enum { OLD_MAX = 16 }; // users' queries at a time for vouchers that are not in the catalogue

static void find_old(struct sk_query *query)
{
    bool counted = query->class == SK_PG_QUERIES;
    if (counted && query->control->queries->old_vouchers >= OLD_MAX) {
        sk_query_end(query, SK_VERDICT_OVERLOADED, NULL);
        return;
    }
    query->control->queries->old_vouchers += counted;
    query->finding.counted = counted;
    query->finding.done(query, SK_FOUND_OLD);
}

static void find_on_followed(struct sk_query *query, bool ok)
{
    const struct sk_catalogue_sync *sync = query->control->recovery->syncs[query->shard];
    int64_t id = query->finding.id;
    if (!ok)
        sk_query_end(query, SK_VERDICT_UNAVAILABLE, NULL);
    else if (sk_query_find_voucher(query, id) != NULL)
        query->finding.done(query, SK_FOUND_LISTED);
    else if (id <= sk_catalogue_sync_newest_id(sync))
        find_old(query);
    else
        query->finding.done(query, SK_FOUND_NONE);
}

void sk_query_find(struct sk_query *query, int64_t id, void (*done)(struct sk_query *query, enum sk_found found))
{
    query->finding.id = id;
    query->finding.done = done;
    bool listed = sk_query_find_voucher(query, id) != NULL;
    const struct sk_catalogue_sync *sync = query->control->recovery->syncs[query->shard];
    if (listed)
        done(query, SK_FOUND_LISTED);
    else if (sk_catalogue_sync_complete(sync) && id <= sk_catalogue_sync_newest_id(sync))
        find_old(query);
    else
        sk_query_follow(query, find_on_followed);
}

static void find_start(struct sk_query *query)
{
    sk_query_find(query, query->finding.id, query->finding.done);
}

void *sk_query_new_about(struct sk_control *control, enum sk_pg_class class, uint64_t handle, const char *key,
                         size_t size, int64_t id, void (*done)(struct sk_query *query, enum sk_found found))
{
    struct sk_query *query = sk_query_new(control, class, handle, key, size, find_start);
    if (query == NULL)
        return NULL;
    query->finding.id = id;
    query->finding.done = done;
    return query;
}

void sk_query_find_later(struct sk_query *query, int64_t id, void (*done)(struct sk_query *query, enum sk_found found))
{
    query->finding.id = id;
    query->finding.done = done;
    query->shard = sk_query_shard_of_voucher(query, id);
    sk_query_follow(query, find_on_followed);
}
