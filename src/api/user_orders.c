// Redis is asked first, and PostgreSQL last: it reports which of those orders are still pending. An order that leaves
// Redis in between is settled by then. Later pages contain only settled orders, and need no Redis.
//
// PostgreSQL also reports the newest voucher. If this instance did not know it when it asked Redis, the user may have a
// pending order there, and the list is not complete.
#include "user_orders.h"

#include <stdio.h>
#include <string.h>

#include "audit.h"
#include "catalogue.h"
#include "order_json.h"
#include "params.h"
#include "trust.h"

// A shard without orders has one row, without an id.
enum { BUSY_MAX = 64, LISTED_ID = 0, LISTED_DOCUMENT, LISTED_VOUCHER, LISTED_NEWEST };

struct user_orders;

struct user_orders_voucher {
    struct user_orders *list;
    struct sk_voucher *voucher;  // pinned
    char order_id[SK_UUID_SIZE]; // empty: none
    unsigned quantity;
};

enum user_orders_step {
    USER_ORDERS_IDLE,          // between two rounds
    USER_ORDERS_BUYERS,        // Redis is asked for the user's order of each voucher
    USER_ORDERS_BUYERS_FAILED, // one command has failed: waits for the remaining replies
    USER_ORDERS_ROWS,          // PostgreSQL is asked
    USER_ORDERS_STEPS
};

struct user_orders {
    struct sk_query query;
    enum user_orders_step step;
    struct sk_page page;
    struct sk_gather gather;
    char user[SK_USER_SIZE];
    bool complete;
    int64_t newest[SK_SHARDS_MAX]; // voucher that was known when Redis was asked, of each shard
    size_t vouchers, answered;
    struct user_orders_voucher asked[BUSY_MAX];
};

static void user_orders_move(struct user_orders *list, enum user_orders_step step)
{
#define TO(step) (1U << USER_ORDERS_##step)
    static const unsigned allowed[USER_ORDERS_STEPS] = {
        [USER_ORDERS_IDLE] = TO(BUYERS) | TO(ROWS) | TO(IDLE), // Redis is away
        [USER_ORDERS_BUYERS] = TO(ROWS) | TO(BUYERS_FAILED) | TO(IDLE),
        [USER_ORDERS_BUYERS_FAILED] = TO(BUYERS_FAILED) | TO(IDLE),
        [USER_ORDERS_ROWS] = TO(IDLE),
    };
#undef TO
    SK_ASSERT((allowed[list->step] & 1U << step) != 0);
    list->step = step;
}

// With the pending orders of its vouchers.
static bool user_orders_ask_shard(struct user_orders *list, size_t shard)
{
    struct sk_buf orders = {0}, vouchers = {0};
    sk_params_begin(&orders);
    sk_params_begin(&vouchers);
    for (size_t i = 0; i < list->vouchers; i++) {
        char number[SK_PARAM_NUMBER_SIZE];
        if (list->asked[i].order_id[0] == '\0' || list->asked[i].voucher->shard != shard)
            continue;
        sk_params_add(&orders, list->asked[i].order_id);
        sk_params_add(&vouchers, sk_params_number(number, list->asked[i].voucher->id));
    }
    char before[SK_UUID_SIZE], most[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {list->user, sk_page_id(&list->page, shard, before), sk_page_most(&list->page, most),
                            sk_params_end(&orders), sk_params_end(&vouchers)};
    bool enough = params[3] != NULL && params[4] != NULL;
    if (enough)
        sk_gather_ask(&list->gather, shard, SK_STATEMENT_LIST_ORDERS, 5, params);
    list->gather.gathered.complete = list->gather.gathered.complete && enough;
    sk_buf_free(&orders);
    sk_buf_free(&vouchers);
    return enough;
}

// Behind the settled orders of a page come those that no shard knows yet.
static void user_orders_add_pending(struct user_orders *list, const struct sk_rows *rows, size_t settled, bool first)
{
    struct sk_buf *body = &list->query.body;
    for (size_t i = settled; i < sk_rows_count(rows) && sk_rows_text(rows, i, LISTED_ID) != NULL; i++) {
        char pending[SK_ORDER_JSON_SIZE];
        struct sk_order_shown shown = {.id = sk_rows_text(rows, i, LISTED_ID),
                                       .user = list->user,
                                       .voucher_id = sk_rows_number(rows, i, LISTED_VOUCHER),
                                       .quantity = 1,
                                       .status = "pending"};
        for (size_t asked = 0; asked < list->vouchers; asked++) {
            if (strcmp(list->asked[asked].order_id, shown.id) == 0)
                shown.quantity = list->asked[asked].quantity;
        }
        (void)sk_order_json(pending, &shown);
        if (i > settled || !first)
            sk_buf_puts(body, ",");
        sk_buf_puts(body, pending);
    }
}

static void user_orders_on_rows(struct sk_query *query, struct sk_gathered *gathered)
{
    struct user_orders *list = (struct user_orders *)query;
    struct sk_buf *body = &query->body;
    for (size_t i = 0; i < list->page.places; i++) {
        const struct sk_rows *rows = gathered->rows[i];
        size_t settled = 0;
        while (settled < gathered->counts[i] && sk_rows_text(rows, settled, LISTED_DOCUMENT) != NULL)
            settled++;
        gathered->counts[i] = settled;
        if (list->page.first && rows != NULL && sk_rows_number(rows, 0, LISTED_NEWEST) > list->newest[i])
            list->complete = false;
    }
    sk_buf_puts(body, "{\"orders\":[");
    size_t before = body->len;
    sk_page_add(&list->page, body, gathered, &(struct sk_page_columns){.document = LISTED_DOCUMENT});
    for (size_t i = 0; i < list->page.places; i++) {
        if (gathered->rows[i] != NULL)
            user_orders_add_pending(list, gathered->rows[i], gathered->counts[i], body->len == before);
    }
    sk_buf_printf(body, "],\"complete\":%s", list->complete && gathered->complete ? "true" : "false");
    sk_page_end(&list->page, query);
}

static void user_orders_ask(struct user_orders *list)
{
    bool enough = true; // memory
    if (list->step == USER_ORDERS_BUYERS_FAILED) {
        sk_query_end(&list->query, SK_VERDICT_UNAVAILABLE, NULL); // half a list would look like a lost order
        return;
    }
    user_orders_move(list, USER_ORDERS_ROWS);
    sk_gather_begin(&list->gather, &list->query, user_orders_on_rows);
    for (size_t i = 0; i < list->page.places; i++)
        enough = user_orders_ask_shard(list, i) && enough;
    if (!enough && list->gather.waiting == 0)
        sk_query_end(&list->query, SK_VERDICT_OVERLOADED, NULL);
    else
        sk_gather_end(&list->gather);
}

static void user_orders_on_buyer(void *arg, const struct sk_reply *reply)
{
    struct user_orders_voucher *one = arg;
    struct user_orders *list = one->list;
    if (reply == NULL)
        user_orders_move(list, USER_ORDERS_BUYERS_FAILED);
    else if (sk_reply_error(reply) != NULL)
        list->complete = false;
    else
        (void)sk_trust_order(reply, one->voucher->id, one->order_id, &one->quantity);
    if (++list->answered == list->vouchers)
        user_orders_ask(list);
}

// Where a node of a cluster is away, the list may lack pending orders, as where there are too many vouchers.
static void user_orders_ask_buyers(struct user_orders *list, const struct sk_sale *sale)
{
    size_t asked = 0;
    for (; asked < list->vouchers; asked++) {
        const struct sk_voucher *voucher = list->asked[asked].voucher;
        struct sk_redis *redis = sk_sale_ask_redis(sale, voucher);
        const char *argv[] = {"HGET", voucher->keys.buyers, list->user};
        bool ready = sk_redis_ready(redis);
        list->complete = list->complete && ready;
        list->answered += !ready;
        if (ready && sk_redis_command(redis, 3, argv, NULL, user_orders_on_buyer, &list->asked[asked]) != SK_OK)
            break;
    }
    if (asked < list->vouchers)
        user_orders_move(list, USER_ORDERS_BUYERS_FAILED);
    list->answered += list->vouchers - asked;
    if (list->answered == list->vouchers)
        user_orders_ask(list);
}

static void user_orders_start(struct sk_query *query)
{
    struct user_orders *list = (struct user_orders *)query;
    const struct sk_sale *sale = query->control->sale;
    struct sk_voucher *busy[BUSY_MAX];
    list->page.next[0] = '\0';
    if (!list->page.first) {
        list->complete = true;
        user_orders_ask(list);
        return;
    }
    if (sk_nodes_state(sale->nodes).queries == 0) {
        sk_query_end(query, SK_VERDICT_UNAVAILABLE, NULL);
        return;
    }
    user_orders_move(list, USER_ORDERS_BUYERS);
    list->answered = 0;
    for (size_t i = 0; i < list->page.places; i++)
        list->newest[i] = sk_catalogue_sync_newest_id(query->control->recovery->syncs[i]);
    list->vouchers = sk_audit_busy(query->control->recovery->audit, busy, BUSY_MAX, &list->complete);
    for (size_t i = 0; i < list->vouchers; i++) {
        list->asked[i] = (struct user_orders_voucher){.list = list, .voucher = busy[i]};
        sk_voucher_pin(busy[i]);
    }
    user_orders_ask_buyers(list, sale);
}

static void user_orders_release(struct sk_query *query)
{
    struct user_orders *list = (struct user_orders *)query;
    while (list->vouchers > 0)
        sk_voucher_unpin(list->asked[--list->vouchers].voucher);
    user_orders_move(list, USER_ORDERS_IDLE);
}

void sk_user_orders(struct sk_control *control, enum sk_pg_class class, const char *user,
                    const struct sk_page_asked *ask, uint64_t handle)
{
    char key[SK_QUERY_KEY_SIZE];
    struct sk_page page;
    if (!sk_page_begin(&page, control, SK_CURSOR_ORDERS, user, ask, handle))
        return;
    (void)snprintf(key, sizeof key, "orders:%d:%s:%u:%s", (int)class, user, page.limit, page.first ? "" : ask->cursor);
    struct user_orders *list = sk_query_new(control, class, handle, key, sizeof *list, user_orders_start);
    if (list == NULL)
        return;
    list->query.release = user_orders_release;
    list->page = page;
    (void)snprintf(list->user, sizeof list->user, "%s", user);
    sk_query_start(&list->query);
}

void sk_handle_orders(const struct sk_context *context, struct sk_request *request)
{
    struct sk_page_asked asked;
    if (sk_page_read_query(context, request, "cursor", &asked))
        sk_user_orders(context->control, SK_PG_QUERIES, sk_call_of(request)->user, &asked, request->handle);
}
