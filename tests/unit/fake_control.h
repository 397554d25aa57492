// A control floor over stand-ins of the stores, the catalogue sync and the rebuilds: what a unit of it asks is seen in
// fake_stores.h and fake_catalogue_sync.h, what its askers are told is seen here. Memory may be short. Included first,
// by one source of a program.
#ifndef UNIT_FAKE_CONTROL_H
#define UNIT_FAKE_CONTROL_H

#include "failing_memory.h"

#include <stdio.h>

#include "fake_catalogue.h"
#include "fake_catalogue_sync.h"
#ifndef CONTROL_HAS_PHASES
#include "fake_phase.h"
#endif
#include "fake_stores.h"
#include "order_lookup.h"
#include "query.h"
#include "settlement_report.h"
#include "stack.h"
#include "vouchers.h"

enum { TOLD_MAX = 4200, TOLD_DOCUMENT_SIZE = 8192 };

static uv_loop_t loop;
static struct sk_sale_options options;
static struct sk_store_options stores;
static struct sk_shard shards[SK_SHARDS_MAX];
static struct sk_sale sale;
static struct sk_metrics metrics;
static struct sk_recovery recovery;
static struct sk_control control;

// By handle.
static struct {
    int count;
    enum sk_verdict verdict;
    uint64_t retry_after_ms;
    char order_id[SK_UUID_SIZE];
} told[TOLD_MAX];
static char told_document[TOLD_DOCUMENT_SIZE];  // the last one; empty: none
static char told_next[SK_CURSOR_SIZE];          // the same
static char told_status[16], told_location[32]; // of the last one; empty: none
static int64_t told_version;                    // the same
static size_t told_count;                       // of all

static void on_answer(void *arg, uint64_t handle, const struct sk_answer *answer)
{
    ck_assert_ptr_eq(arg, &control);
    ck_assert_uint_lt(handle, TOLD_MAX);
    ck_assert_uint_gt(handle, 0);
    if (sk_verdict_http_status(answer->verdict) >= 400)
        ck_assert_ptr_null(answer->body); // else it would be sent as it is
    told[handle].count++;
    told[handle].verdict = answer->verdict;
    told[handle].retry_after_ms = answer->retry_after_ms;
    (void)snprintf(told[handle].order_id, SK_UUID_SIZE, "%s", answer->order_id == NULL ? "" : answer->order_id);
    (void)snprintf(told_document, sizeof told_document, "%s", answer->body == NULL ? "" : answer->body);
    (void)snprintf(told_next, sizeof told_next, "%s", answer->next == NULL ? "" : answer->next);
    (void)snprintf(told_status, sizeof told_status, "%s", answer->status == NULL ? "" : answer->status);
    (void)snprintf(told_location, sizeof told_location, "%s", answer->location == NULL ? "" : answer->location);
    told_version = answer->version;
    told_count++;
}

static void on_result(void *arg, uint64_t handle, const struct sk_purchase_result *result)
{
    on_answer(arg, handle,
              &(struct sk_answer){.verdict = sk_verdict_of_purchase(result->code),
                                  .order_id = result->order_id,
                                  .retry_after_ms = result->retry_after_ms});
}

static inline void control_setup(void)
{
    static char links[6];
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    memset(shards, 0, sizeof shards);
    shards[0].orders = (struct sk_pg *)(void *)&links[1];
    shards[0].queries = (struct sk_pg *)(void *)&links[3];
    shards[0].reports = (struct sk_pg *)(void *)&links[4];
    shards[1].queries = (struct sk_pg *)(void *)&links[5];
    sale = (struct sk_sale){.loop = &loop,
                            .shards = shards,
                            .shard_count = 1,
                            .options = &options,
                            .metrics = &metrics,
                            .on_result = on_result,
                            .arg = &control};
    sale.catalogue = sk_catalogue_new(sizeof(struct sk_maintenance));
    control = (struct sk_control){.sale = &sale,
                                  .stores = &stores,
                                  .reactors = 1,
                                  .on_answer = on_answer,
                                  .routes = &control,
                                  .recovery = &recovery,
                                  .queries = sk_queries_open(),
                                  .shown = sk_voucher_cache_open(),
                                  .searches = sk_searches_open(),
                                  .settlements = sk_settlements_open()};
    ck_assert(control.searches != NULL && control.settlements != NULL);
    ck_assert(sale.catalogue != NULL && control.queries != NULL && control.shown != NULL);
    memset(told, 0, sizeof told);
    memset(&metrics, 0, sizeof metrics);
    told_count = 0;
    fake_catalogue_sync.waiting = NULL;
    fake_catalogue_sync.complete = true;
    fake_catalogue_sync.newest_id = 0;
    fake_catalogue_sync.waits = fake_catalogue_sync.hurries = 0;
    fake_rebuild.count = 0;
    fake_rebuild.status = SK_OK;
    fake_no_memory = memory_fails;
}

// What operators alone ask goes before users' questions.
static inline void must_have_its_class(const struct asked *asked)
{
    switch (asked->what) {
    case SK_STATEMENT_LIST_ALL_ORDERS:
    case SK_STATEMENT_LIST_ADMIN_EVENTS:
    case SK_STATEMENT_ORDER_EVENTS:
    case SK_STATEMENT_LATEST_EVENTS:
    case SK_STATEMENT_LIST_DEAD_LETTERS:
    case SK_STATEMENT_FIND_DEAD_LETTER:
    case SK_STATEMENT_WRITE_OFF:
    case SK_STATEMENT_CREATE_VOUCHER:
    case SK_STATEMENT_CHANGE_VOUCHER:
    case SK_STATEMENT_SET_VOUCHER_STATE:
    case SK_STATEMENT_ADD_UNITS:
    case SK_STATEMENT_NOTE_REFUNDS:
    case SK_STATEMENT_FIND_ANY_ORDER:
    case SK_STATEMENT_FIND_VOUCHERS:
    case SK_STATEMENT_FIND_PAYMENT:
    case SK_STATEMENT_TROUBLES:
    case SK_STATEMENT_WEBHOOK_RECEIVERS:
        ck_assert_int_eq(asked->class, SK_PG_COMMANDS);
        break;
    case SK_STATEMENT_FIND_ORDER:
        ck_assert_int_ne(asked->class, SK_PG_COMMANDS);
        break;
    case SK_STATEMENT_FIND_REPLICATED_ORDER:
        ck_assert_int_eq(asked->class, SK_PG_QUERIES);
        break;
    default:
        break;
    }
}

// All that was asked went over the links for questions and reports, and nothing is pinned any more.
static inline void control_teardown(void)
{
    allocations_left = 0;
    for (size_t i = 0; i < fake_pg.count; i++) {
        const void *link = fake_pg.asked[i].link;
        ck_assert(fake_pg.asked[i].what == SK_STATEMENT_SETTLEMENT
                      ? link == sale.shards[0].reports
                      : link == sale.shards[0].queries || (sale.shard_count > 1 && link == sale.shards[1].queries));
        must_have_its_class(&fake_pg.asked[i]);
    }
    for (size_t i = 0; i < fake_redis.count; i++)
        ck_assert_ptr_eq(fake_redis.asked[i].link, sk_nodes_queries(sale.nodes, 0));
    sk_queries_close(control.queries);
    ck_assert_uint_eq(control.shown->pages, 0);
    sk_voucher_cache_close(control.shown);
    sk_searches_close(control.searches);
    sk_settlements_close(control.settlements);
    for (size_t i = 0; i < sk_catalogue_count(sale.catalogue); i++)
        ck_assert_uint_eq(sk_catalogue_at(sale.catalogue, i)->pins, 0);
    sk_catalogue_free(sale.catalogue);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    fake_stores_forget();
}

static inline void must_be_told(uint64_t handle, enum sk_verdict verdict)
{
    ck_assert_msg(told[handle].count == 1, "handle %d is told %d times", (int)handle, told[handle].count);
    ck_assert_msg(told[handle].verdict == verdict, "handle %d is told %s instead of %s", (int)handle,
                  sk_verdict_code(told[handle].verdict), sk_verdict_code(verdict));
    told[handle].count = 0;
}

static inline void must_be_shown(uint64_t handle, const char *document)
{
    must_be_told(handle, SK_VERDICT_FOUND);
    ck_assert_str_eq(told_document, document);
}

// The oldest statement without an answer.
static inline const struct asked *the_statement(enum sk_statement statement)
{
    ck_assert_uint_lt(fake_pg.answered, fake_pg.count);
    ck_assert_int_eq(fake_pg.asked[fake_pg.answered].what, statement);
    return &fake_pg.asked[fake_pg.answered];
}

static inline void statement_must_be(enum sk_statement statement, const char *arguments)
{
    ck_assert_str_eq(arguments_of(the_statement(statement)), arguments);
}

static inline bool stores_wait(void)
{
    return fake_pg.answered < fake_pg.count || fake_redis.answered < fake_redis.count;
}

static const struct sk_rows no_rows;

// Each allocation of a query fails once. Its answer to handle 1 is then 503, or the right one, and the next question is
// as ever. Returns how many it could do without.
static inline int short_memory_borne(void (*converse)(void))
{
    static const int most = 60;
    int n = 1, borne = 0;
    bool failed;
    do {
        memory_has_failed = false;
        allocations_left = n;
        converse();
        allocations_left = 0;
        failed = memory_has_failed;
        ck_assert_msg(told[1].count == 1, "told %d times when allocation %d failed", told[1].count, n);
        if (told[1].verdict != SK_VERDICT_FOUND)
            ck_assert_uint_eq(sk_verdict_http_status(told[1].verdict), failed ? 503 : 200);
        borne += failed && told[1].verdict == SK_VERDICT_FOUND;
        told[1].count = 0;
        fake_stores_forget();
        memory_has_failed = false;
        converse();
        must_be_told(1, SK_VERDICT_FOUND);
        fake_stores_forget();
    } while (failed && n++ < most);
    ck_assert_int_gt(n, 3); // some were there to fail
    ck_assert_int_lt(n, most);
    ck_assert_int_lt(borne, n - 1);
    return borne;
}

// The same of a query that needs each, and keeps no voucher.
static inline void must_survive_short_memory(void (*converse)(void), const struct sk_voucher *voucher)
{
    ck_assert_int_eq(short_memory_borne(converse), 0);
    ck_assert_uint_eq(voucher->pins, 0);
}

#endif
