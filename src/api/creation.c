// The row decides: once it is committed the answer is 201, whether or not Redis was loaded in time. If not, the audit
// loads it, or the first purchase. Then it waits for the catalogue, and loads Redis, or asks whether it is loaded.
//
// A repeated call never loads a voucher that was loaded before: it may be selling, and loading closes it for a moment.
//
// One that joins the scope of another goes to that one's shard, and only when all living instances know scopes: another
// would not find it for its buyers.
#include "creation.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "instances.h"
#include "keys.h"
#include "params.h"
#include "phase.h"
#include "slot.h"
#include "slot_map.h"
#include "uuid.h"
#include "voucher_changes.h"

enum { LOCATION_SIZE = 64, KEYS_MAX = 64 };

struct creation {
    struct sk_command command; // must be first
    bool loaded_before;
    bool waits; // the audit is rebuilding it: the next tick asks Redis whether that is done
    bool polls; // the tick has asked Redis
    bool joins; // the scope of another voucher
    int64_t voucher_id, change;
    char *document, *loading; // the voucher, and the same while it is loading; owned
};

static void creation_answer(struct creation *creation, const char *document)
{
    char location[LOCATION_SIZE];
    struct sk_answer answer = {
        .verdict = SK_VERDICT_CREATED, .body = document, .location = location, .version = creation->change};
    (void)snprintf(location, sizeof location, "/vouchers/%" PRId64, creation->voucher_id);
    sk_query_answer(&creation->command.query, &answer);
}

static void creation_on_loaded(void *arg, bool ok)
{
    struct creation *creation = arg;
    creation_answer(creation, ok ? creation->document : creation->loading);
    sk_query_end(&creation->command.query, SK_VERDICT_CREATED, NULL);
}

static void creation_on_state(void *arg, const struct sk_reply *reply)
{
    struct creation *creation = arg;
    const char *state = reply == NULL ? NULL : sk_reply_text(reply, NULL);
    bool ok = state != NULL && sk_voucher_state_of(state) != SK_VOUCHER_RETIRED;
    creation->waits = !ok && creation->polls &&
                      uv_now(creation->command.query.control->sale->loop) < creation->command.answer_until_ms;
    creation->polls = false;
    if (!creation->waits)
        creation_on_loaded(creation, ok);
}

static enum sk_status creation_ask_state(struct creation *creation)
{
    const struct sk_query *query = &creation->command.query;
    const char *state[] = {"HGET", query->voucher->keys.voucher, "state"};
    return sk_redis_command(sk_sale_ask_redis(query->control->sale, query->voucher), 3, state, NULL, creation_on_state,
                            creation);
}

static void creation_on_followed(struct sk_query *query, bool ok)
{
    struct creation *creation = (struct creation *)query;
    struct sk_voucher *voucher = ok ? sk_query_find_voucher(query, creation->voucher_id) : NULL;
    enum sk_status status = SK_FAIL;
    if (voucher != NULL && creation->loaded_before)
        status = creation_ask_state(creation);
    else if (voucher != NULL)
        status =
            sk_rebuild(query->control->recovery->rebuilds, voucher, SK_REBUILD_DOUBT, creation_on_loaded, creation);
    creation->waits = status == SK_FULL; // the audit has begun it already
    if (status != SK_OK && !creation->waits)
        creation_on_loaded(creation, false);
}

static void creation_judge(struct sk_command *command, const struct sk_rows *rows)
{
    struct creation *creation = (struct creation *)command;
    struct sk_query *query = &command->query;
    const char *outcome = sk_rows_text(rows, 0, 0);
    if (strcmp(outcome, "scope") == 0) {
        const struct sk_answer answer = {.verdict = SK_VERDICT_INVALID,
                                         .member = "scope",
                                         .detail = "must be a voucher whose scope is not retired and has room"};
        sk_query_end_with(query, &answer);
        return;
    }
    if (strcmp(outcome, "created") != 0) {
        sk_query_end(query, SK_VERDICT_IDEMPOTENCY_KEY_REUSED, NULL);
        return;
    }
    creation->voucher_id = sk_rows_number(rows, 0, 1);
    creation->loaded_before = sk_rows_number(rows, 0, 2) > 0;
    creation->change = sk_rows_number(rows, 0, 5);
    if (!sk_phase_copy(&creation->document, sk_rows_text(rows, 0, 3)) ||
        !sk_phase_copy(&creation->loading, sk_rows_text(rows, 0, 4))) {
        sk_query_end(query, SK_VERDICT_OVERLOADED, NULL);
        return;
    }
    sk_query_follow(query, creation_on_followed);
    sk_catalogue_sync_hurry(query->control->recovery->syncs[query->shard]);
}

static void creation_on_tick(struct sk_command *command, bool late)
{
    struct creation *creation = (struct creation *)command;
    if (creation->waits) {
        creation->waits = false;
        creation->polls = true;
        if (late || creation_ask_state(creation) != SK_OK)
            creation_on_loaded(creation, false);
    } else if (late) {
        creation_answer(creation, creation->loading);
    }
}

static void creation_release(struct sk_command *command)
{
    struct creation *creation = (struct creation *)command;
    free(creation->document);
    free(creation->loading);
}

static const struct sk_command_kind creation_kind = {
    .judge = creation_judge, .tick = creation_on_tick, .release = creation_release};

static void creation_on_instances(void *arg, const struct sk_reply *reply)
{
    struct creation *creation = arg;
    if (reply == NULL)
        sk_query_end(&creation->command.query, SK_VERDICT_UNAVAILABLE, NULL);
    else if (!sk_instances_know_scopes(reply))
        sk_query_end(&creation->command.query, SK_VERDICT_SCOPES_OFF, NULL);
    else
        sk_command_ask(&creation->command);
}

static void creation_start(struct sk_query *query)
{
    struct creation *creation = (struct creation *)query;
    const char *keys[] = {SK_KEY_SESSIONS, SK_KEY_INSTANCES};
    if (!creation->joins)
        sk_command_ask(&creation->command);
    else if (sk_redis_script(sk_sale_ask_shared(query->control->sale), SK_SCRIPT_LIST_INSTANCES, 2, 2, keys, NULL,
                             creation_on_instances, creation) != SK_OK)
        sk_query_end(query, SK_VERDICT_UNAVAILABLE, NULL);
}

// A repetition must find the voucher, so its key alone says where a new voucher goes.
static unsigned creation_shard(const struct sk_control *control, const char *key)
{
    return sk_shard_of_slot(sk_slot(key, strlen(key)), control->sale->shard_count);
}

// One whose shard is there.
static void creation_make_key(const struct sk_control *control, char key[SK_UUID_SIZE])
{
    struct sk_uuid_gen keys = {0};
    for (int i = 0; i < KEYS_MAX; i++) {
        sk_uuid_next(&keys, key);
        if (sk_pg_ready(control->sale->shards[creation_shard(control, key)].queries))
            break;
    }
}

void sk_create_voucher(struct sk_control *control, const char *key, const char *by, const struct sk_terms *terms,
                       uint64_t handle)
{
    struct creation *creation = sk_query_new(control, SK_PG_COMMANDS, handle, NULL, sizeof *creation, creation_start);
    char own_key[SK_UUID_SIZE], line[SK_LINE_SIZE];
    if (creation == NULL)
        return;
    if (key == NULL) {
        creation_make_key(control, own_key);
        key = own_key;
    }
    struct sk_command *command = &creation->command;
    SK_ASSERT(terms->title != NULL && terms->currency != NULL);
    command->query.shard =
        terms->scope == 0 ? creation_shard(control, key) : sk_query_shard_of_voucher(&command->query, terms->scope);
    sk_command_open(command, &creation_kind, SK_STATEMENT_CREATE_VOUCHER);
    sk_command_add(command, key);
    sk_command_add(command, terms->title);
    sk_command_add_number(command, terms->price_cents);
    sk_command_add_number(command, terms->stock);
    sk_command_add_number(command, terms->begin_ms);
    sk_command_add_number(command, terms->end_ms);
    sk_command_add_number(command, terms->user_limit);
    sk_command_add_number(command, terms->pay_within_s);
    sk_command_add(command, terms->currency);
    sk_command_add(command, by);
    sk_command_add_number(command, terms->ticket);
    sk_command_add_number(command, terms->work_bits);
    sk_command_add(command, terms->description);
    sk_command_add(command, terms->picture);
    sk_command_add_number(command, terms->extend_s);
    sk_command_add_number(command, terms->orders_per_user);
    sk_command_add_number(command, terms->more_ms);
    creation->joins = terms->scope != 0;
    if (creation->joins)
        sk_command_add_number(command, terms->scope);
    else
        sk_command_add(command, NULL);
    sk_command_add(command, terms->waitlist == 0 ? NULL : sk_terms_line(terms, line));
    sk_command_start(command);
}

void sk_handle_create(const struct sk_context *context, struct sk_request *request)
{
    struct sk_terms terms;
    struct sk_fields read;
    char room[SK_REQUEST_KEY_SIZE];
    const char *key;
    if (!sk_call_read_key(context, request, room, &key))
        return;
    struct sk_terms_rules rules = sk_terms_rules(context);
    enum sk_verdict verdict = sk_terms_read(request->body.data, request->body.len, &rules, &terms, &read);
    if (sk_call_body_good(context, request, verdict, &read))
        sk_create_voucher(context->control, key, sk_call_of(request)->by, &terms, request->handle);
    sk_fields_free(&read);
}
