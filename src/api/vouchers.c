// The catalogue decides whether a voucher exists. An id newer than the catalogue waits for its next update, which all
// such calls share. An older id that is not in it is retired, or was never given out: PostgreSQL is asked, for a
// few at a time. So made-up ids cost next to nothing.
//
// While PostgreSQL is away, buyers are shown what the catalogue has, so that a page can open and sell (stale.h).
// Operators are shown what the stores have, or nothing.
#include "vouchers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "catalogue.h"
#include "clock.h"
#include "cursor.h"
#include "params.h"
#include "phase.h"
#include "stale.h"
#include "text.h"
#include "voucher_books.h"

enum { COLUMN_DOCUMENT = 3, COLUMN_VERSION = 4 }; // of find_voucher.sql

struct voucher_read {
    struct sk_query query;
    int64_t version;
    bool inspect;
    struct sk_stale *stale; // owned; NULL: PostgreSQL was asked
};

// Writes the current state in front of an object's members: {"server_time":"...","can_sell":true,<rest of the object>.
// can_sell is false while Redis is away: the remaining units in the object cannot be bought then. `voucher_id`: 0 for a
// list, of which something can be bought while a node is there.
static void voucher_put_time(const struct sk_sale *sale, struct sk_buf *out, int64_t voucher_id, const char *object,
                             int64_t now_ms)
{
    const struct sk_voucher *voucher = sk_catalogue_find(sale->catalogue, voucher_id);
    bool can_sell =
        voucher == NULL ? sk_nodes_state(sale->nodes).orders > 0 : sk_redis_ready(sk_sale_redis(sale, voucher));
    char now[SK_TIME_SIZE];
    sk_text_put_time(now_ms, now);
    sk_buf_printf(out, "{\"server_time\":\"%s\",\"can_sell\":%s,%s", now, can_sell ? "true" : "false", object + 1);
}

struct sk_voucher_cache *sk_voucher_cache_open(void)
{
    struct sk_voucher_cache *cache = calloc(1, sizeof *cache);
    if (cache != NULL)
        cache->stale_reads = sk_pace_begin(SK_STALE_READS_PER_S, SK_STALE_READS_PER_S, 0);
    return cache;
}

void sk_voucher_cache_close(struct sk_voucher_cache *cache)
{
    if (cache == NULL)
        return;
    for (size_t i = 0; i < SK_SHOWN_MAX; i++)
        free(cache->vouchers[i].document);
    free(cache->list.document);
    free(cache);
}

static struct sk_shown *voucher_shown(struct sk_control *control, int64_t id)
{
    return &control->shown->vouchers[(uint64_t)id % SK_SHOWN_MAX];
}

// Answers from the cache; `next` as in struct sk_answer. False: nothing is cached, or it is too old.
static bool voucher_answer_shown(struct sk_control *control, const struct sk_shown *shown, const char *next,
                                 uint64_t handle)
{
    struct sk_buf body = {0};
    int64_t now_ms = (int64_t)sk_wall_ms();
    if (shown->document == NULL || shown->until_ms <= uv_now(control->sale->loop) || shown->phase_until_ms <= now_ms)
        return false;
    voucher_put_time(control->sale, &body, shown->voucher_id, shown->document, now_ms);
    struct sk_answer answer = {.verdict = body.failed ? SK_VERDICT_OVERLOADED : SK_VERDICT_FOUND,
                               .body = body.failed ? NULL : body.data,
                               .version = shown->version,
                               .next = next};
    sk_control_answer(control, handle, &answer);
    sk_buf_free(&body);
    return true;
}

// Whether a shard cannot be asked, or would let the call wait.
static bool voucher_shard_is_away(const struct sk_control *control, size_t shard)
{
    const struct sk_pg *pg = control->sale->shards[shard].queries;
    return !sk_pg_ready(pg) || sk_pg_lags(pg);
}

// ---- one voucher ----

static void voucher_release(struct sk_query *query)
{
    struct voucher_read *read = (struct voucher_read *)query;
    sk_stale_free(read->stale);
    read->stale = NULL;
}

static void voucher_end(struct voucher_read *read)
{
    struct sk_answer answer = {.verdict = SK_VERDICT_FOUND, .body = read->query.body.data, .version = read->version};
    sk_query_end_with(&read->query, &answer);
}

// Caches the document, which it takes, and ends with it.
static void voucher_show(struct voucher_read *read, struct sk_buf *document, const struct sk_phase_span *span)
{
    struct sk_query *query = &read->query;
    struct sk_control *control = query->control;
    if (document->failed) {
        sk_buf_free(document);
        sk_query_end(query, SK_VERDICT_OVERLOADED, NULL);
        return;
    }
    voucher_put_time(control->sale, &query->body, query->finding.id, document->data, span->now_ms);
    if (query->voucher != NULL) {
        struct sk_shown *shown = voucher_shown(control, query->finding.id);
        free(shown->document);
        *shown = (struct sk_shown){.document = document->data,
                                   .until_ms = uv_now(control->sale->loop) + SK_VOUCHER_SHOWN_MS,
                                   .phase_until_ms = span->until_ms,
                                   .version = read->version,
                                   .voucher_id = query->finding.id,
                                   .change = query->voucher->change};
        *document = (struct sk_buf){0};
    }
    sk_buf_free(document);
    voucher_end(read);
}

static void voucher_on_units(struct sk_query *query)
{
    struct voucher_read *read = (struct voucher_read *)query;
    struct sk_buf voucher = {0}, document = {0};
    struct sk_phase_span span = sk_phase_span_now();
    sk_stale_put(read->stale, &voucher, &span);
    document.failed = voucher.failed;
    if (!voucher.failed)
        sk_buf_printf(&document, "{\"stale\":true,%s", voucher.data + 1);
    sk_buf_free(&voucher);
    voucher_show(read, &document, &span);
}

// PostgreSQL cannot be asked.
static void voucher_show_stale(struct voucher_read *read)
{
    struct sk_query *query = &read->query;
    if (query->voucher == NULL || read->inspect) {
        sk_query_end(query, SK_VERDICT_UNAVAILABLE, NULL);
        return;
    }
    read->version = query->voucher->change;
    read->stale = sk_stale_new(query, voucher_on_units);
    if (read->stale == NULL)
        sk_query_end(query, SK_VERDICT_OVERLOADED, NULL);
    else if (!sk_stale_add(read->stale, query->voucher))
        sk_query_end(query, SK_VERDICT_UNAVAILABLE, NULL);
    else
        sk_stale_ask(read->stale);
}

// Returns only known states.
static const char *voucher_state_shown(const struct sk_reply *reply)
{
    const char *state = sk_reply_text(sk_reply_at(reply, SK_SNAPSHOT_STATE), NULL);
    if (reply == NULL)
        return "unknown";
    if (state != NULL && state[0] == '\0')
        return "missing";
    if (state != NULL && (strcmp(state, "loading") == 0 || sk_voucher_state_known(state)))
        return state;
    return "unreadable";
}

static void voucher_on_snapshot(void *arg, const struct sk_reply *reply)
{
    static const struct {
        const char *name;
        size_t element;
    } numbers[] = {{"stock", SK_SNAPSHOT_STOCK},    {"epoch", SK_SNAPSHOT_EPOCH},
                   {"buyers", SK_SNAPSHOT_BUYERS},  {"journal", SK_SNAPSHOT_JOURNAL},
                   {"version", SK_SNAPSHOT_CHANGE}, {"journal_age_ms", SK_SNAPSHOT_AGE_MS}};
    struct voucher_read *read = arg;
    struct sk_buf *body = &read->query.body;
    sk_buf_printf(body, "\"state\":\"%s\"", voucher_state_shown(reply));
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        const struct sk_reply *element = sk_reply_at(reply, numbers[i].element);
        int64_t number;
        if (element != NULL && sk_reply_number(element, &number))
            sk_buf_printf(body, ",\"%s\":%" PRId64, numbers[i].name, number);
    }
    sk_buf_puts(body, "}}");
    voucher_end(read);
}

static void voucher_ask_redis(struct voucher_read *read, const char *document)
{
    struct sk_query *query = &read->query;
    sk_buf_add(&query->body, document, strlen(document) - 1); // the closing brace comes later
    sk_buf_puts(&query->body, ",\"redis\":{");
    const struct sk_voucher *voucher = query->voucher;
    if (voucher == NULL) {
        sk_buf_puts(&query->body, "\"state\":\"retired\"}}");
        voucher_end(read);
        return;
    }
    if (sk_snapshot_ask(sk_sale_ask_redis(query->control->sale, voucher), &voucher->keys, NULL, voucher_on_snapshot,
                        read) != SK_OK)
        sk_query_end(query, SK_VERDICT_UNAVAILABLE, NULL);
}

static void voucher_on_row(void *arg, const struct sk_result *result)
{
    struct voucher_read *read = arg;
    struct sk_query *query = &read->query;
    if (result->rows == NULL) {
        voucher_show_stale(read);
        return;
    }
    if (sk_rows_count(result->rows) == 0) {
        sk_query_end(query, SK_VERDICT_UNKNOWN_VOUCHER, NULL);
        return;
    }
    struct sk_buf document = {0};
    struct sk_phase_span span = sk_phase_span_now();
    sk_phase_put(&document, sk_rows_text(result->rows, 0, COLUMN_DOCUMENT), &span);
    read->version = sk_rows_number(result->rows, 0, COLUMN_VERSION);
    if (document.failed || !read->inspect) {
        voucher_show(read, &document, &span);
    } else {
        voucher_ask_redis(read, document.data);
        sk_buf_free(&document);
    }
}

static void voucher_on_found(struct sk_query *query, enum sk_found found)
{
    char id[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {sk_params_number(id, query->finding.id)};
    struct voucher_read *read = (struct voucher_read *)query;
    if (found == SK_FOUND_NONE)
        sk_query_end(query, SK_VERDICT_UNKNOWN_VOUCHER, NULL);
    else if (found == SK_FOUND_LISTED && !read->inspect && voucher_shard_is_away(query->control, query->shard))
        voucher_show_stale(read);
    else
        sk_query_ask_pg(query, SK_STATEMENT_FIND_VOUCHER, 1, params, voucher_on_row);
}

static void voucher_ask(struct sk_control *control, int64_t id, bool inspect, uint64_t handle)
{
    char key[SK_QUERY_KEY_SIZE];
    const struct sk_voucher *voucher = sk_catalogue_find(control->sale->catalogue, id);
    // A call does not join one that already waits for a shard that hangs.
    bool away = voucher != NULL && voucher_shard_is_away(control, voucher->shard);
    (void)snprintf(key, sizeof key, "%s:%" PRId64, inspect ? "inspect" : away ? "stale" : "voucher", id);
    enum sk_pg_class class = inspect ? SK_PG_COMMANDS : SK_PG_QUERIES;
    struct voucher_read *read = sk_query_new_about(control, class, handle, key, sizeof *read, id, voucher_on_found);
    if (read == NULL)
        return;
    read->inspect = inspect;
    read->query.release = voucher_release;
    sk_query_start(&read->query);
}

void sk_show_voucher(struct sk_control *control, int64_t id, uint64_t handle)
{
    const struct sk_voucher *voucher = sk_catalogue_find(control->sale->catalogue, id);
    const struct sk_shown *shown = voucher_shown(control, id);
    bool kept = voucher != NULL && shown->voucher_id == id && shown->change == voucher->change;
    if (!kept || !voucher_answer_shown(control, shown, NULL, handle))
        voucher_ask(control, id, false, handle);
}

void sk_handle_voucher(const struct sk_context *context, struct sk_request *request)
{
    sk_show_voucher(context->control, sk_call_of(request)->voucher_id, request->handle);
}

void sk_inspect_voucher(struct sk_control *control, int64_t id, uint64_t handle)
{
    voucher_ask(control, id, true, handle);
}

void sk_handle_inspect(const struct sk_context *context, struct sk_request *request)
{
    sk_inspect_voucher(context->control, sk_call_of(request)->voucher_id, request->handle);
}

// ---- whether the voucher is on offer ----
//
// The catalogue answers at once. A voucher that it does not have is searched for, as for a purchase.

static void offer_on_retired(void *arg, const struct sk_result *result)
{
    struct sk_query *query = arg;
    if (result->rows == NULL)
        sk_query_end(query, SK_VERDICT_UNAVAILABLE, NULL);
    else
        sk_query_end(query, sk_rows_count(result->rows) == 0 ? SK_VERDICT_UNKNOWN_VOUCHER : SK_VERDICT_ENDED, NULL);
}

static void offer_on_found(struct sk_query *query, enum sk_found found)
{
    char id[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {sk_params_number(id, query->finding.id)};
    if (found == SK_FOUND_LISTED)
        sk_query_end(query, SK_VERDICT_FOUND, NULL);
    else if (found == SK_FOUND_OLD)
        sk_query_ask_pg(query, SK_STATEMENT_FIND_VOUCHER, 1, params, offer_on_retired);
    else
        sk_query_end(query, SK_VERDICT_UNKNOWN_VOUCHER, NULL);
}

void sk_check_offer(struct sk_control *control, int64_t voucher_id, uint64_t handle)
{
    char key[SK_QUERY_KEY_SIZE];
    if (sk_catalogue_find(control->sale->catalogue, voucher_id) != NULL) {
        sk_control_answer(control, handle, &(struct sk_answer){.verdict = SK_VERDICT_FOUND});
        return;
    }
    (void)snprintf(key, sizeof key, "offer:%" PRId64, voucher_id);
    struct sk_query *query =
        sk_query_new_about(control, SK_PG_QUERIES, handle, key, sizeof *query, voucher_id, offer_on_found);
    if (query != NULL)
        sk_query_start(query);
}

// ---- lists ----
//
// A made-up cursor is refused before any store is asked. A valid one costs a statement, so pages in progress are
// counted, and equal calls share one. The first page costs a statement a second.

enum { PAGES_MAX = 16, LISTED_ID = 0, LISTED_DOCUMENT };

struct voucher_list {
    struct sk_query query;
    struct sk_page page;
    struct sk_gather gather;
    struct sk_stale *stale; // owned; NULL: PostgreSQL was asked
    bool complete;          // no voucher is missing in it
    bool kept;              // its answer is cached
    bool counted;           // in control->shown->pages
};

static void list_release(struct sk_query *query)
{
    struct voucher_list *list = (struct voucher_list *)query;
    SK_ASSERT(query->control->shown->pages >= list->counted);
    query->control->shown->pages -= list->counted;
    list->counted = false;
    sk_stale_free(list->stale);
    list->stale = NULL;
}

// If memory is out, the next call asks PostgreSQL again.
static void list_keep(struct voucher_list *list, struct sk_buf *document, int64_t until_ms)
{
    struct sk_control *control = list->query.control;
    struct sk_voucher_cache *cache = control->shown;
    const char *next = list->page.next;
    if (next[0] != '\0')
        sk_buf_printf(document, ",\"next\":\"%s\"", next);
    sk_buf_puts(document, "}");
    if (document->failed)
        return;
    free(cache->list.document);
    cache->list = (struct sk_shown){.document = document->data,
                                    .until_ms = uv_now(control->sale->loop) + SK_VOUCHER_SHOWN_MS,
                                    .phase_until_ms = until_ms};
    (void)snprintf(cache->list_next, sizeof cache->list_next, "%s", next);
    *document = (struct sk_buf){0}; // the list owns its bytes now
}

// The list's vouchers, and no more.
static void list_show(struct voucher_list *list, struct sk_buf *document, const struct sk_phase_span *span)
{
    struct sk_query *query = &list->query;
    sk_buf_puts(document, list->complete ? "]" : "],\"complete\":false");
    if (document->failed) {
        sk_buf_free(document);
        sk_query_end(query, SK_VERDICT_OVERLOADED, NULL);
        return;
    }
    voucher_put_time(query->control->sale, &query->body, 0, document->data, span->now_ms);
    if (list->kept)
        list_keep(list, document, span->until_ms);
    sk_buf_free(document);
    sk_page_end(&list->page, query);
}

static void list_on_units(struct sk_query *query)
{
    struct voucher_list *list = (struct voucher_list *)query;
    struct sk_buf document = {0};
    struct sk_phase_span span = sk_phase_span_now();
    sk_buf_puts(&document, "{\"stale\":true,\"vouchers\":[");
    sk_stale_put(list->stale, &document, &span);
    list_show(list, &document, &span);
}

// The first voucher of the page, among those of the catalogue, the highest id first.
static size_t list_first(const struct voucher_list *list, const struct sk_listed *listed, size_t count)
{
    int64_t before = 0;
    for (size_t i = 0; i < list->page.places; i++) {
        int64_t last = sk_page_is_new(&list->page, i) ? INT64_MAX : (int64_t)list->page.after[i].first;
        before = last > before ? last : before;
    }
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (listed[middle].id < before)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

// A shard cannot be asked: the page is from the catalogue.
static void list_show_stale(struct sk_query *query)
{
    struct voucher_list *list = (struct voucher_list *)query;
    const struct sk_control *control = query->control;
    size_t count, shown = 0, known = 0;
    bool missing = false;
    const struct sk_listed *listed = sk_catalogue_listed(control->sale->catalogue, &count);
    for (size_t i = 0; i < control->sale->shard_count; i++)
        known += sk_catalogue_sync_complete(control->recovery->syncs[i]);
    list->stale = known == 0 ? NULL : sk_stale_new(query, list_on_units);
    if (list->stale == NULL) {
        sk_query_end(query, known == 0 ? SK_VERDICT_UNAVAILABLE : SK_VERDICT_OVERLOADED, NULL);
        return;
    }
    list->complete = known == control->sale->shard_count;
    memcpy(list->page.last, list->page.after, sizeof list->page.last);
    for (size_t i = list_first(list, listed, count); i < count; i++) {
        struct sk_voucher *voucher = listed[i].voucher;
        const struct sk_position *shown_last = &list->page.after[voucher->shard];
        if (!sk_page_is_new(&list->page, voucher->shard) && voucher->id >= (int64_t)shown_last->first)
            continue; // an earlier page has it
        if (shown == list->page.limit) {
            sk_page_go_on(&list->page);
            break;
        }
        if (sk_stale_add(list->stale, voucher)) {
            list->page.last[voucher->shard] = (struct sk_position){.first = (uint64_t)voucher->id};
            shown++;
        } else {
            list->complete = false;
            missing = true;
        }
    }
    if (shown == 0 && missing)
        sk_query_end(query, SK_VERDICT_UNAVAILABLE, NULL);
    else
        sk_stale_ask(list->stale);
}

static void list_on_rows(struct sk_query *query, struct sk_gathered *gathered)
{
    struct voucher_list *list = (struct voucher_list *)query;
    struct sk_buf document = {0};
    struct sk_phase_span span = sk_phase_span_now();
    if (!gathered->complete && list->gather.none != NULL) {
        list_show_stale(query);
        return;
    }
    sk_buf_puts(&document, "{\"vouchers\":[");
    sk_page_add(&list->page, &document, gathered,
                &(struct sk_page_columns){.first = LISTED_ID, .document = LISTED_DOCUMENT, .phases = &span});
    list->complete = gathered->complete;
    list_show(list, &document, &span);
}

static bool list_any_is_away(const struct sk_control *control)
{
    bool away = false;
    for (size_t i = 0; i < control->sale->shard_count; i++)
        away = away || voucher_shard_is_away(control, i);
    return away;
}

// `state`: as in list_vouchers.sql; `title`: what titles must contain; NULL: any.
static void list_ask(struct voucher_list *list, const char *state, const char *title)
{
    struct sk_query *query = &list->query;
    char before[SK_PARAM_NUMBER_SIZE], most[SK_PARAM_NUMBER_SIZE];
    sk_gather_begin(&list->gather, query, list_on_rows);
    list->gather.none = query->class == SK_PG_QUERIES ? list_show_stale : NULL;
    for (size_t i = 0; i < list->page.places; i++) {
        const char *params[] = {state, sk_page_is_new(&list->page, i) ? NULL : sk_page_first(&list->page, i, before),
                                sk_page_most(&list->page, most), title};
        if (title == NULL)
            sk_gather_ask(&list->gather, i, SK_STATEMENT_LIST_VOUCHERS, 3, params);
        else
            sk_gather_ask(&list->gather, i, SK_STATEMENT_FIND_VOUCHERS, 4, params);
    }
    sk_gather_end(&list->gather);
}

// For buyers.
static void list_start(struct sk_query *query)
{
    struct voucher_list *list = (struct voucher_list *)query;
    list->page.next[0] = '\0';
    if (!list->kept && query->control->shown->pages == PAGES_MAX) {
        sk_query_end(query, SK_VERDICT_OVERLOADED, NULL);
        return;
    }
    list->counted = !list->kept;
    query->control->shown->pages += list->counted;
    if (list_any_is_away(query->control))
        list_show_stale(query);
    else
        list_ask(list, "listed", NULL);
}

void sk_list_vouchers(struct sk_control *control, const struct sk_page_asked *ask, uint64_t handle)
{
    char key[SK_QUERY_KEY_SIZE];
    struct sk_page page;
    const char *next = control->shown->list_next[0] == '\0' ? NULL : control->shown->list_next;
    if (!sk_page_begin(&page, control, SK_CURSOR_VOUCHERS, "", ask, handle))
        return;
    bool usual = page.first && page.limit == SK_PAGE_MOST;
    if (usual && voucher_answer_shown(control, &control->shown->list, next, handle))
        return;
    (void)snprintf(key, sizeof key, "%s:%u:%s", list_any_is_away(control) ? "stale" : "vouchers", page.limit,
                   page.first ? "" : ask->cursor);
    struct voucher_list *list = sk_query_new(control, SK_PG_QUERIES, handle, key, sizeof *list, list_start);
    if (list == NULL)
        return;
    list->query.release = list_release;
    list->page = page;
    list->kept = usual;
    sk_query_start(&list->query);
}

void sk_handle_vouchers(const struct sk_context *context, struct sk_request *request)
{
    struct sk_page_asked asked;
    if (sk_page_read_query(context, request, "cursor", &asked))
        sk_list_vouchers(context->control, &asked, request->handle);
}

void sk_list_admin_vouchers(struct sk_control *control, const char *state, const char *title,
                            const struct sk_page_asked *ask, uint64_t handle)
{
    char scope[SK_CURSOR_SCOPE_MAX + 1];
    struct sk_page page;
    (void)snprintf(scope, sizeof scope, title == NULL ? "%s" : "%s:%s", state == NULL ? "" : state, title);
    if (!sk_page_begin(&page, control, SK_CURSOR_ADMIN_VOUCHERS, scope, ask, handle))
        return;
    struct voucher_list *list = sk_query_new(control, SK_PG_COMMANDS, handle, NULL, sizeof *list, NULL);
    if (list == NULL)
        return;
    list->page = page;
    list_ask(list, state, title);
}

void sk_handle_admin_vouchers(const struct sk_context *context, struct sk_request *request)
{
    struct sk_page_asked asked;
    const char *state = sk_request_query(request, "state", NULL), *title = sk_request_query(request, "title", NULL);
    size_t len = title == NULL ? 0 : strlen(title);
    if (state != NULL && !sk_voucher_state_known(state))
        (void)sk_answer_parameter(context->answers, request, "state", "must be open, paused, closed or retired");
    else if (!sk_page_read_query(context, request, "cursor", &asked))
        return;
    else if (title != NULL && (len == 0 || len > SK_VOUCHER_TITLE_MAX || !sk_text_utf8(title)))
        (void)sk_answer_parameter(context->answers, request, "title", "must have 1 to 100 bytes of UTF-8");
    else
        sk_list_admin_vouchers(context->control, state, title, &asked, request->handle);
}
