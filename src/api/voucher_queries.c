// The catalogue says whether there is such a voucher. An id that is newer than all it knows waits for the next look,
// which all such questions share; an older one that it does not have is retired, or was never given out, and PostgreSQL
// is asked, a few of such questions at a time. So made-up ids cost next to nothing.
#include "voucher_queries.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "audit.h"
#include "beside.h"
#include "clock.h"
#include "params.h"
#include "text.h"

enum { COLUMN_DOCUMENT = 3, COLUMN_VERSION = 4 };

struct voucher_query {
    struct sk_talk talk;
    int64_t id, version;
    bool inspect;
};

static void voucher_start(struct sk_talk *talk);
static void voucher_on_found(struct sk_talk *talk, enum sk_beside beside);
static void voucher_on_row(void *arg, const struct sk_result *result);
static void voucher_keep(struct voucher_query *query, const char *document);
static void voucher_end(struct voucher_query *query);
static void voucher_look(struct voucher_query *query, const char *document);
static void voucher_on_look(void *arg, const struct sk_reply *reply);

void sk_voucher_put_time(const struct sk_sale *sale, struct sk_buf *out, const char *object)
{
    char now[SK_TIME_SIZE];
    sk_text_put_time((int64_t)sk_wall_ms(), now);
    sk_buf_printf(out, "{\"server_time\":\"%s\",\"can_sell\":%s,%s", now,
                  sk_redis_ready(sale->redis) ? "true" : "false", object + 1);
}

bool sk_voucher_tell_shown(const struct sk_control *control, const struct sk_shown *shown, const char *next,
                           uint64_t handle)
{
    const struct sk_sale *sale = control->sale;
    struct sk_buf body = {0};
    if (shown->document == NULL || shown->until_ms <= uv_now(sale->loop))
        return false;
    sk_voucher_put_time(sale, &body, shown->document);
    struct sk_outcome outcome = {.verdict = body.failed ? SK_VERDICT_OVERLOADED : SK_VERDICT_FOUND,
                                 .document = body.data,
                                 .version = shown->version,
                                 .next = next};
    sale->on_outcome(sale->arg, handle, &outcome);
    sk_buf_free(&body);
    return true;
}

// ---- one voucher ----

static void voucher_ask(struct sk_control *control, int64_t id, bool inspect, uint64_t handle)
{
    char key[SK_TALK_KEY_SIZE];
    (void)snprintf(key, sizeof key, "%s:%" PRId64, inspect ? "inspect" : "voucher", id);
    enum sk_pg_class class = inspect ? SK_PG_COMMANDS : SK_PG_QUESTIONS;
    struct voucher_query *query = sk_talk_new(control, class, handle, key, sizeof *query, voucher_start);
    if (query == NULL)
        return;
    query->id = id;
    query->inspect = inspect;
    sk_talk_start(&query->talk);
}

void sk_query_voucher(struct sk_control *control, int64_t id, uint64_t handle)
{
    const struct sk_voucher *voucher = sk_catalogue_find(control->sale->catalogue, id);
    if (voucher == NULL || !sk_voucher_tell_shown(control, &voucher->shown, NULL, handle))
        voucher_ask(control, id, false, handle);
}

void sk_query_inspect(struct sk_control *control, int64_t id, uint64_t handle)
{
    voucher_ask(control, id, true, handle);
}

static void voucher_start(struct sk_talk *talk)
{
    sk_beside_find(talk, ((struct voucher_query *)talk)->id, voucher_on_found);
}

static void voucher_on_found(struct sk_talk *talk, enum sk_beside beside)
{
    struct voucher_query *query = (struct voucher_query *)talk;
    char id[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {sk_params_number(id, query->id)};
    if (beside == SK_BESIDE_UNKNOWN) {
        sk_talk_end(talk, SK_VERDICT_UNKNOWN_VOUCHER, NULL);
        return;
    }
    sk_talk_ask_pg(talk, SK_STATEMENT_FIND_VOUCHER, 1, params, voucher_on_row);
}

static void voucher_on_row(void *arg, const struct sk_result *result)
{
    struct voucher_query *query = arg;
    struct sk_talk *talk = &query->talk;
    if (result->rows == NULL || sk_rows_count(result->rows) == 0) {
        sk_talk_end(talk, result->rows == NULL ? SK_VERDICT_UNAVAILABLE : SK_VERDICT_UNKNOWN_VOUCHER, NULL);
        return;
    }
    const char *document = sk_rows_text(result->rows, 0, COLUMN_DOCUMENT);
    query->version = sk_rows_number(result->rows, 0, COLUMN_VERSION);
    if (query->inspect) {
        voucher_look(query, document);
        return;
    }
    voucher_keep(query, document);
    sk_voucher_put_time(talk->control->sale, &talk->body, document);
    voucher_end(query);
}

// For the questions of the next second. Without memory each asks by itself.
static void voucher_keep(struct voucher_query *query, const char *document)
{
    struct sk_voucher *voucher = query->talk.voucher;
    char *copy = voucher == NULL ? NULL : strdup(document);
    if (copy == NULL)
        return;
    free(voucher->shown.document);
    voucher->shown.document = copy;
    voucher->shown.version = query->version;
    voucher->shown.until_ms = uv_now(query->talk.control->sale->loop) + SK_VOUCHER_SHOWN_MS;
}

static void voucher_end(struct voucher_query *query)
{
    struct sk_outcome outcome = {
        .verdict = SK_VERDICT_FOUND, .document = query->talk.body.data, .version = query->version};
    sk_talk_end_with(&query->talk, &outcome);
}

// ---- what Redis has, for the admin ----

static void voucher_look(struct voucher_query *query, const char *document)
{
    struct sk_talk *talk = &query->talk;
    sk_buf_add(&talk->body, document, strlen(document) - 1); // the closing brace comes later
    sk_buf_puts(&talk->body, ",\"redis\":{");
    const struct sk_voucher *voucher = talk->voucher;
    if (voucher == NULL) {
        sk_buf_puts(&talk->body, "\"state\":\"retired\"}}");
        voucher_end(query);
        return;
    }
    const char *keys[] = {voucher->keys.voucher, voucher->keys.buyers, voucher->keys.journal};
    if (sk_redis_script(talk->control->sale->ask_redis, SK_SCRIPT_LOOK_AT_VOUCHER, 3, 3, keys, NULL, voucher_on_look,
                        query) != SK_OK)
        sk_talk_end(talk, SK_VERDICT_UNAVAILABLE, NULL);
}

static void voucher_add_number(struct sk_buf *body, const char *name, const struct sk_reply *reply)
{
    int64_t number;
    if (reply != NULL && sk_reply_number(reply, &number))
        sk_buf_printf(body, ",\"%s\":%" PRId64, name, number);
}

// Only states that there are.
static const char *voucher_state_shown(const struct sk_reply *reply)
{
    const char *state = sk_reply_text(sk_reply_at(reply, SK_LOOK_STATE), NULL);
    if (reply == NULL)
        return "unknown";
    if (state != NULL && state[0] == '\0')
        return "missing";
    if (state != NULL && (strcmp(state, "loading") == 0 || sk_voucher_state_known(state)))
        return state;
    return "unreadable";
}

static void voucher_on_look(void *arg, const struct sk_reply *reply)
{
    struct voucher_query *query = arg;
    struct sk_buf *body = &query->talk.body;
    sk_buf_printf(body, "\"state\":\"%s\"", voucher_state_shown(reply));
    voucher_add_number(body, "stock", sk_reply_at(reply, SK_LOOK_STOCK));
    voucher_add_number(body, "epoch", sk_reply_at(reply, SK_LOOK_EPOCH));
    voucher_add_number(body, "buyers", sk_reply_at(reply, SK_LOOK_BUYERS));
    voucher_add_number(body, "journal", sk_reply_at(reply, SK_LOOK_JOURNAL));
    voucher_add_number(body, "version", sk_reply_at(reply, SK_LOOK_CHANGE));
    voucher_add_number(body, "journal_age_ms", sk_reply_at(reply, SK_LOOK_AGE_MS));
    sk_buf_puts(body, "}}");
    voucher_end(query);
}
