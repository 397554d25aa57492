// Redis is asked first and PostgreSQL last, which says what of it is still pending: an order that leaves Redis in
// between is settled by then. Pages after the first are of settled orders only, and need no Redis.
#include "user_orders.h"

#include <stdio.h>
#include <string.h>

#include "order_json.h"
#include "params.h"
#include "trust.h"

enum { BUSY_MAX = 64, COLUMN_ID = 0, COLUMN_DOCUMENT, COLUMN_VOUCHER };

struct user_orders;

struct user_orders_voucher {
    struct user_orders *list;
    struct sk_voucher *voucher;  // pinned
    char order_id[SK_UUID_SIZE]; // empty: none
    unsigned quantity;
};

enum user_orders_step {
    USER_ORDERS_IDLE,         // between two rounds
    USER_ORDERS_LOOKS,        // Redis is asked
    USER_ORDERS_LOOKS_FAILED, // the same, and one look has failed: the replies that are left are awaited
    USER_ORDERS_ROWS,         // PostgreSQL is asked
    USER_ORDERS_STEPS
};

struct user_orders {
    struct sk_talk talk;
    enum user_orders_step step;
    struct sk_page page;
    char user[SK_USER_SIZE];
    bool complete;
    size_t vouchers, answered;
    struct user_orders_voucher looks[BUSY_MAX];
};

static void user_orders_start(struct sk_talk *talk);
static void user_orders_on_buyer(void *arg, const struct sk_reply *reply);
static void user_orders_fail_look(struct user_orders *list);
static void user_orders_ask(struct user_orders *list);
static void user_orders_on_rows(void *arg, const struct sk_result *result);
static void user_orders_release(struct sk_talk *talk);

#define TO(step) [USER_ORDERS_##step] = true

static void user_orders_move(struct user_orders *list, enum user_orders_step step)
{
    static const bool allowed[USER_ORDERS_STEPS][USER_ORDERS_STEPS] = {
        [USER_ORDERS_IDLE] = {TO(LOOKS), TO(ROWS), TO(IDLE)}, // Redis is away
        [USER_ORDERS_LOOKS] = {TO(ROWS), TO(LOOKS_FAILED), TO(IDLE)},
        [USER_ORDERS_LOOKS_FAILED] = {TO(IDLE)},
        [USER_ORDERS_ROWS] = {TO(IDLE)},
    };
    SK_ASSERT(allowed[list->step][step]);
    list->step = step;
}

#undef TO

void sk_user_orders(struct sk_control *control, const char *user, const struct sk_page_asked *ask, uint64_t handle)
{
    char key[SK_TALK_KEY_SIZE];
    struct sk_page page;
    if (!sk_page_begin(&page, control, SK_CURSOR_ORDERS, user, ask, handle))
        return;
    (void)snprintf(key, sizeof key, "orders:%s:%u:%s", user, page.limit, page.first ? "" : ask->cursor);
    struct user_orders *list = sk_talk_new(control, SK_PG_QUESTIONS, handle, key, sizeof *list, user_orders_start);
    if (list == NULL)
        return;
    list->talk.release = user_orders_release;
    list->page = page;
    (void)snprintf(list->user, sizeof list->user, "%s", user);
    sk_talk_start(&list->talk);
}

static void user_orders_start(struct sk_talk *talk)
{
    struct user_orders *list = (struct user_orders *)talk;
    struct sk_redis *redis = talk->control->sale->ask_redis;
    struct sk_voucher *busy[BUSY_MAX];
    list->page.next[0] = '\0';
    if (!list->page.first) {
        list->complete = true;
        user_orders_ask(list);
        return;
    }
    if (!sk_redis_ready(redis)) {
        sk_talk_end(talk, SK_VERDICT_UNAVAILABLE, NULL);
        return;
    }
    user_orders_move(list, USER_ORDERS_LOOKS);
    list->answered = 0;
    list->vouchers = sk_watch_busy(talk->control->upkeep->watch, busy, BUSY_MAX, &list->complete);
    for (size_t i = 0; i < list->vouchers; i++) {
        list->looks[i] = (struct user_orders_voucher){.list = list, .voucher = busy[i]};
        sk_voucher_pin(busy[i]);
    }
    size_t asked = 0;
    for (; asked < list->vouchers; asked++) {
        const char *argv[] = {"HGET", busy[asked]->keys.buyers, list->user};
        if (sk_redis_command(redis, 3, argv, NULL, user_orders_on_buyer, &list->looks[asked]) != SK_OK)
            break;
    }
    if (asked < list->vouchers)
        user_orders_fail_look(list);
    list->answered += list->vouchers - asked;
    if (list->answered == list->vouchers)
        user_orders_ask(list);
}

static void user_orders_on_buyer(void *arg, const struct sk_reply *reply)
{
    struct user_orders_voucher *look = arg;
    struct user_orders *list = look->list;
    if (reply == NULL)
        user_orders_fail_look(list);
    else if (sk_reply_error(reply) != NULL)
        list->complete = false;
    else
        (void)sk_trust_order(reply, look->voucher->id, look->order_id, &look->quantity);
    if (++list->answered == list->vouchers)
        user_orders_ask(list);
}

static void user_orders_fail_look(struct user_orders *list)
{
    if (list->step == USER_ORDERS_LOOKS)
        user_orders_move(list, USER_ORDERS_LOOKS_FAILED);
}

static void user_orders_ask(struct user_orders *list)
{
    struct sk_buf orders = {0}, vouchers = {0};
    if (list->step == USER_ORDERS_LOOKS_FAILED) {
        sk_talk_end(&list->talk, SK_VERDICT_UNAVAILABLE, NULL); // half a list would look like a lost order
        return;
    }
    user_orders_move(list, USER_ORDERS_ROWS);
    sk_params_begin(&orders);
    sk_params_begin(&vouchers);
    for (size_t i = 0; i < list->vouchers; i++) {
        char number[SK_PARAM_NUMBER_SIZE];
        if (list->looks[i].order_id[0] == '\0')
            continue;
        sk_params_add(&orders, list->looks[i].order_id);
        sk_params_add(&vouchers, sk_params_number(number, list->looks[i].voucher->id));
    }
    char before[SK_UUID_SIZE], most[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {list->user, sk_page_id(&list->page, before), sk_page_most(&list->page, most),
                            sk_params_end(&orders), sk_params_end(&vouchers)};
    if (params[3] == NULL || params[4] == NULL)
        sk_talk_end(&list->talk, SK_VERDICT_OVERLOADED, NULL);
    else
        sk_talk_ask_pg(&list->talk, SK_STATEMENT_LIST_ORDERS, 5, params, user_orders_on_rows);
    sk_buf_free(&orders);
    sk_buf_free(&vouchers);
}

static void user_orders_put_pending(const struct user_orders *list, const struct sk_rows *rows, size_t row,
                                    char out[SK_ORDER_JSON_SIZE])
{
    struct sk_order_shown shown = {.id = sk_rows_text(rows, row, COLUMN_ID),
                                   .user = list->user,
                                   .voucher_id = sk_rows_number(rows, row, COLUMN_VOUCHER),
                                   .quantity = 1,
                                   .status = "pending"};
    for (size_t i = 0; i < list->vouchers; i++) {
        if (strcmp(list->looks[i].order_id, shown.id) == 0)
            shown.quantity = list->looks[i].quantity;
    }
    (void)sk_order_json(out, &shown);
}

static void user_orders_on_rows(void *arg, const struct sk_result *result)
{
    struct user_orders *list = arg;
    struct sk_buf *body = &list->talk.body;
    const struct sk_rows *rows = result->rows;
    if (rows == NULL) {
        sk_talk_end(&list->talk, SK_VERDICT_UNAVAILABLE, NULL);
        return;
    }
    size_t settled = 0;
    while (settled < sk_rows_count(rows) && sk_rows_text(rows, settled, COLUMN_DOCUMENT) != NULL)
        settled++;
    sk_buf_puts(body, "{\"orders\":[");
    sk_page_add(&list->page, body, rows, settled, &(struct sk_page_columns){.document = COLUMN_DOCUMENT});
    for (size_t i = settled; i < sk_rows_count(rows); i++) { // PostgreSQL does not know these
        char pending[SK_ORDER_JSON_SIZE];
        user_orders_put_pending(list, rows, i, pending);
        if (i > 0)
            sk_buf_puts(body, ",");
        sk_buf_puts(body, pending);
    }
    sk_buf_printf(body, "],\"complete\":%s", list->complete ? "true" : "false");
    sk_page_end(&list->page, &list->talk);
}

static void user_orders_release(struct sk_talk *talk)
{
    struct user_orders *list = (struct user_orders *)talk;
    while (list->vouchers > 0)
        sk_voucher_unpin(list->looks[--list->vouchers].voucher);
    user_orders_move(list, USER_ORDERS_IDLE);
}
