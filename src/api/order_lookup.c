// An order is looked up where its id leads: in PostgreSQL, and if that does not know it, in Redis, in the vouchers of
// its slot, nearly always one. One HGET there finds a user's pending order.
//
// An order that neither store has for its user is nearly always made up, and anyone can make up ids. So a reactor
// searches further for few of them at a time, and for fewer of one user; above that the answer is OVERLOADED. The
// search audits the vouchers in both stores, then asks PostgreSQL once more, where a refusal is written before the
// buyer's entry is removed. "Not found" needs more than two stores that do not know the order: Redis must be reliable,
// no instance may still hold the id, and the catalogue must be newer than the query, because a newer voucher may share
// the slot. Otherwise the answer is UNAVAILABLE.
#include "order_lookup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "catalogue.h"
#include "order_id.h"
#include "order_json.h"
#include "params.h"
#include "trust.h"
#include "verdict.h"
#include "voucher_books.h"
#include "waiting.h"

enum { SEARCHES_MAX = 16, OF_USER_MAX = 4 };
enum { IN_SLOT_MAX = 32, COLUMN_DOCUMENT = 0, COLUMN_STATUS = 1, COLUMN_EPOCH = 0, COLUMN_ARCHIVED = 1 };

struct sk_searches {
    const char *users[SEARCHES_MAX]; // of the lookups that search; NULL: free
};

struct sk_searches *sk_searches_open(void)
{
    return calloc(1, sizeof(struct sk_searches));
}

void sk_searches_close(struct sk_searches *searches)
{
    for (size_t i = 0; searches != NULL && i < SEARCHES_MAX; i++)
        SK_ASSERT(searches->users[i] == NULL);
    free(searches);
}

// What Redis has of one voucher.
struct lookup_voucher {
    struct lookup *lookup;
    struct sk_voucher *voucher; // pinned
    struct sk_account account;  // voucher_id 0: PostgreSQL has none
};

enum lookup_step {
    LOOKUP_IDLE,             // between two rounds
    LOOKUP_FIRST_ROW,        // PostgreSQL is asked
    LOOKUP_CLAIMS,           // Redis is asked whether the order is its user's
    LOOKUP_ACCOUNTS,         // PostgreSQL is asked for the vouchers' accounts
    LOOKUP_SNAPSHOTS,        // Redis is asked for snapshots
    LOOKUP_SNAPSHOTS_FAILED, // one snapshot has failed: the remaining replies may still show the order
    LOOKUP_LAST_ROW,         // PostgreSQL is asked once more
    LOOKUP_FOLLOWING,        // waits for the catalogue
    LOOKUP_RETIRED,          // PostgreSQL is asked for retired vouchers in the slot
    LOOKUP_STEPS
};

struct lookup {
    struct sk_query query;
    enum sk_lookup_for what;
    enum lookup_step step;
    char order_id[SK_UUID_SIZE];
    char user[SK_USER_SIZE]; // whose order it must be; empty: anyone's
    const char **place;      // its entry in `searches`; NULL: it has none
    bool followed;           // the catalogue is newer than the query
    bool unsure;             // Redis may have lost it, or an instance may still hold it
    bool under_way;          // an order is pending that PostgreSQL does not know: without a user, it may be this one
    int64_t pending_in;      // voucher id; 0: it is not pending
    unsigned pending_quantity;
    size_t vouchers, answered;
    struct lookup_voucher asked[IN_SLOT_MAX];
};

static void lookup_move(struct lookup *lookup, enum lookup_step step)
{
#define TO(step) (1U << LOOKUP_##step)
    static const unsigned allowed[LOOKUP_STEPS] = {
        [LOOKUP_IDLE] = TO(FIRST_ROW) | TO(IDLE), // closed before it began
        [LOOKUP_FIRST_ROW] = TO(CLAIMS) | TO(ACCOUNTS) | TO(FOLLOWING) | TO(IDLE),
        [LOOKUP_CLAIMS] = TO(ACCOUNTS) | TO(IDLE),
        [LOOKUP_ACCOUNTS] = TO(SNAPSHOTS) | TO(IDLE),
        [LOOKUP_SNAPSHOTS] = TO(LAST_ROW) | TO(SNAPSHOTS_FAILED) | TO(IDLE),
        [LOOKUP_SNAPSHOTS_FAILED] = TO(SNAPSHOTS_FAILED) | TO(IDLE),
        [LOOKUP_LAST_ROW] = TO(FOLLOWING) | TO(RETIRED) | TO(IDLE),
        [LOOKUP_FOLLOWING] = TO(ACCOUNTS) | TO(RETIRED) | TO(IDLE),
        [LOOKUP_RETIRED] = TO(IDLE),
    };
#undef TO
    SK_ASSERT((allowed[lookup->step] & 1U << step) != 0);
    lookup->step = step;
}

// ---- the order in both stores: the steps, the last one first ----

static void lookup_ask_pg(struct lookup *lookup, enum lookup_step step, sk_pg_cb *done)
{
    char slot[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {sk_params_number(slot, sk_order_id_slot(lookup->order_id)), lookup->order_id, lookup->user};
    bool any = lookup->user[0] == '\0';
    enum sk_statement find = any                                    ? SK_STATEMENT_FIND_ANY_ORDER
                             : lookup->what == SK_LOOKUP_FOR_REPEAT ? SK_STATEMENT_FIND_REPLICATED_ORDER
                                                                    : SK_STATEMENT_FIND_ORDER;
    lookup_move(lookup, step);
    lookup->query.shard = sk_query_shard_of_order(&lookup->query, lookup->order_id);
    sk_query_ask_pg(&lookup->query, find, any ? 2 : 3, params, done);
}

// Answers with an order that a store knows. `document` NULL: it is another user's. An order that a move now finds has
// arrived after the move found none.
static void lookup_show(struct lookup *lookup, const char *document, const char *status)
{
    struct sk_answer answer = {.verdict = SK_VERDICT_FOUND, .body = document, .status = status};
    if (document == NULL)
        answer = (struct sk_answer){.verdict = SK_VERDICT_NOT_FOUND};
    else if (lookup->what == SK_LOOKUP_FOR_MOVE)
        answer = (struct sk_answer){.verdict = SK_VERDICT_PENDING};
    sk_query_end_with(&lookup->query, &answer);
}

static void lookup_read_claim(struct lookup_voucher *one, const struct sk_reply *reply)
{
    struct lookup *lookup = one->lookup;
    char id[SK_UUID_SIZE];
    unsigned quantity;
    if (reply == NULL || sk_reply_error(reply) != NULL || !sk_trust_order(reply, one->voucher->id, id, &quantity) ||
        strcmp(id, lookup->order_id) != 0)
        return;
    lookup->pending_in = one->voucher->id;
    lookup->pending_quantity = quantity;
}

static void lookup_show_pending(struct lookup *lookup)
{
    char pending[SK_ORDER_JSON_SIZE];
    const struct sk_order_shown shown = {.id = lookup->order_id,
                                         .user = lookup->user,
                                         .voucher_id = lookup->pending_in,
                                         .quantity = lookup->pending_quantity,
                                         .status = "pending"};
    (void)sk_order_json(pending, &shown);
    lookup_show(lookup, pending, shown.status);
}

// Takes a place for searching further. False: none is free. Callers without a user have a token, and need none.
static bool lookup_take_place(struct lookup *lookup)
{
    const char **places = lookup->query.control->searches->users, **place = NULL;
    unsigned of_user = 0;
    if (lookup->place != NULL || lookup->user[0] == '\0')
        return true;
    for (size_t i = 0; i < SEARCHES_MAX; i++) {
        if (places[i] == NULL)
            place = &places[i];
        else
            of_user += strcmp(places[i], lookup->user) == 0;
    }
    if (place == NULL || of_user >= OF_USER_MAX)
        return false;
    *place = lookup->user;
    lookup->place = place;
    return true;
}

static void lookup_on_retired(void *arg, const struct sk_result *result)
{
    struct lookup *lookup = arg;
    enum sk_verdict verdict = SK_VERDICT_UNAVAILABLE;
    if (result->rows != NULL) {
        int64_t epoch = sk_rows_number(result->rows, 0, COLUMN_EPOCH); // 0: no retired voucher there
        const char *archived = sk_rows_text(result->rows, 0, COLUMN_ARCHIVED);
        if (archived != NULL && archived[0] == 't')
            verdict = SK_VERDICT_ARCHIVED;
        else if (epoch == 0 || !sk_order_id_may_be_away(lookup->order_id, epoch))
            verdict = SK_VERDICT_NOT_FOUND;
    }
    sk_query_end(&lookup->query, verdict, NULL);
}

// No voucher in the catalogue has the order. A retired one in the same slot may: Redis had lost the order, and a paused
// instance still holds it and will have it refused; or it was archived to a file.
static void lookup_ask_retired(struct lookup *lookup)
{
    char slot[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {sk_params_number(slot, sk_order_id_slot(lookup->order_id)), lookup->order_id};
    lookup_move(lookup, LOOKUP_RETIRED);
    sk_query_ask_pg(&lookup->query, SK_STATEMENT_RETIRED_EPOCH, 2, params, lookup_on_retired);
}

static void lookup_unpin(struct lookup *lookup)
{
    while (lookup->vouchers > 0)
        sk_voucher_unpin(lookup->asked[--lookup->vouchers].voucher);
}

static void lookup_find_vouchers(struct lookup *lookup);

static void lookup_on_followed(struct sk_query *query, bool ok)
{
    struct lookup *lookup = (struct lookup *)query;
    struct sk_voucher *newest =
        sk_catalogue_at_slot(query->control->sale->catalogue, sk_order_id_slot(lookup->order_id));
    lookup->followed = true;
    if (!ok) {
        sk_query_end(query, SK_VERDICT_UNAVAILABLE, NULL);
    } else if (lookup->vouchers > 0 && lookup->asked[0].voucher == newest) {
        lookup_ask_retired(lookup); // no new voucher in its slot
    } else {
        lookup_unpin(lookup);
        lookup->answered = 0;
        lookup_find_vouchers(lookup);
    }
}

static void lookup_follow(struct lookup *lookup)
{
    lookup_move(lookup, LOOKUP_FOLLOWING);
    sk_query_follow(&lookup->query, lookup_on_followed);
}

static void lookup_on_last_row(void *arg, const struct sk_result *result)
{
    struct lookup *lookup = arg;
    bool found = result->rows != NULL && sk_rows_count(result->rows) == 1;
    if (found)
        lookup_show(lookup, sk_rows_text(result->rows, 0, COLUMN_DOCUMENT),
                    sk_rows_text(result->rows, 0, COLUMN_STATUS));
    else if (result->rows != NULL && lookup->under_way)
        sk_query_end(&lookup->query, SK_VERDICT_PENDING, NULL);
    else if (result->rows == NULL || lookup->unsure)
        sk_query_end(&lookup->query, SK_VERDICT_UNAVAILABLE, NULL);
    else if (lookup->followed)
        lookup_ask_retired(lookup);
    else
        lookup_follow(lookup);
}

static void lookup_end_snapshots(struct lookup *lookup)
{
    if (lookup->pending_in != 0)
        lookup_show_pending(lookup);
    else if (lookup->step == LOOKUP_SNAPSHOTS_FAILED)
        sk_query_end(&lookup->query, SK_VERDICT_UNAVAILABLE, NULL);
    else
        lookup_ask_pg(lookup, LOOKUP_LAST_ROW, lookup_on_last_row);
}

static void lookup_on_snapshot(void *arg, const struct sk_reply *reply)
{
    struct lookup_voucher *one = arg;
    struct lookup *lookup = one->lookup;
    struct sk_snapshot seen, none = {0};
    if (reply == NULL || !sk_snapshot_read(reply, &seen))
        lookup_move(lookup, LOOKUP_SNAPSHOTS_FAILED);
    else if (one->account.voucher_id == 0 || sk_books_compare(&one->account, &none, &seen) != SK_BOOKS_AGREE ||
             sk_order_id_may_be_away(lookup->order_id, seen.epoch))
        lookup->unsure = true;
    else if (lookup->user[0] == '\0' && (seen.journal > 0 || seen.buyers > one->account.buyers))
        lookup->under_way = true;
    lookup_read_claim(one, sk_reply_at(reply, SK_SNAPSHOT_ORDER));
    if (++lookup->answered == lookup->vouchers)
        lookup_end_snapshots(lookup);
}

// The commands to Redis go out in one write; each reply knows its voucher.
static void lookup_on_accounts(void *arg, const struct sk_result *result)
{
    struct lookup *lookup = arg;
    const struct sk_sale *sale = lookup->query.control->sale;
    size_t asked = 0;
    if (result->rows == NULL) {
        sk_query_end(&lookup->query, SK_VERDICT_UNAVAILABLE, NULL);
        return;
    }
    for (size_t row = 0; row < sk_rows_count(result->rows); row++) {
        struct sk_account account;
        sk_account_read(result->rows, row, &account);
        for (size_t i = 0; i < lookup->vouchers; i++) {
            if (lookup->asked[i].voucher->id == account.voucher_id)
                lookup->asked[i].account = account;
        }
    }
    lookup_move(lookup, LOOKUP_SNAPSHOTS);
    for (; asked < lookup->vouchers; asked++) {
        struct lookup_voucher *one = &lookup->asked[asked];
        if (sk_snapshot_ask(sk_sale_ask_redis(sale, one->voucher), &one->voucher->keys, lookup->user,
                            lookup_on_snapshot, one) != SK_OK)
            break;
    }
    if (asked < lookup->vouchers)
        lookup_move(lookup, LOOKUP_SNAPSHOTS_FAILED);
    lookup->answered += lookup->vouchers - asked;
    if (lookup->answered == lookup->vouchers)
        lookup_end_snapshots(lookup);
}

static void lookup_search_further(struct lookup *lookup)
{
    struct sk_account_query query;
    if (!lookup_take_place(lookup)) {
        sk_query_end(&lookup->query, SK_VERDICT_OVERLOADED, NULL);
        return;
    }
    if (lookup->vouchers == 0) {
        if (lookup->followed)
            lookup_ask_retired(lookup);
        else
            lookup_follow(lookup);
        return;
    }
    lookup_move(lookup, LOOKUP_ACCOUNTS);
    sk_account_query_begin(&query);
    for (size_t i = 0; i < lookup->vouchers; i++)
        sk_account_query_add(&query, lookup->asked[i].voucher);
    if (!sk_account_query_end(&query))
        sk_query_end(&lookup->query, SK_VERDICT_OVERLOADED, NULL);
    else
        sk_query_ask_pg(&lookup->query, SK_STATEMENT_VOUCHER_ACCOUNTS, 2, query.params, lookup_on_accounts);
    sk_account_query_free(&query);
}

// A voucher whose reply cannot be read, or that was not asked about, is checked again.
static void lookup_on_claim(void *arg, const struct sk_reply *reply)
{
    struct lookup_voucher *one = arg;
    struct lookup *lookup = one->lookup;
    lookup_read_claim(one, reply);
    if (++lookup->answered < lookup->vouchers)
        return;
    lookup->answered = 0;
    if (lookup->pending_in != 0)
        lookup_show_pending(lookup);
    else
        lookup_search_further(lookup);
}

// The order's voucher may be newer than our catalogue.
static void lookup_find_vouchers(struct lookup *lookup)
{
    const struct sk_sale *sale = lookup->query.control->sale;
    struct sk_voucher *voucher = sk_catalogue_at_slot(sale->catalogue, sk_order_id_slot(lookup->order_id));
    size_t asked = 0;
    for (; voucher != NULL && lookup->vouchers < IN_SLOT_MAX; voucher = voucher->next_in_slot) {
        lookup->asked[lookup->vouchers++] = (struct lookup_voucher){.lookup = lookup, .voucher = voucher};
        sk_voucher_pin(voucher);
    }
    lookup->unsure = voucher != NULL; // there are more than are checked
    if (lookup->vouchers == 0 || lookup->followed || lookup->user[0] == '\0') {
        lookup_search_further(lookup);
        return;
    }
    lookup_move(lookup, LOOKUP_CLAIMS);
    for (; asked < lookup->vouchers; asked++) {
        struct lookup_voucher *one = &lookup->asked[asked];
        const char *argv[] = {"HGET", one->voucher->keys.buyers, lookup->user};
        if (sk_redis_command(sk_sale_ask_redis(sale, one->voucher), 3, argv, NULL, lookup_on_claim, one) != SK_OK)
            break;
    }
    lookup->answered += lookup->vouchers - asked;
    if (lookup->answered == lookup->vouchers)
        sk_query_end(&lookup->query, SK_VERDICT_UNAVAILABLE, NULL);
}

static void lookup_on_row(void *arg, const struct sk_result *result)
{
    struct lookup *lookup = arg;
    if (result->rows == NULL)
        sk_query_end(&lookup->query, SK_VERDICT_UNAVAILABLE, NULL);
    else if (sk_rows_count(result->rows) == 1)
        lookup_show(lookup, sk_rows_text(result->rows, 0, COLUMN_DOCUMENT),
                    sk_rows_text(result->rows, 0, COLUMN_STATUS));
    else
        lookup_find_vouchers(lookup);
}

static void lookup_start(struct sk_query *query)
{
    struct lookup *lookup = (struct lookup *)query;
    lookup->followed = lookup->unsure = lookup->under_way = false;
    lookup->pending_in = 0;
    lookup->vouchers = lookup->answered = 0;
    lookup_ask_pg(lookup, LOOKUP_FIRST_ROW, lookup_on_row);
}

static void lookup_release(struct sk_query *query)
{
    struct lookup *lookup = (struct lookup *)query;
    lookup_unpin(lookup);
    if (lookup->place != NULL)
        *lookup->place = NULL;
    lookup->place = NULL;
    lookup_move(lookup, LOOKUP_IDLE);
}

void sk_order_lookup(struct sk_control *control, enum sk_lookup_for what, const char *order_id, const char *user,
                     uint64_t handle)
{
    static const char *const names[] = {
        [SK_LOOKUP_FOR_USER] = "order", [SK_LOOKUP_FOR_MOVE] = "move", [SK_LOOKUP_FOR_REPEAT] = "repeat"};
    char key[SK_QUERY_KEY_SIZE];
    enum sk_pg_class class = user[0] == '\0'              ? SK_PG_COMMANDS
                             : what == SK_LOOKUP_FOR_MOVE ? SK_PG_MOVES
                                                          : SK_PG_QUERIES;
    (void)snprintf(key, sizeof key, "%s:%s:%s", names[what], order_id, user);
    struct lookup *lookup = sk_query_new(control, class, handle, key, sizeof *lookup, lookup_start);
    if (lookup == NULL)
        return;
    lookup->query.release = lookup_release;
    lookup->what = what;
    (void)snprintf(lookup->order_id, sizeof lookup->order_id, "%s", order_id);
    (void)snprintf(lookup->user, sizeof lookup->user, "%s", user);
    sk_query_start(&lookup->query);
}

// ---- the call: an order, at once or after its next change ----

// False: the request was refused.
static bool order_read_wait(const struct sk_context *context, struct sk_request *request)
{
    struct sk_call *call = sk_call_of(request);
    call->only_while = sk_request_query(request, "while", NULL);
    if (!sk_call_read_wait(context, request))
        return false;
    if (call->only_while != NULL && !sk_waiting_may_change(call->only_while))
        return sk_answer_parameter(context->answers, request, "while", "must be pending, waiting or unpaid");
    if (call->only_while != NULL && sk_request_query(request, "wait", NULL) == NULL)
        return sk_answer_parameter(context->answers, request, "while", "needs wait");
    return true;
}

// The order has not changed in time: it is read once more.
static void order_on_overtime(const struct sk_context *context, struct sk_request *request)
{
    if (context->control == NULL) {
        sk_answer_refusal(context->answers, request, SK_VERDICT_UNAVAILABLE);
        return;
    }
    sk_call_of(request)->on_expired = NULL;
    sk_waiting_over(context->control->waiting, request->handle);
    sk_request_extend(request, context->stores_ms);
}

static void order_on_gone(const struct sk_context *context, struct sk_request *request)
{
    sk_waiting_leave(context->control->waiting, request->handle);
}

// Answers at once if there is nothing to wait for, or no memory.
static void order_on_answer(const struct sk_context *context, struct sk_request *request,
                            const struct sk_answer *answer)
{
    struct sk_call *call = sk_call_of(request);
    const char *status = answer->verdict == SK_VERDICT_FOUND ? answer->status : NULL;
    bool waits = status != NULL && !context->draining &&
                 (call->only_while == NULL ? sk_waiting_may_change(status) : strcmp(status, call->only_while) == 0);
    if (!waits || !sk_waiting_add(context->control->waiting, call->order_id, call->user, status, request->handle)) {
        sk_answer_send(context->answers, request, answer);
        return;
    }
    call->on_answer = NULL;
    call->on_expired = order_on_overtime;
    call->on_gone = order_on_gone;
    sk_request_park(request, call->wait_s * UINT64_C(1000));
}

void sk_handle_order(const struct sk_context *context, struct sk_request *request)
{
    struct sk_call *call = sk_call_of(request);
    if (!order_read_wait(context, request))
        return;
    if (call->wait_s > 0) {
        if (!sk_call_hold(context, request))
            return;
        call->on_answer = order_on_answer;
    }
    sk_order_lookup(context->control, SK_LOOKUP_FOR_USER, call->order_id, call->user, request->handle);
}
