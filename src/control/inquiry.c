// PostgreSQL makes the documents (order_json, voucher_json); here they are only put together.
//
// A pending order is in Redis alone, in the buyers of its voucher, and the order's id does not tell which
// voucher. So an order that PostgreSQL does not have is looked for in the buyers of every voucher that
// may have orders under way, and then in PostgreSQL once more: it may have been refused in between, and a
// refusal is written to PostgreSQL before the buyer's entry goes. For the same reason a list asks Redis first and
// PostgreSQL last, which says what of it is still pending. While a voucher is being rebuilt, and for a
// while after, an accepted order may be in no store at all, only in an instance that will have it granted again:
// then the answer is "not known now", never "not found".
//
// Vouchers are shown as PostgreSQL had them at most DOCUMENT_MS ago: a crowd that refreshes its pages
// costs one query a second.
#include "inquiry.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "audit.h"
#include "buf.h"
#include "clock.h"
#include "log.h"
#include "params.h"

enum { DOCUMENT_MS = 1000, RETRY_AFTER_MS = 1000, REBUILT_MS = 30000 };

struct sk_inquiries {
    const struct sk_core *core;
    char *list; // of vouchers; owned
    uint64_t list_until_ms;
};

// What Redis has of the user, and of one voucher.
struct look {
    struct inquiry *inquiry;
    int64_t voucher_id;
    char order_id[SK_UUID_SIZE]; // empty: none
};

struct inquiry {
    struct sk_inquiries *inquiries;
    uint64_t ticket;
    struct sk_segment *voucher; // pinned; NULL: none
    int64_t voucher_id;
    char order_id[SK_UUID_SIZE]; // empty: all of the user's orders
    char user[SK_USER_SIZE];
    bool second_look;
    bool redis_failed;
    bool unsure;        // a voucher is being rebuilt, or was a moment ago
    struct look *looks; // one for each voucher asked about; owned
    size_t asked, answered;
    struct sk_buf body;
};

struct sk_inquiries *sk_inquiries_open(const struct sk_core *core)
{
    struct sk_inquiries *inquiries = calloc(1, sizeof *inquiries);
    if (inquiries != NULL)
        inquiries->core = core;
    return inquiries;
}

void sk_inquiries_close(struct sk_inquiries *inquiries)
{
    if (inquiries != NULL)
        free(inquiries->list);
    free(inquiries);
}

static void tell(struct sk_inquiries *inquiries, uint64_t ticket, enum sk_verdict verdict, const char *document)
{
    struct sk_outcome outcome = {.verdict = verdict, .document = document};
    if (ticket == 0)
        return; // answered before
    if (sk_verdict_http_status(verdict) == 503)
        outcome.retry_after_ms = RETRY_AFTER_MS;
    inquiries->core->on_outcome(inquiries->core->arg, ticket, &outcome);
}

static struct inquiry *begin(struct sk_inquiries *inquiries, uint64_t ticket)
{
    struct inquiry *inquiry = calloc(1, sizeof *inquiry);
    if (inquiry == NULL) {
        tell(inquiries, ticket, SK_VERDICT_OVERLOADED, NULL);
        return NULL;
    }
    inquiry->inquiries = inquiries;
    inquiry->ticket = ticket;
    return inquiry;
}

// Answers and forgets the inquiry.
static void end(struct inquiry *inquiry, enum sk_verdict verdict, const char *document)
{
    if (inquiry->body.failed) {
        verdict = SK_VERDICT_OVERLOADED;
        document = NULL;
    }
    tell(inquiry->inquiries, inquiry->ticket, verdict, document);
    if (inquiry->voucher != NULL)
        sk_segment_unpin(inquiry->voucher);
    free(inquiry->looks);
    sk_buf_free(&inquiry->body);
    free(inquiry);
}

static void ask_pg(struct inquiry *inquiry, enum sk_statement statement, int n, const char *const *params,
                   sk_pg_cb *done)
{
    enum sk_status status = sk_pg_call(inquiry->inquiries->core->pg, statement, n, params, done, inquiry);
    if (status != SK_OK)
        end(inquiry, status == SK_DOWN ? SK_VERDICT_UNAVAILABLE : SK_VERDICT_OVERLOADED, NULL);
}

// ---- orders ----

static void add_pending(struct inquiry *inquiry, const char *order_id, int64_t voucher_id)
{
    sk_buf_printf(&inquiry->body,
                  "{\"id\":\"%s\",\"voucher_id\":\"%" PRId64 "\",\"user_id\":\"%s\",\"status\":\"pending\"}", order_id,
                  voucher_id, inquiry->user);
}

static void look_up_order(struct inquiry *inquiry);
static void list_orders(struct inquiry *inquiry);

static bool is_pending(const struct inquiry *inquiry, int64_t *voucher_id)
{
    for (size_t i = 0; i < inquiry->asked; i++) {
        if (strcmp(inquiry->looks[i].order_id, inquiry->order_id) == 0) {
            *voucher_id = inquiry->looks[i].voucher_id;
            return true;
        }
    }
    return false;
}

static void buyers_asked(struct inquiry *inquiry)
{
    int64_t voucher_id;
    if (inquiry->order_id[0] == '\0') {
        if (inquiry->redis_failed)
            end(inquiry, SK_VERDICT_UNAVAILABLE, NULL); // half a list would look like a lost order
        else
            list_orders(inquiry);
    } else if (is_pending(inquiry, &voucher_id)) {
        add_pending(inquiry, inquiry->order_id, voucher_id);
        end(inquiry, SK_VERDICT_FOUND, inquiry->body.data);
    } else if (inquiry->redis_failed) {
        end(inquiry, SK_VERDICT_UNAVAILABLE, NULL);
    } else {
        inquiry->second_look = true;
        look_up_order(inquiry);
    }
}

// Anyone who can write to Redis can write there, so what is no order id is not shown.
static void keep_order(struct look *look, const struct sk_reply *reply)
{
    size_t len = 0;
    const char *order = sk_reply_text(reply, &len);
    if (order == NULL || len == 0)
        return;
    if (len == SK_UUID_CHARS && sk_uuid_valid(order))
        memcpy(look->order_id, order, SK_UUID_SIZE);
    else
        sk_log(SK_WARN, "a buyer's order id is none", "voucher=%" PRId64, look->voucher_id);
}

// Each answer knows its question: they need not come in the order of asking (redis_link.h).
static void on_buyer(void *arg, const struct sk_reply *reply)
{
    struct look *look = arg;
    struct inquiry *inquiry = look->inquiry;
    struct sk_look seen;
    if (reply == NULL || sk_reply_error(reply) != NULL ||
        !sk_look_read(reply, sk_redis_run(inquiry->inquiries->core->redis), &seen))
        inquiry->redis_failed = true;
    else if (seen.loading || !seen.same_run || (seen.rebuilt_ms_ago >= 0 && seen.rebuilt_ms_ago < REBUILT_MS))
        inquiry->unsure = true;
    keep_order(look, sk_reply_at(reply, 8));
    if (++inquiry->answered == inquiry->asked)
        buyers_asked(inquiry);
}

static enum sk_status ask_voucher(struct look *look, const char *voucher_id)
{
    struct sk_segment_keys keys;
    const char *argv[] = {keys.voucher, keys.buyers, keys.journal, look->inquiry->user};
    sk_keys_of_segment(voucher_id, &keys);
    return sk_redis_script(look->inquiry->inquiries->core->redis, SK_SCRIPT_LOOK_AT_VOUCHER, 3, 4, argv, NULL, on_buyer,
                           look);
}

static void on_current_vouchers(void *arg, const struct sk_result *result)
{
    const struct sk_rows *rows = result->rows;
    struct inquiry *inquiry = arg;
    size_t count = rows == NULL ? 0 : sk_rows_count(rows);
    inquiry->looks = calloc(count + 1, sizeof *inquiry->looks);
    if (rows == NULL || inquiry->looks == NULL) {
        end(inquiry, rows == NULL ? SK_VERDICT_UNAVAILABLE : SK_VERDICT_OVERLOADED, NULL);
        return;
    }
    for (; inquiry->asked < count; inquiry->asked++) {
        struct look *look = &inquiry->looks[inquiry->asked];
        *look = (struct look){.inquiry = inquiry, .voucher_id = sk_rows_number(rows, inquiry->asked, 0)};
        if (ask_voucher(look, sk_rows_text(rows, inquiry->asked, 0)) != SK_OK) {
            inquiry->redis_failed = true;
            break;
        }
    }
    if (inquiry->asked == 0)
        buyers_asked(inquiry);
}

static void ask_buyers(struct inquiry *inquiry)
{
    ask_pg(inquiry, SK_STATEMENT_CURRENT_VOUCHERS, 0, NULL, on_current_vouchers);
}

static void on_order(void *arg, const struct sk_result *result)
{
    const struct sk_rows *rows = result->rows;
    struct inquiry *inquiry = arg;
    if (rows == NULL)
        end(inquiry, SK_VERDICT_UNAVAILABLE, NULL);
    else if (sk_rows_count(rows) == 1)
        end(inquiry, SK_VERDICT_FOUND, sk_rows_text(rows, 0, 0));
    else if (inquiry->second_look)
        end(inquiry, inquiry->unsure ? SK_VERDICT_UNAVAILABLE : SK_VERDICT_NOT_FOUND, NULL);
    else
        ask_buyers(inquiry);
}

static void look_up_order(struct inquiry *inquiry)
{
    const char *params[] = {NULL, inquiry->order_id, inquiry->user}; // the slot is not known
    ask_pg(inquiry, SK_STATEMENT_FIND_ORDER, 3, params, on_order);
}

void sk_inquiry_order(struct sk_inquiries *inquiries, const char *order_id, const char *user, uint64_t ticket)
{
    struct inquiry *inquiry = begin(inquiries, ticket);
    if (inquiry == NULL)
        return;
    (void)snprintf(inquiry->order_id, sizeof inquiry->order_id, "%s", order_id);
    (void)snprintf(inquiry->user, sizeof inquiry->user, "%s", user);
    look_up_order(inquiry);
}

static void on_orders(void *arg, const struct sk_result *result)
{
    const struct sk_rows *rows = result->rows;
    struct inquiry *inquiry = arg;
    if (rows == NULL) {
        end(inquiry, SK_VERDICT_UNAVAILABLE, NULL);
        return;
    }
    sk_buf_puts(&inquiry->body, "{\"orders\":[");
    for (size_t i = 0; i < sk_rows_count(rows); i++) {
        const char *document = sk_rows_text(rows, i, 1);
        if (i > 0)
            sk_buf_puts(&inquiry->body, ",");
        if (document != NULL)
            sk_buf_puts(&inquiry->body, document);
        else
            add_pending(inquiry, sk_rows_text(rows, i, 0), sk_rows_number(rows, i, 2));
    }
    sk_buf_puts(&inquiry->body, "]}");
    end(inquiry, SK_VERDICT_FOUND, inquiry->body.data);
}

// PostgreSQL has the last word on what Redis has.
static void list_orders(struct inquiry *inquiry)
{
    struct sk_buf orders = {0}, vouchers = {0};
    char voucher_id[SK_PARAM_NUMBER_SIZE];
    sk_params_begin(&orders);
    sk_params_begin(&vouchers);
    for (size_t i = 0; i < inquiry->asked; i++) {
        const struct look *look = &inquiry->looks[i];
        if (look->order_id[0] == '\0')
            continue;
        sk_params_add(&orders, look->order_id);
        sk_params_add(&vouchers, sk_params_number(voucher_id, look->voucher_id));
    }
    const char *params[] = {inquiry->user, sk_params_end(&orders), sk_params_end(&vouchers)};
    if (params[1] == NULL || params[2] == NULL)
        end(inquiry, SK_VERDICT_OVERLOADED, NULL);
    else
        ask_pg(inquiry, SK_STATEMENT_LIST_ORDERS, 3, params, on_orders);
    sk_buf_free(&orders);
    sk_buf_free(&vouchers);
}

void sk_inquiry_orders(struct sk_inquiries *inquiries, const char *user, uint64_t ticket)
{
    struct inquiry *inquiry = begin(inquiries, ticket);
    if (inquiry == NULL)
        return;
    (void)snprintf(inquiry->user, sizeof inquiry->user, "%s", user);
    ask_buyers(inquiry);
}

// ---- vouchers ----

// Puts the server's time in front of a cached document: {"server_time":"...",<rest of the object>
static void tell_with_time(struct sk_inquiries *inquiries, uint64_t ticket, const char *object)
{
    struct sk_buf body = {0};
    char now[SK_TIME_SIZE];
    sk_text_put_time((int64_t)sk_wall_ms(), now);
    sk_buf_printf(&body, "{\"server_time\":\"%s\",%s", now, object + 1);
    tell(inquiries, ticket, body.failed ? SK_VERDICT_OVERLOADED : SK_VERDICT_FOUND, body.data);
    sk_buf_free(&body);
}

static void on_voucher(void *arg, const struct sk_result *result)
{
    const struct sk_rows *rows = result->rows;
    struct inquiry *inquiry = arg;
    struct sk_segment *voucher = inquiry->voucher;
    if (rows == NULL || sk_rows_count(rows) == 0) {
        end(inquiry, rows == NULL ? SK_VERDICT_UNAVAILABLE : SK_VERDICT_UNKNOWN_VOUCHER, NULL);
        return;
    }
    char *document = strdup(sk_rows_text(rows, 0, 3));
    if (document == NULL) {
        end(inquiry, SK_VERDICT_OVERLOADED, NULL);
        return;
    }
    free(voucher->document);
    voucher->document = document;
    voucher->document_until_ms = uv_now(inquiry->inquiries->core->loop) + DOCUMENT_MS;
    tell_with_time(inquiry->inquiries, inquiry->ticket, document);
    inquiry->ticket = 0; // answered
    end(inquiry, SK_VERDICT_FOUND, NULL);
}

static struct inquiry *begin_voucher(struct sk_inquiries *inquiries, int64_t id, uint64_t ticket)
{
    const struct sk_core *core = inquiries->core;
    struct inquiry *inquiry = begin(inquiries, ticket);
    if (inquiry == NULL)
        return NULL;
    inquiry->voucher_id = id;
    inquiry->voucher = sk_segments_get(core->segments, id, uv_now(core->loop));
    if (inquiry->voucher == NULL) {
        end(inquiry, SK_VERDICT_OVERLOADED, NULL);
        return NULL;
    }
    sk_segment_pin(inquiry->voucher);
    return inquiry;
}

static void find_voucher(struct inquiry *inquiry, sk_pg_cb *done)
{
    char id[24];
    const char *params[] = {id};
    (void)snprintf(id, sizeof id, "%" PRId64, inquiry->voucher_id);
    ask_pg(inquiry, SK_STATEMENT_FIND_VOUCHER, 1, params, done);
}

void sk_inquiry_voucher(struct sk_inquiries *inquiries, int64_t id, uint64_t ticket)
{
    const struct sk_core *core = inquiries->core;
    struct sk_segment *voucher = sk_segments_get(core->segments, id, uv_now(core->loop));
    if (voucher != NULL && voucher->document_until_ms > uv_now(core->loop)) {
        tell_with_time(inquiries, ticket, voucher->document);
        return;
    }
    struct inquiry *inquiry = begin_voucher(inquiries, id, ticket);
    if (inquiry != NULL)
        find_voucher(inquiry, on_voucher);
}

static void on_vouchers(void *arg, const struct sk_result *result)
{
    const struct sk_rows *rows = result->rows;
    struct inquiry *inquiry = arg;
    struct sk_inquiries *inquiries = inquiry->inquiries;
    if (rows == NULL) {
        end(inquiry, SK_VERDICT_UNAVAILABLE, NULL);
        return;
    }
    sk_buf_printf(&inquiry->body, "{\"vouchers\":%s}", sk_rows_text(rows, 0, 0));
    if (!inquiry->body.failed) {
        free(inquiries->list);
        inquiries->list = inquiry->body.data;
        inquiries->list_until_ms = uv_now(inquiries->core->loop) + DOCUMENT_MS;
        inquiry->body = (struct sk_buf){0};
        tell_with_time(inquiries, inquiry->ticket, inquiries->list);
        inquiry->ticket = 0; // answered
    }
    end(inquiry, SK_VERDICT_OVERLOADED, NULL);
}

void sk_inquiry_vouchers(struct sk_inquiries *inquiries, uint64_t ticket)
{
    if (inquiries->list_until_ms > uv_now(inquiries->core->loop)) {
        tell_with_time(inquiries, ticket, inquiries->list);
        return;
    }
    struct inquiry *inquiry = begin(inquiries, ticket);
    if (inquiry != NULL)
        ask_pg(inquiry, SK_STATEMENT_LIST_VOUCHERS, 0, NULL, on_vouchers);
}

// ---- the admin's view ----

static void add_number(struct inquiry *inquiry, const char *name, const struct sk_reply *reply)
{
    int64_t number;
    if (reply != NULL && sk_reply_number(reply, &number))
        sk_buf_printf(&inquiry->body, ",\"%s\":%" PRId64, name, number);
}

// Only states that there are.
static const char *state_shown(const struct sk_reply *reply)
{
    static const char *const states[] = {"loading", "open", "closed"};
    const char *state = sk_reply_text(sk_reply_at(reply, 0), NULL);
    if (reply == NULL)
        return "unknown";
    if (state != NULL && state[0] == '\0')
        return "missing";
    for (size_t i = 0; state != NULL && i < sizeof states / sizeof states[0]; i++) {
        if (strcmp(state, states[i]) == 0)
            return states[i];
    }
    return "unreadable";
}

static void on_redis_voucher(void *arg, const struct sk_reply *reply)
{
    struct inquiry *inquiry = arg;
    sk_buf_printf(&inquiry->body, "\"state\":\"%s\"", state_shown(reply));
    add_number(inquiry, "stock", sk_reply_at(reply, 3));
    add_number(inquiry, "epoch", sk_reply_at(reply, 1));
    add_number(inquiry, "buyers", sk_reply_at(reply, 5));
    add_number(inquiry, "journal", sk_reply_at(reply, 6));
    sk_buf_puts(&inquiry->body, "}}");
    end(inquiry, SK_VERDICT_FOUND, inquiry->body.data);
}

static void on_inspected(void *arg, const struct sk_result *result)
{
    const struct sk_rows *rows = result->rows;
    struct inquiry *inquiry = arg;
    const struct sk_segment *voucher = inquiry->voucher;
    if (rows == NULL || sk_rows_count(rows) == 0) {
        end(inquiry, rows == NULL ? SK_VERDICT_UNAVAILABLE : SK_VERDICT_UNKNOWN_VOUCHER, NULL);
        return;
    }
    const char *document = sk_rows_text(rows, 0, 3);
    sk_buf_add(&inquiry->body, document, strlen(document) - 1); // the closing brace comes later
    sk_buf_puts(&inquiry->body, ",\"redis\":{");
    const char *keys[] = {voucher->keys.voucher, voucher->keys.buyers, voucher->keys.journal};
    if (sk_redis_script(inquiry->inquiries->core->redis, SK_SCRIPT_LOOK_AT_VOUCHER, 3, 3, keys, NULL, on_redis_voucher,
                        inquiry) != SK_OK)
        end(inquiry, SK_VERDICT_UNAVAILABLE, NULL);
}

void sk_inquiry_inspect(struct sk_inquiries *inquiries, int64_t id, uint64_t ticket)
{
    struct inquiry *inquiry = begin_voucher(inquiries, id, ticket);
    if (inquiry != NULL)
        find_voucher(inquiry, on_inspected);
}
