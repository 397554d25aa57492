// PostgreSQL makes the documents (order_json, voucher_json); here they are only put together.
//
// A pending order is in Redis alone, in the buyers of its voucher, and the order's id does not tell which
// voucher. So an order that PostgreSQL does not have is looked for in the buyers of every voucher that
// may have orders under way, and then in PostgreSQL once more: it may have been refused in between, and a
// refusal is written to PostgreSQL before the buyer's entry goes. While a voucher is being rebuilt, and for a
// while after, an accepted order may be in no store at all, only in an instance that will have it granted again:
// then the answer is "not known now", never "not found".
//
// Vouchers are shown as PostgreSQL had them at most DOCUMENT_MS ago: a crowd that refreshes its pages
// costs one query a second.
#include "inquiry.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "buf.h"
#include "clock.h"

enum { DOCUMENT_MS = 1000, RETRY_AFTER_MS = 1000, REBUILT_MS = 30000 };

struct sk_inquiries {
    const struct sk_core *core;
    char *list; // of vouchers; owned
    uint64_t list_until_ms;
};

struct inquiry {
    struct sk_inquiries *inquiries;
    uint64_t ticket;
    struct sk_voucher *voucher; // pinned; NULL: none
    int64_t voucher_id;
    char order_id[SK_UUID_SIZE]; // empty: all of the user's orders
    char user[SK_USER_SIZE];
    bool second_look;
    bool redis_failed;
    bool unsure; // a voucher is being rebuilt, or was a moment ago
    size_t asked, answered;
    int64_t *vouchers; // asked about, in order; owned
    char **known;      // order ids PostgreSQL has; owned
    size_t known_count;
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
    if (document != NULL && inquiry->body.failed)
        verdict = SK_VERDICT_OVERLOADED;
    tell(inquiry->inquiries, inquiry->ticket, verdict, document);
    if (inquiry->voucher != NULL)
        inquiry->voucher->pins--;
    for (size_t i = 0; i < inquiry->known_count; i++)
        free(inquiry->known[i]);
    free((void *)inquiry->known);
    free(inquiry->vouchers);
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

static bool known(const struct inquiry *inquiry, const char *order_id)
{
    for (size_t i = 0; i < inquiry->known_count; i++) {
        if (strcmp(inquiry->known[i], order_id) == 0)
            return true;
    }
    return false;
}

static void look_up_order(struct inquiry *inquiry);

static void buyers_asked(struct inquiry *inquiry)
{
    if (inquiry->order_id[0] == '\0') {
        if (inquiry->redis_failed) {
            end(inquiry, SK_VERDICT_UNAVAILABLE, NULL); // half a list would look like a lost order
            return;
        }
        sk_buf_puts(&inquiry->body, "]}");
        end(inquiry, SK_VERDICT_FOUND, inquiry->body.data);
    } else if (inquiry->body.len > 0) {
        end(inquiry, SK_VERDICT_FOUND, inquiry->body.data);
    } else if (inquiry->redis_failed) {
        end(inquiry, SK_VERDICT_UNAVAILABLE, NULL);
    } else {
        inquiry->second_look = true;
        look_up_order(inquiry);
    }
}

static void on_buyer(void *arg, const struct sk_reply *reply)
{
    struct inquiry *inquiry = arg;
    struct sk_look look;
    size_t len = 0;
    const char *order = sk_reply_text(sk_reply_at(reply, 8), &len);
    int64_t voucher_id = inquiry->vouchers[inquiry->answered++];
    bool whole = order != NULL && len == SK_UUID_CHARS;
    if (reply == NULL || !sk_look_read(reply, sk_redis_run(inquiry->inquiries->core->redis), &look))
        inquiry->redis_failed = true;
    else if (look.loading || !look.same_run || (look.rebuilt_ms_ago >= 0 && look.rebuilt_ms_ago < REBUILT_MS))
        inquiry->unsure = true;
    if (whole && inquiry->order_id[0] != '\0' && strcmp(order, inquiry->order_id) == 0) {
        add_pending(inquiry, order, voucher_id);
    } else if (whole && inquiry->order_id[0] == '\0' && !known(inquiry, order)) {
        if (inquiry->body.data[inquiry->body.len - 1] != '[')
            sk_buf_puts(&inquiry->body, ",");
        add_pending(inquiry, order, voucher_id);
    }
    if (inquiry->answered == inquiry->asked)
        buyers_asked(inquiry);
}

static enum sk_status ask_voucher(struct inquiry *inquiry, const char *voucher_id)
{
    static const char *const parts[] = {"voucher", "buyers", "journal"};
    char keys[3][SK_KEY_SIZE];
    const char *argv[] = {keys[0], keys[1], keys[2], inquiry->user};
    for (int i = 0; i < 3; i++)
        (void)snprintf(keys[i], SK_KEY_SIZE, "seckill:{%s}:%s", voucher_id, parts[i]);
    return sk_redis_script(inquiry->inquiries->core->redis, SK_SCRIPT_LOOK_AT_VOUCHER, 3, 4, argv, NULL, on_buyer,
                           inquiry);
}

static void on_current_vouchers(void *arg, const struct sk_rows *rows)
{
    struct inquiry *inquiry = arg;
    size_t count = rows == NULL ? 0 : sk_rows_count(rows);
    inquiry->vouchers = calloc(count + 1, sizeof *inquiry->vouchers);
    if (rows == NULL || inquiry->vouchers == NULL) {
        end(inquiry, SK_VERDICT_UNAVAILABLE, NULL);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (ask_voucher(inquiry, sk_rows_text(rows, i, 0)) != SK_OK) {
            inquiry->redis_failed = true;
            break;
        }
        inquiry->vouchers[inquiry->asked++] = sk_rows_number(rows, i, 0);
    }
    if (inquiry->asked == 0)
        buyers_asked(inquiry);
}

static void ask_buyers(struct inquiry *inquiry)
{
    ask_pg(inquiry, SK_STATEMENT_CURRENT_VOUCHERS, 0, NULL, on_current_vouchers);
}

static void on_order(void *arg, const struct sk_rows *rows)
{
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
    const char *params[] = {inquiry->order_id, inquiry->user};
    ask_pg(inquiry, SK_STATEMENT_FIND_ORDER, 2, params, on_order);
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

static void on_orders(void *arg, const struct sk_rows *rows)
{
    struct inquiry *inquiry = arg;
    size_t count = rows == NULL ? 0 : sk_rows_count(rows);
    inquiry->known = calloc(count + 1, sizeof *inquiry->known);
    if (rows == NULL || inquiry->known == NULL) {
        end(inquiry, SK_VERDICT_UNAVAILABLE, NULL);
        return;
    }
    sk_buf_puts(&inquiry->body, "{\"orders\":[");
    for (size_t i = 0; i < count; i++) {
        char *id = strdup(sk_rows_text(rows, i, 0));
        if (id == NULL) {
            end(inquiry, SK_VERDICT_OVERLOADED, NULL);
            return;
        }
        inquiry->known[inquiry->known_count++] = id;
        if (i > 0)
            sk_buf_puts(&inquiry->body, ",");
        sk_buf_puts(&inquiry->body, sk_rows_text(rows, i, 1));
    }
    if (inquiry->body.failed)
        end(inquiry, SK_VERDICT_OVERLOADED, NULL);
    else
        ask_buyers(inquiry);
}

void sk_inquiry_orders(struct sk_inquiries *inquiries, const char *user, uint64_t ticket)
{
    struct inquiry *inquiry = begin(inquiries, ticket);
    if (inquiry == NULL)
        return;
    (void)snprintf(inquiry->user, sizeof inquiry->user, "%s", user);
    const char *params[] = {inquiry->user};
    ask_pg(inquiry, SK_STATEMENT_LIST_ORDERS, 1, params, on_orders);
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

static void on_voucher(void *arg, const struct sk_rows *rows)
{
    struct inquiry *inquiry = arg;
    struct sk_voucher *voucher = inquiry->voucher;
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
    inquiry->voucher = sk_vouchers_get(core->vouchers, id, uv_now(core->loop));
    if (inquiry->voucher == NULL) {
        end(inquiry, SK_VERDICT_OVERLOADED, NULL);
        return NULL;
    }
    inquiry->voucher->pins++;
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
    struct sk_voucher *voucher = sk_vouchers_get(core->vouchers, id, uv_now(core->loop));
    if (voucher != NULL && voucher->document_until_ms > uv_now(core->loop)) {
        tell_with_time(inquiries, ticket, voucher->document);
        return;
    }
    struct inquiry *inquiry = begin_voucher(inquiries, id, ticket);
    if (inquiry != NULL)
        find_voucher(inquiry, on_voucher);
}

static void on_vouchers(void *arg, const struct sk_rows *rows)
{
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

static void on_journal_length(void *arg, const struct sk_reply *reply)
{
    struct inquiry *inquiry = arg;
    add_number(inquiry, "journal", reply);
    sk_buf_puts(&inquiry->body, "}}");
    end(inquiry, SK_VERDICT_FOUND, inquiry->body.data);
}

static void on_buyer_count(void *arg, const struct sk_reply *reply)
{
    add_number(arg, "buyers", reply);
}

static void on_redis_voucher(void *arg, const struct sk_reply *reply)
{
    struct inquiry *inquiry = arg;
    const char *state = reply == NULL ? "unknown" : sk_reply_text(sk_reply_at(reply, 0), NULL);
    sk_buf_printf(&inquiry->body, "\"state\":\"%s\"", state == NULL ? "missing" : state);
    add_number(inquiry, "stock", sk_reply_at(reply, 1));
    add_number(inquiry, "epoch", sk_reply_at(reply, 2));
}

static void on_inspected(void *arg, const struct sk_rows *rows)
{
    struct inquiry *inquiry = arg;
    struct sk_redis *redis = inquiry->inquiries->core->redis;
    const struct sk_voucher *voucher = inquiry->voucher;
    if (rows == NULL || sk_rows_count(rows) == 0) {
        end(inquiry, rows == NULL ? SK_VERDICT_UNAVAILABLE : SK_VERDICT_UNKNOWN_VOUCHER, NULL);
        return;
    }
    const char *document = sk_rows_text(rows, 0, 3);
    sk_buf_add(&inquiry->body, document, strlen(document) - 1); // the closing brace comes later
    sk_buf_puts(&inquiry->body, ",\"redis\":{");
    const char *fields[] = {"HMGET", voucher->voucher_key, "state", "stock", "epoch"};
    const char *buyers[] = {"HLEN", voucher->buyers_key};
    const char *journal[] = {"XLEN", voucher->journal_key};
    if (sk_redis_command(redis, 5, fields, NULL, on_redis_voucher, inquiry) != SK_OK) {
        end(inquiry, SK_VERDICT_UNAVAILABLE, NULL);
        return;
    }
    // Once the first is accepted the others are: nothing runs in between that could end the link.
    enum sk_status status = sk_redis_command(redis, 2, buyers, NULL, on_buyer_count, inquiry);
    if (status == SK_OK)
        status = sk_redis_command(redis, 2, journal, NULL, on_journal_length, inquiry);
    SK_ASSERT(status == SK_OK || status == SK_NO_MEM);
}

void sk_inquiry_inspect(struct sk_inquiries *inquiries, int64_t id, uint64_t ticket)
{
    struct inquiry *inquiry = begin_voucher(inquiries, id, ticket);
    if (inquiry != NULL)
        find_voucher(inquiry, on_inspected);
}
