// Settles a page at a time: read, settle, remove. A page that PostgreSQL refuses is bisected: first one entry at a
// time, then ever smaller parts of the entry. A single order that is still refused becomes a dead letter.
//
// A page has orders of one offer. An entry of orders that end is a page of its own, so that what was granted before it
// is settled before it.
//
//   IDLE -> READING -> SETTLING or RETURNING -> REMOVING -> READING ... -> IDLE
//                         | refused
//                         v
//                      READING_ONE -> SETTLING_PART -> SETTLING_PART ... -> REMOVING
//
// SETTING_ASIDE writes a dead letter in between, if an entry cannot be read or an order is refused. A failure in any
// state ends in IDLE.
#include "rebuild_journal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bisect.h"
#include "dead_letter.h"
#include "failpoint.h"
#include "journal.h"
#include "order_calls.h"
#include "params.h"
#include "settlement.h"

enum {
    PAGE = 64, // most journal entries at once
    PAGE_FIRST = 4,
    TRIES_MAX = 3, // of an order that PostgreSQL refuses
};

enum journal_state {
    JOURNAL_IDLE,
    JOURNAL_READING,
    JOURNAL_SETTLING,
    JOURNAL_RETURNING,     // an entry of orders that end
    JOURNAL_READING_ONE,   // a page was refused: its first entry alone ...
    JOURNAL_SETTLING_PART, // ... and of that orders[from] to orders[from + part - 1]
    JOURNAL_SETTING_ASIDE,
    JOURNAL_REMOVING,
    JOURNAL_STATES
};

struct sk_rebuild_journal {
    enum journal_state state;
    const struct sk_sale *sale;
    struct sk_voucher *voucher;
    sk_rebuild_journal_cb *done;
    void *arg;
    int64_t epoch;
    size_t settled;

    // The page that is being settled.
    uint64_t run_number; // the Redis process that has it
    char ids[PAGE][SK_JOURNAL_ID_SIZE];
    int entries;
    int page;                  // entries to read
    int32_t offer;             // of all orders
    struct sk_place_call call; // of the orders that are placed
    struct sk_buf ending;      // ids of orders that end
    bool returns;              // it is an entry of such orders, whose move this is:
    char move[SK_JOURNAL_BY_MAX + 1], by[SK_JOURNAL_BY_MAX + 1], why[SK_JOURNAL_WHY_MAX + 1];

    // One entry, in parts.
    struct sk_buf text; // its orders
    size_t count;       // of them; 0 while whole pages are settled
    size_t from, part, next;
    struct sk_journal_order order; // orders[from], with the next two
    char id[SK_UUID_SIZE], user[SK_USER_SIZE];
    unsigned tries;
};

static void journal_on_page(void *arg, const struct sk_reply *reply);
static void journal_on_settled(void *arg, const struct sk_result *result);

static void journal_move(struct sk_rebuild_journal *journal, enum journal_state state)
{
#define TO(name) (1U << JOURNAL_##name)
    static const unsigned allowed[JOURNAL_STATES] = {
        [JOURNAL_IDLE] = TO(READING),
        [JOURNAL_READING] = TO(SETTLING) | TO(RETURNING) | TO(SETTING_ASIDE) | TO(IDLE),
        [JOURNAL_RETURNING] = TO(REMOVING) | TO(IDLE),
        [JOURNAL_SETTLING] = TO(REMOVING) | TO(READING_ONE) | TO(IDLE),
        [JOURNAL_READING_ONE] = TO(SETTLING_PART) | TO(RETURNING) | TO(SETTING_ASIDE) | TO(IDLE),
        [JOURNAL_SETTLING_PART] = TO(SETTLING_PART) | TO(SETTING_ASIDE) | TO(REMOVING) | TO(IDLE),
        [JOURNAL_SETTING_ASIDE] = TO(SETTLING_PART) | TO(REMOVING) | TO(IDLE),
        [JOURNAL_REMOVING] = TO(READING) | TO(IDLE),
    };
#undef TO
    SK_ASSERT((allowed[journal->state] & 1U << state) != 0);
    journal->state = state;
}

static void journal_fail(struct sk_rebuild_journal *journal)
{
    bool letter = journal->state == JOURNAL_SETTING_ASIDE;
    journal_move(journal, JOURNAL_IDLE);
    journal->done(journal->arg, letter ? SK_REBUILD_JOURNAL_NOT_KEPT : SK_REBUILD_JOURNAL_FAILED);
}

static void journal_read(struct sk_rebuild_journal *journal, enum journal_state state)
{
    struct sk_redis *redis = sk_sale_ask_redis(journal->sale, journal->voucher);
    journal_move(journal, state);
    journal->run_number = sk_redis_run_number(redis);
    if (sk_journal_ask(redis, journal->voucher->keys.journal, "", state == JOURNAL_READING_ONE ? 1 : journal->page,
                       journal_on_page, journal) != SK_OK)
        journal_fail(journal);
}

// ---- removing ----

static void journal_on_removed(void *arg, const struct sk_reply *reply)
{
    struct sk_rebuild_journal *journal = arg;
    if (reply == NULL || sk_reply_error(reply) != NULL)
        journal_fail(journal);
    else
        journal_read(journal, JOURNAL_READING);
}

// Another Redis process may have given these ids to other entries, if it has lost data and its clock is behind; so may
// this one, if another took its place meanwhile. Then there is a newer epoch.
static void journal_remove_page(struct sk_rebuild_journal *journal)
{
    struct sk_redis *redis = sk_sale_ask_redis(journal->sale, journal->voucher);
    const char *argv[PAGE + 2] = {"XDEL", journal->voucher->keys.journal};
    for (int i = 0; i < journal->entries; i++)
        argv[i + 2] = journal->ids[i];
    journal_move(journal, JOURNAL_REMOVING);
    SK_FAILPOINT("rebuild.settling");
    if (journal->run_number != sk_redis_run_number(redis) || journal->voucher->seen.epoch > journal->epoch ||
        sk_redis_command(redis, journal->entries + 2, argv, NULL, journal_on_removed, journal) != SK_OK)
        journal_fail(journal);
}

// ---- orders that are placed ----

// Without a journal id: it will be gone, and Redis will have no units out for orders that end.
static struct sk_call_part journal_part(const struct sk_rebuild_journal *journal)
{
    return (struct sk_call_part){journal->voucher, journal->epoch, journal->call.n, journal->offer, NULL};
}

static void journal_settle(struct sk_rebuild_journal *journal, enum journal_state state)
{
    const struct sk_call_part part = journal_part(journal);
    journal_move(journal, state);
    if (sk_place_call_send(&journal->call, sk_sale_shard(journal->sale, journal->voucher)->queries, 1, &part,
                           journal_on_settled, journal) != SK_OK)
        journal_fail(journal);
}

static void journal_add_order(void *arg, const struct sk_journal_order *order)
{
    struct sk_rebuild_journal *journal = arg;
    sk_place_call_add(&journal->call, order->id, order->user, order->quantity, order->key);
}

static void journal_add_of_part(void *arg, const struct sk_journal_order *order)
{
    struct sk_rebuild_journal *journal = arg;
    size_t at = journal->next++;
    if (at < journal->from || at >= journal->from + journal->part)
        return;
    if (at == journal->from) {
        journal->order = *order;
        journal->order.id = memcpy(journal->id, order->id, SK_UUID_SIZE);
        journal->order.user = memcpy(journal->user, order->user, strlen(order->user) + 1);
        journal->order.offer = journal->offer;
    }
    journal_add_order(journal, order);
}

static void journal_settle_part(struct sk_rebuild_journal *journal)
{
    sk_place_call_begin(&journal->call);
    journal->next = 0;
    (void)sk_journal_parse(journal->text.data, journal->text.len, journal_add_of_part, journal);
    journal_settle(journal, JOURNAL_SETTLING_PART);
}

static void journal_go_on(struct sk_rebuild_journal *journal)
{
    journal->tries = 0;
    if (journal->from < journal->count)
        journal_settle_part(journal);
    else
        journal_remove_page(journal);
}

static void journal_on_set_aside(void *arg, bool kept)
{
    struct sk_rebuild_journal *journal = arg;
    if (!kept) {
        journal_fail(journal);
        return;
    }
    journal->from++;
    journal_go_on(journal);
}

static void journal_set_aside_order(struct sk_rebuild_journal *journal)
{
    journal_move(journal, JOURNAL_SETTING_ASIDE);
    if (sk_dead_letter_put_order(journal->sale, journal->voucher, journal->ids[0], &journal->order,
                                 journal_on_set_aside, journal) != SK_OK)
        journal_fail(journal);
}

static void journal_on_refused(struct sk_rebuild_journal *journal)
{
    if (journal->state == JOURNAL_SETTLING) {
        journal_read(journal, JOURNAL_READING_ONE);
    } else if (journal->call.n > 1) {
        journal->part = sk_bisect_smaller(journal->call.n);
        journal_settle_part(journal);
    } else if (++journal->tries < TRIES_MAX) {
        journal_settle_part(journal);
    } else {
        journal_set_aside_order(journal);
    }
}

// One row for all orders, or one for each; stale is for all.
static bool journal_is_settled(const struct sk_rebuild_journal *journal, const struct sk_rows *rows)
{
    size_t n = 0, count = sk_rows_count(rows);
    enum sk_settlement first = count == 0 ? SK_SETTLEMENT_CLASH : sk_settlement_read(rows, 0, &n, NULL);
    return n == SK_SETTLEMENT_OF_ALL ? first == SK_SETTLEMENT_PLACED : count == journal->call.n;
}

static void journal_on_settled(void *arg, const struct sk_result *result)
{
    const struct sk_rows *rows = result->rows;
    struct sk_rebuild_journal *journal = arg;
    if (result->kind == SK_RESULT_REFUSED) {
        journal_on_refused(journal);
        return;
    }
    if (rows == NULL || !journal_is_settled(journal, rows)) {
        journal_fail(journal);
        return;
    }
    // Whatever the outcome of each order, PostgreSQL knows it now, and later steps read it from there.
    journal->settled += journal->call.n;
    journal->from += journal->call.n;
    journal->part = sk_bisect_larger(journal->call.n); // the bad order may be behind us
    journal_go_on(journal);
}

// ---- orders that end ----

// One row for each order, or a single row: stale.
static void journal_on_returned(void *arg, const struct sk_result *result)
{
    struct sk_rebuild_journal *journal = arg;
    if (result->rows == NULL || sk_rows_count(result->rows) == 0 || sk_rows_text(result->rows, 0, 0) == NULL)
        journal_fail(journal);
    else
        journal_remove_page(journal);
}

// Redis needs no correction: it gets PostgreSQL's stock and buyers, which no longer count these orders.
static void journal_return(struct sk_rebuild_journal *journal)
{
    const struct sk_call_part part = journal_part(journal);
    const struct sk_return_by move = {journal->move, journal->by, journal->why};
    journal_move(journal, JOURNAL_RETURNING);
    if (sk_return_call_send(&journal->ending, &move, sk_sale_shard(journal->sale, journal->voucher)->queries, 1, &part,
                            journal_on_returned, journal) != SK_OK)
        journal_fail(journal);
}

// ---- a page ----

static void journal_set_aside_entry(struct sk_rebuild_journal *journal, const struct sk_reply *unreadable)
{
    journal_move(journal, JOURNAL_SETTING_ASIDE);
    if (sk_dead_letter_put_unreadable(journal->sale, journal->voucher, journal->ids[0], unreadable,
                                      journal_on_set_aside, journal) != SK_OK)
        journal_fail(journal);
}

static void journal_add_id(void *arg, const struct sk_journal_order *order)
{
    struct sk_rebuild_journal *journal = arg;
    sk_params_add(&journal->ending, order->id);
}

static void journal_take_return(struct sk_rebuild_journal *journal, const struct sk_journal_entry *entry)
{
    journal->returns = true;
    (void)snprintf(journal->move, sizeof journal->move, "%s", entry->move);
    (void)snprintf(journal->by, sizeof journal->by, "%s", entry->by);
    (void)snprintf(journal->why, sizeof journal->why, "%s", entry->why);
    sk_params_begin(&journal->ending);
    (void)sk_journal_parse_returns(entry->orders, entry->orders_len, journal_add_id, journal);
}

static bool journal_take_page(struct sk_rebuild_journal *journal, const struct sk_reply *reply,
                              const struct sk_reply **unreadable)
{
    sk_place_call_begin(&journal->call);
    sk_buf_clear(&journal->text);
    journal->entries = 0;
    journal->count = journal->from = 0;
    journal->part = SK_JOURNAL_ORDERS_MAX;
    journal->returns = false;
    *unreadable = NULL;
    for (size_t i = 0; i < sk_reply_count(reply) && journal->entries < PAGE; i++) {
        const struct sk_reply *element = sk_reply_at(reply, i);
        struct sk_journal_entry entry;
        if (!sk_journal_read(element, &entry))
            return false;
        bool readable = entry.orders != NULL;
        if (journal->entries > 0 && (!readable || entry.move != NULL || entry.offer != journal->offer ||
                                     journal->call.n + (size_t)entry.count > SK_JOURNAL_ORDERS_MAX))
            break;
        journal->offer = entry.offer;
        memcpy(journal->ids[journal->entries++], entry.id, strlen(entry.id) + 1);
        if (!readable) {
            *unreadable = element;
            break;
        }
        if (entry.move != NULL) {
            journal_take_return(journal, &entry);
            break;
        }
        if (journal->state == JOURNAL_READING_ONE) {
            sk_buf_add(&journal->text, entry.orders, entry.orders_len);
            journal->count = (size_t)entry.count;
            break;
        }
        (void)sk_journal_parse(entry.orders, entry.orders_len, journal_add_order, journal);
    }
    return !journal->text.failed;
}

static void journal_fit_page(struct sk_rebuild_journal *journal, const struct sk_reply *reply)
{
    size_t read = sk_reply_count(reply), used = (size_t)journal->entries;
    if (used < read)
        journal->page = journal->entries;
    else if (used == (size_t)journal->page && journal->call.n <= SK_JOURNAL_ORDERS_MAX / 2)
        journal->page = journal->page * 2 < PAGE ? journal->page * 2 : PAGE;
}

static void journal_on_page(void *arg, const struct sk_reply *reply)
{
    struct sk_rebuild_journal *journal = arg;
    const struct sk_reply *unreadable;
    if (reply == NULL || sk_reply_error(reply) != NULL || !journal_take_page(journal, reply, &unreadable)) {
        journal_fail(journal);
        return;
    }
    if (journal->entries == 0) {
        journal_move(journal, JOURNAL_IDLE);
        journal->done(journal->arg, SK_REBUILD_JOURNAL_EMPTY);
    } else if (unreadable != NULL) {
        journal_set_aside_entry(journal, unreadable);
    } else if (journal->returns) {
        journal_return(journal);
    } else if (journal->state == JOURNAL_READING_ONE) {
        journal_settle_part(journal);
    } else {
        journal_fit_page(journal, reply);
        journal_settle(journal, JOURNAL_SETTLING);
    }
}

// ---- the journal ----

struct sk_rebuild_journal *sk_rebuild_journal_new(const struct sk_sale *sale, struct sk_voucher *voucher,
                                                  sk_rebuild_journal_cb *done, void *arg)
{
    struct sk_rebuild_journal *journal = calloc(1, sizeof *journal);
    if (journal == NULL)
        return NULL;
    journal->sale = sale;
    journal->voucher = voucher;
    journal->done = done;
    journal->arg = arg;
    journal->page = PAGE_FIRST;
    return journal;
}

void sk_rebuild_journal_free(struct sk_rebuild_journal *journal)
{
    if (journal == NULL)
        return;
    sk_place_call_free(&journal->call);
    sk_buf_free(&journal->ending);
    sk_buf_free(&journal->text);
    free(journal);
}

size_t sk_rebuild_journal_settled(const struct sk_rebuild_journal *journal)
{
    return journal->settled;
}

void sk_rebuild_journal_settle(struct sk_rebuild_journal *journal, const char *epoch)
{
    journal->epoch = strtoll(epoch, NULL, 10);
    journal_read(journal, JOURNAL_READING);
}
