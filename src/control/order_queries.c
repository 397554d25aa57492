// An order is asked for where its id says that it is: in PostgreSQL, and, where that does not know it, in the segments
// of its slot in Redis, nearly always one. Then PostgreSQL is asked once more: a refusal is written there before the
// buyer's entry goes. "Not found" needs more than two stores that do not know the order: Redis must be one that can be
// relied on, the id one that no instance can still hold, and the catalogue one that is newer than the question, because
// a voucher made since may share the slot. Otherwise the answer is "not known now".
//
// A list asks Redis first and PostgreSQL last, which says what of it is still pending.
#include "order_queries.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "audit.h"
#include "log.h"
#include "order_id.h"
#include "order_json.h"
#include "params.h"

enum { IN_SLOT_MAX = 16, BUSY_MAX = 64 };

// ---- one order ----

struct order_query;

// What Redis has in one segment.
struct order_look {
    struct order_query *query;
    struct sk_segment *segment; // pinned
    struct sk_account account;  // of voucher 0: PostgreSQL has none
};

enum order_step {
    ORDER_IDLE,         // between two rounds
    ORDER_FIRST_ROW,    // PostgreSQL is asked
    ORDER_ACCOUNTS,     // PostgreSQL is asked for the books of the segments
    ORDER_LOOKS,        // Redis is asked
    ORDER_LOOKS_FAILED, // the same, and one look has failed: the replies that are left may still show the order
    ORDER_LAST_ROW,     // PostgreSQL is asked once more
    ORDER_FOLLOWING,    // the catalogue is awaited
    ORDER_RETIRED,      // PostgreSQL is asked for a retired sale in its slot
    ORDER_STEPS
};

struct order_query {
    struct sk_talk talk;
    enum order_step step;
    char order_id[SK_UUID_SIZE];
    char user[SK_USER_SIZE];
    bool followed;      // the catalogue is newer than the question
    bool unsure;        // Redis may have lost it, or an instance may still hold it
    int64_t pending_in; // voucher; 0: it is not pending
    size_t segments, answered;
    struct order_look looks[IN_SLOT_MAX];
};

static void order_start(struct sk_talk *talk);
static void order_on_row(void *arg, const struct sk_result *result);
static void order_show(struct order_query *query, const char *document);
static void order_find_segments(struct order_query *query);
static void order_follow(struct order_query *query);
static void order_on_followed(struct sk_talk *talk, bool ok);
static void order_on_accounts(void *arg, const struct sk_result *result);
static void order_on_look(void *arg, const struct sk_reply *reply);
static void order_look_at(struct order_query *query);
static void order_fail_look(struct order_query *query);
static void order_looked(struct order_query *query);
static void order_on_last_row(void *arg, const struct sk_result *result);
static void order_ask_retired(struct order_query *query);
static void order_on_retired(void *arg, const struct sk_result *result);
static void order_unpin(struct order_query *query);
static void order_release(struct sk_talk *talk);

#define TO(step) [ORDER_##step] = true

static void order_move(struct order_query *query, enum order_step step)
{
    static const bool allowed[ORDER_STEPS][ORDER_STEPS] = {
        [ORDER_IDLE] = {TO(FIRST_ROW), TO(IDLE)}, // closed before it began
        [ORDER_FIRST_ROW] = {TO(ACCOUNTS), TO(FOLLOWING), TO(IDLE)},
        [ORDER_ACCOUNTS] = {TO(LOOKS), TO(IDLE)},
        [ORDER_LOOKS] = {TO(LAST_ROW), TO(LOOKS_FAILED), TO(IDLE)},
        [ORDER_LOOKS_FAILED] = {TO(IDLE)},
        [ORDER_LAST_ROW] = {TO(FOLLOWING), TO(RETIRED), TO(IDLE)},
        [ORDER_FOLLOWING] = {TO(ACCOUNTS), TO(RETIRED), TO(IDLE)},
        [ORDER_RETIRED] = {TO(IDLE)},
    };
    SK_ASSERT(allowed[query->step][step]);
    query->step = step;
}

#undef TO

void sk_query_order(struct sk_control *control, const char *order_id, const char *user, uint64_t ticket)
{
    char key[SK_TALK_KEY_SIZE];
    (void)snprintf(key, sizeof key, "order:%s:%s", order_id, user);
    struct order_query *query = sk_talk_new(control, ticket, key, sizeof *query, order_start);
    if (query == NULL)
        return;
    query->talk.release = order_release;
    (void)snprintf(query->order_id, sizeof query->order_id, "%s", order_id);
    (void)snprintf(query->user, sizeof query->user, "%s", user);
    sk_talk_start(&query->talk);
}

static void order_ask_pg(struct order_query *query, enum order_step step, sk_pg_cb *done)
{
    char slot[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {sk_params_number(slot, sk_order_id_slot(query->order_id)), query->order_id, query->user};
    order_move(query, step);
    sk_talk_ask_pg(&query->talk, SK_STATEMENT_FIND_ORDER, 3, params, done);
}

static void order_start(struct sk_talk *talk)
{
    struct order_query *query = (struct order_query *)talk;
    query->followed = query->unsure = false;
    query->pending_in = 0;
    query->segments = query->answered = 0;
    order_ask_pg(query, ORDER_FIRST_ROW, order_on_row);
}

static void order_on_row(void *arg, const struct sk_result *result)
{
    struct order_query *query = arg;
    if (result->rows == NULL)
        sk_talk_end(&query->talk, SK_VERDICT_UNAVAILABLE, NULL);
    else if (sk_rows_count(result->rows) == 1)
        order_show(query, sk_rows_text(result->rows, 0, 0));
    else
        order_find_segments(query);
}

// PostgreSQL knows it. `document` NULL: it is another user's.
static void order_show(struct order_query *query, const char *document)
{
    sk_talk_end(&query->talk, document == NULL ? SK_VERDICT_NOT_FOUND : SK_VERDICT_FOUND, document);
}

// Its voucher may be newer than our catalogue.
static void order_find_segments(struct order_query *query)
{
    const struct sk_sale *sale = query->talk.control->sale;
    struct sk_segment *segment = sk_catalogue_at_slot(sale->catalogue, sk_order_id_slot(query->order_id));
    struct sk_buf slots = {0}, vouchers = {0};
    if (segment == NULL) {
        if (query->followed)
            order_ask_retired(query);
        else
            order_follow(query);
        return;
    }
    order_move(query, ORDER_ACCOUNTS);
    sk_params_begin(&slots);
    sk_params_begin(&vouchers);
    for (; segment != NULL && query->segments < IN_SLOT_MAX; segment = segment->next_in_slot) {
        char number[SK_PARAM_NUMBER_SIZE];
        query->looks[query->segments++] = (struct order_look){.query = query, .segment = segment};
        sk_segment_pin(segment);
        sk_params_add(&slots, sk_params_number(number, segment->slot));
        sk_params_add(&vouchers, sk_params_number(number, segment->voucher_id));
    }
    query->unsure = segment != NULL; // more than are looked at
    const char *params[] = {sk_params_end(&slots), sk_params_end(&vouchers)};
    if (params[0] == NULL || params[1] == NULL)
        sk_talk_end(&query->talk, SK_VERDICT_OVERLOADED, NULL);
    else
        sk_talk_ask_pg(&query->talk, SK_STATEMENT_SEGMENT_ACCOUNTS, 2, params, order_on_accounts);
    sk_buf_free(&slots);
    sk_buf_free(&vouchers);
}

static void order_follow(struct order_query *query)
{
    order_move(query, ORDER_FOLLOWING);
    sk_talk_follow(&query->talk, order_on_followed);
}

static void order_on_followed(struct sk_talk *talk, bool ok)
{
    struct order_query *query = (struct order_query *)talk;
    struct sk_segment *newest = sk_catalogue_at_slot(talk->control->sale->catalogue, sk_order_id_slot(query->order_id));
    query->followed = true;
    if (!ok) {
        sk_talk_end(talk, SK_VERDICT_UNAVAILABLE, NULL);
    } else if (query->segments > 0 && query->looks[0].segment == newest) {
        order_ask_retired(query); // nothing new in its slot
    } else {
        order_unpin(query);
        query->answered = 0;
        order_find_segments(query);
    }
}

static void order_on_accounts(void *arg, const struct sk_result *result)
{
    struct order_query *query = arg;
    if (result->rows == NULL) {
        sk_talk_end(&query->talk, SK_VERDICT_UNAVAILABLE, NULL);
        return;
    }
    for (size_t row = 0; row < sk_rows_count(result->rows); row++) {
        struct sk_account account;
        sk_account_read(result->rows, row, &account);
        for (size_t i = 0; i < query->segments; i++) {
            if (query->looks[i].segment->voucher_id == account.voucher_id)
                query->looks[i].account = account;
        }
    }
    order_look_at(query);
}

// All questions go out in one write; each answer knows its own.
static void order_look_at(struct order_query *query)
{
    struct sk_redis *redis = query->talk.control->sale->ask_redis;
    size_t asked = 0;
    order_move(query, ORDER_LOOKS);
    for (; asked < query->segments; asked++) {
        struct order_look *look = &query->looks[asked];
        const struct sk_segment_keys *keys = &look->segment->keys;
        const char *argv[] = {keys->voucher, keys->buyers, keys->journal, query->user};
        if (sk_redis_script(redis, SK_SCRIPT_LOOK_AT_VOUCHER, 3, 4, argv, NULL, order_on_look, look) != SK_OK)
            break;
    }
    if (asked < query->segments)
        order_fail_look(query);
    query->answered += query->segments - asked;
    if (query->answered == query->segments)
        order_looked(query);
}

// Every client with write access to Redis can write there, so what is no order id is not shown.
static bool order_is_id(const struct sk_reply *reply, const struct sk_segment *segment, char id[SK_UUID_SIZE])
{
    size_t len = 0;
    const char *text = sk_reply_text(reply, &len);
    if (text == NULL || len == 0)
        return false;
    if (len == SK_UUID_CHARS && sk_uuid_valid(text)) {
        memcpy(id, text, SK_UUID_SIZE);
        return true;
    }
    sk_log(SK_LOG_WARN, "a buyer's order id is none", "voucher=%" PRId64, segment->voucher_id);
    return false;
}

static void order_on_look(void *arg, const struct sk_reply *reply)
{
    struct order_look *look = arg;
    struct order_query *query = look->query;
    struct sk_look seen, none = {0};
    char id[SK_UUID_SIZE];
    if (reply == NULL || !sk_look_read(reply, sk_redis_run(query->talk.control->sale->ask_redis), &seen))
        order_fail_look(query);
    else if (look->account.voucher_id == 0 || sk_audit(&look->account, &none, &seen) != SK_BOOKS_AGREE ||
             sk_order_id_may_be_away(query->order_id, seen.epoch))
        query->unsure = true;
    if (order_is_id(sk_reply_at(reply, SK_LOOK_ORDER_ID), look->segment, id) && strcmp(id, query->order_id) == 0)
        query->pending_in = look->segment->voucher_id;
    if (++query->answered == query->segments)
        order_looked(query);
}

static void order_fail_look(struct order_query *query)
{
    if (query->step == ORDER_LOOKS)
        order_move(query, ORDER_LOOKS_FAILED);
}

static void order_looked(struct order_query *query)
{
    struct sk_talk *talk = &query->talk;
    if (query->pending_in != 0) {
        sk_order_json(&talk->body, query->order_id, query->pending_in, query->user, "pending");
        sk_talk_end(talk, SK_VERDICT_FOUND, talk->body.data);
    } else if (query->step == ORDER_LOOKS_FAILED) {
        sk_talk_end(talk, SK_VERDICT_UNAVAILABLE, NULL);
    } else {
        order_ask_pg(query, ORDER_LAST_ROW, order_on_last_row);
    }
}

static void order_on_last_row(void *arg, const struct sk_result *result)
{
    struct order_query *query = arg;
    bool found = result->rows != NULL && sk_rows_count(result->rows) == 1;
    if (found)
        order_show(query, sk_rows_text(result->rows, 0, 0));
    else if (result->rows == NULL || query->unsure)
        sk_talk_end(&query->talk, SK_VERDICT_UNAVAILABLE, NULL);
    else if (query->followed)
        order_ask_retired(query);
    else
        order_follow(query);
}

// No sale that is in the catalogue has it. A retired one in the same slot may have: Redis had lost it, and an instance
// still holds it, paused, to write it as refused.
static void order_ask_retired(struct order_query *query)
{
    char slot[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {sk_params_number(slot, sk_order_id_slot(query->order_id))};
    order_move(query, ORDER_RETIRED);
    sk_talk_ask_pg(&query->talk, SK_STATEMENT_RETIRED_EPOCH, 1, params, order_on_retired);
}

static void order_on_retired(void *arg, const struct sk_result *result)
{
    struct order_query *query = arg;
    int64_t epoch = result->rows == NULL ? 0 : sk_rows_number(result->rows, 0, 0); // 0: none is retired there
    bool unsure = result->rows == NULL || (epoch > 0 && sk_order_id_may_be_away(query->order_id, epoch));
    sk_talk_end(&query->talk, unsure ? SK_VERDICT_UNAVAILABLE : SK_VERDICT_NOT_FOUND, NULL);
}

static void order_unpin(struct order_query *query)
{
    while (query->segments > 0)
        sk_segment_unpin(query->looks[--query->segments].segment);
}

static void order_release(struct sk_talk *talk)
{
    struct order_query *query = (struct order_query *)talk;
    order_unpin(query);
    order_move(query, ORDER_IDLE);
}

// ---- all orders of a user ----

struct list_query;

struct list_look {
    struct list_query *query;
    struct sk_segment *segment;  // pinned
    char order_id[SK_UUID_SIZE]; // empty: none
};

enum list_step {
    LIST_IDLE,         // between two rounds
    LIST_LOOKS,        // Redis is asked
    LIST_LOOKS_FAILED, // the same, and one look has failed: the replies that are left are awaited
    LIST_ROWS,         // PostgreSQL is asked
    LIST_STEPS
};

struct list_query {
    struct sk_talk talk;
    enum list_step step;
    char user[SK_USER_SIZE];
    bool complete;
    size_t segments, answered;
    struct list_look looks[BUSY_MAX];
};

static void list_start(struct sk_talk *talk);
static void list_on_buyer(void *arg, const struct sk_reply *reply);
static void list_fail_look(struct list_query *query);
static void list_ask(struct list_query *query);
static void list_on_rows(void *arg, const struct sk_result *result);
static void list_release(struct sk_talk *talk);

#define TO(step) [LIST_##step] = true

static void list_move(struct list_query *query, enum list_step step)
{
    static const bool allowed[LIST_STEPS][LIST_STEPS] = {
        [LIST_IDLE] = {TO(LOOKS), TO(IDLE)}, // Redis is away
        [LIST_LOOKS] = {TO(ROWS), TO(LOOKS_FAILED), TO(IDLE)},
        [LIST_LOOKS_FAILED] = {TO(IDLE)},
        [LIST_ROWS] = {TO(IDLE)},
    };
    SK_ASSERT(allowed[query->step][step]);
    query->step = step;
}

#undef TO

void sk_query_orders(struct sk_control *control, const char *user, uint64_t ticket)
{
    char key[SK_TALK_KEY_SIZE];
    (void)snprintf(key, sizeof key, "orders:%s", user);
    struct list_query *query = sk_talk_new(control, ticket, key, sizeof *query, list_start);
    if (query == NULL)
        return;
    query->talk.release = list_release;
    (void)snprintf(query->user, sizeof query->user, "%s", user);
    sk_talk_start(&query->talk);
}

static void list_start(struct sk_talk *talk)
{
    struct list_query *query = (struct list_query *)talk;
    struct sk_redis *redis = talk->control->sale->ask_redis;
    struct sk_segment *busy[BUSY_MAX];
    if (!sk_redis_ready(redis)) {
        sk_talk_end(talk, SK_VERDICT_UNAVAILABLE, NULL);
        return;
    }
    list_move(query, LIST_LOOKS);
    query->answered = 0;
    query->segments = sk_watch_busy(talk->control->upkeep->watch, busy, BUSY_MAX, &query->complete);
    for (size_t i = 0; i < query->segments; i++) {
        query->looks[i] = (struct list_look){.query = query, .segment = busy[i]};
        sk_segment_pin(busy[i]);
    }
    size_t asked = 0;
    for (; asked < query->segments; asked++) {
        const char *argv[] = {"HGET", busy[asked]->keys.buyers, query->user};
        if (sk_redis_command(redis, 3, argv, NULL, list_on_buyer, &query->looks[asked]) != SK_OK)
            break;
    }
    if (asked < query->segments)
        list_fail_look(query);
    query->answered += query->segments - asked;
    if (query->answered == query->segments)
        list_ask(query);
}

static void list_on_buyer(void *arg, const struct sk_reply *reply)
{
    struct list_look *look = arg;
    struct list_query *query = look->query;
    if (reply == NULL)
        list_fail_look(query);
    else if (sk_reply_error(reply) != NULL)
        query->complete = false;
    else if (!order_is_id(reply, look->segment, look->order_id))
        look->order_id[0] = '\0';
    if (++query->answered == query->segments)
        list_ask(query);
}

static void list_fail_look(struct list_query *query)
{
    if (query->step == LIST_LOOKS)
        list_move(query, LIST_LOOKS_FAILED);
}

static void list_ask(struct list_query *query)
{
    struct sk_buf orders = {0}, vouchers = {0};
    if (query->step == LIST_LOOKS_FAILED) {
        sk_talk_end(&query->talk, SK_VERDICT_UNAVAILABLE, NULL); // half a list would look like a lost order
        return;
    }
    list_move(query, LIST_ROWS);
    sk_params_begin(&orders);
    sk_params_begin(&vouchers);
    for (size_t i = 0; i < query->segments; i++) {
        char number[SK_PARAM_NUMBER_SIZE];
        if (query->looks[i].order_id[0] == '\0')
            continue;
        sk_params_add(&orders, query->looks[i].order_id);
        sk_params_add(&vouchers, sk_params_number(number, query->looks[i].segment->voucher_id));
    }
    const char *params[] = {query->user, sk_params_end(&orders), sk_params_end(&vouchers)};
    if (params[1] == NULL || params[2] == NULL)
        sk_talk_end(&query->talk, SK_VERDICT_OVERLOADED, NULL);
    else
        sk_talk_ask_pg(&query->talk, SK_STATEMENT_LIST_ORDERS, 3, params, list_on_rows);
    sk_buf_free(&orders);
    sk_buf_free(&vouchers);
}

static void list_on_rows(void *arg, const struct sk_result *result)
{
    struct list_query *query = arg;
    struct sk_buf *body = &query->talk.body;
    const struct sk_rows *rows = result->rows;
    if (rows == NULL) {
        sk_talk_end(&query->talk, SK_VERDICT_UNAVAILABLE, NULL);
        return;
    }
    sk_buf_puts(body, "{\"orders\":[");
    for (size_t i = 0; i < sk_rows_count(rows); i++) {
        const char *document = sk_rows_text(rows, i, 1);
        if (i > 0)
            sk_buf_puts(body, ",");
        if (document != NULL)
            sk_buf_puts(body, document);
        else
            sk_order_json(body, sk_rows_text(rows, i, 0), sk_rows_number(rows, i, 2), query->user, "pending");
    }
    sk_buf_printf(body, "],\"complete\":%s}", query->complete ? "true" : "false");
    sk_talk_end(&query->talk, SK_VERDICT_FOUND, body->data);
}

static void list_release(struct sk_talk *talk)
{
    struct list_query *query = (struct list_query *)talk;
    while (query->segments > 0)
        sk_segment_unpin(query->looks[--query->segments].segment);
    list_move(query, LIST_IDLE);
}
