#include "people.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "about.h"
#include "admin_lists.h"
#include "answer.h"
#include "creation.h"
#include "cursor.h"
#include "instance.h"
#include "judge.h"
#include "moves.h"
#include "operation.h"
#include "order_lookup.h"
#include "page.h"
#include "plan.h"
#include "purchase.h"
#include "settlement_report.h"
#include "stores.h"
#include "user_orders.h"
#include "verdict.h"
#include "vouchers.h"
#include "waiting.h"
#include "witness.h"
#include "world.h"

enum { FEED_MAX = 4096, FEED_PAGE = 7, FEED_EVERY_MS = 700, FEED_TEXT = 64, CREATE_CALLS_MAX = 300 };
enum { LINE_MOST = 2 }; // so many may wait in a line
enum { ORDERS_FEW = 64, PATIENCE_MS = 4000, RETRY_MS = 300, POLL_MS = 1500 };

static struct {
    struct call calls[CALLS_MAX];
    size_t called;
    struct sold vouchers[VOUCHERS_MAX];
    const struct plan *plan;
    unsigned newcomers;
    struct {
        char cursor[SK_CURSOR_SIZE]; // "": at the beginning
        const char *events[FEED_MAX], *statuses[FEED_MAX];
        size_t count;
    } feed;
    bool damaged; // somebody has deleted who the buyers are: Redis cannot know them until an audit finds that
} people;

static void people_on_result(void *arg, uint64_t handle, const struct sk_purchase_result *result);
static void people_on_answer(void *arg, uint64_t handle, const struct sk_answer *answer);
static void people_create(void *arg);

const char *people_kind(enum call_kind kind)
{
    static const char *const names[CALL_KINDS] = {
        "create",   "buy",   "pay",     "extend",    "cancel", "refund",  "look",    "repeated",   "wait",
        "list",     "pause", "resume",  "close",     "stock",  "price",   "rebuild", "settlement", "voucher",
        "vouchers", "lists", "requeue", "write-off", "hold",   "release", "feed"};
    return names[kind];
}

size_t people_calls(void)
{
    return people.called;
}

const struct call *people_call(size_t i)
{
    return &people.calls[i];
}

void people_reference(const struct call *call, char out[REFERENCE_SIZE])
{
    size_t number = call->repeats != 0 ? call->repeats : (size_t)(call - people.calls) + 1;
    (void)snprintf(out, REFERENCE_SIZE, "key-%zu", number);
}

size_t people_vouchers(void)
{
    return people.plan->voucher_count;
}

const struct sold *people_voucher(size_t i)
{
    return &people.vouchers[i];
}

void people_key(int64_t voucher, const char *part, char out[PEOPLE_KEY_SIZE])
{
    int64_t first = people.plan->scope ? people.vouchers[0].id : voucher; // its tag
    if (first == voucher)
        (void)snprintf(out, PEOPLE_KEY_SIZE, "seckill:{%" PRId64 "}:%s", voucher, part);
    else
        (void)snprintf(out, PEOPLE_KEY_SIZE, "seckill:{%" PRId64 "}{%" PRId64 "}:%s", first, voucher, part);
}

void people_forget_buyers(void)
{
    people.damaged = true;
}

bool people_buyers_forgotten(void)
{
    return people.damaged;
}

bool people_instance_died(const struct call *call)
{
    const struct instance *instance = instance_at(call->instance);
    return instance_state(instance) == INSTANCE_OFF || instance_life(instance) != call->life;
}

bool people_wait(void)
{
    for (size_t i = 0; i < people.called; i++) {
        if (people.calls[i].outcome == CALL_WAITS)
            return true;
    }
    return false;
}

void people_open(const struct plan *plan)
{
    const struct instance_events events = {people_on_result, people_on_answer};
    people.plan = plan;
    instances_open(plan->instances, plan->orders_max, &events);
    for (size_t i = 0; i < plan->voucher_count; i++) {
        const struct plan_voucher *one = &plan->vouchers[i];
        people.vouchers[i] = (struct sold){0, one->stock, one->price_cents, one->limit, 0};
    }
}

// ---- answers ----

static void people_tell(const struct call *call)
{
    static const char *const outcomes[] = {"waits", "done", "taken", "refused", "unknown"};
    world_tell("#%zu %s: %s %s %s", (size_t)(call - people.calls), people_kind(call->kind), outcomes[call->outcome],
               call->code, call->order_id);
}

// Another instance may refuse for a moment what is granted again while the sale is paused (lua/shared/voucher.lua).
static bool people_refuses(const struct call *call, const struct call *bought)
{
    static const char *const always[] = {"SOLD_OUT", "NOT_ENOUGH"}, *const by_terms[] = {"ENDED", "PAUSED",
                                                                                         "NOT_STARTED"};
    bool refused = false,
         judges_terms = !witness_clocks_differed() && (!stores_redis_harmed() || call->instance == bought->instance);
    for (size_t i = 0; i < 2; i++)
        refused = refused || strcmp(call->code, always[i]) == 0;
    for (size_t i = 0; i < 3 && judges_terms; i++)
        refused = refused || strcmp(call->code, by_terms[i]) == 0;
    return refused;
}

// P6: a user who knows of a live order is not refused as sold out. Nor is the repeat of a purchase, whatever became of
// its order, until the sale is retired: here that comes long before a day is over.
static void people_check_refusal(const struct call *call)
{
    if (call->kind == CALL_BUY && strcmp(call->code, "UNKNOWN_VOUCHER") == 0)
        world_fail("#%zu was told that the voucher does not exist", (size_t)(call - people.calls));
    if (people.damaged || call->kind != CALL_BUY || call->outcome != CALL_REFUSED)
        return;
    for (size_t i = 0; i < people.called; i++) {
        const struct call *other = &people.calls[i];
        bool waited = strcmp(call->code, "WAITLIST_FULL") == 0 && strcmp(other->code, "WAITING") == 0 &&
                      other->voucher == call->voucher && strcmp(other->user, call->user) == 0 &&
                      other->ended_at <= call->asked_at;
        if (waited && judge_is_open(other->order_id))
            world_fail("P6: #%zu was told %s, and waits with order %s", (size_t)(call - people.calls), call->code,
                       other->order_id);
        bool same = other->kind == CALL_BUY && strcmp(other->code, "WAITING") != 0 && other->voucher == call->voucher &&
                    strcmp(other->user, call->user) == 0 && other->ended_at <= call->asked_at &&
                    (other->outcome == CALL_DONE || other->outcome == CALL_TAKEN) && people_refuses(call, other);
        if (same && judge_is_live(other->order_id))
            world_fail("P6: #%zu was told %s, and has order %s", (size_t)(call - people.calls), call->code,
                       other->order_id);
        if (same && !witness_may_retire(people.vouchers[call->voucher].id) && call->key != 0 &&
            call->key == other->key && call->quantity == other->quantity)
            world_fail("#%zu was told %s, and repeats #%zu, which got order %s", (size_t)(call - people.calls),
                       call->code, i, other->order_id);
    }
}

// An order costs what its buyer was told.
static void people_check_price(const struct call *call)
{
    for (size_t i = 0; i < people.called && call->price_cents >= 0; i++) {
        const struct call *other = &people.calls[i];
        if (other->price_cents >= 0 && other->price_cents != call->price_cents &&
            strcmp(other->order_id, call->order_id) == 0)
            world_fail("#%zu was told that order %s costs %" PRId64 ", and #%zu that it costs %" PRId64,
                       (size_t)(call - people.calls), call->order_id, call->price_cents, i, other->price_cents);
    }
}

static void people_end(struct call *call, enum call_outcome outcome, const char *code)
{
    call->outcome = outcome;
    call->ended_at = world_now();
    world_met("answer %s %s", people_kind(call->kind), code);
    (void)snprintf(call->code, sizeof call->code, "%s", code);
    people_tell(call);
    people_check_refusal(call);
    people_check_price(call);
    if (outcome == CALL_DONE || strcmp(code, "WAITING") == 0) // a join is committed
        judge_done(call, (size_t)(call - people.calls));
    else if (outcome == CALL_UNKNOWN)
        judge_unknown(call, (size_t)(call - people.calls));
}

static void people_on_patience_over(void *arg)
{
    struct call *call = arg;
    if (call->outcome == CALL_WAITS)
        people_end(call, CALL_UNKNOWN, "no answer");
}

static enum call_outcome people_outcome(enum sk_verdict verdict)
{
    unsigned status = sk_verdict_http_status(verdict);
    return status < 300 ? CALL_DONE : status >= 500 ? CALL_UNKNOWN : CALL_REFUSED;
}

static void people_take_result(struct call *call, const struct sk_purchase_result *result)
{
    enum sk_verdict verdict = sk_verdict_of_purchase(result->code);
    if (call->outcome != CALL_WAITS)
        return;
    if (result->order_id != NULL)
        (void)snprintf(call->order_id, sizeof call->order_id, "%s", result->order_id);
    if (result->price != NULL)
        call->price_cents = result->price->cents;
    if (result->code == SK_PURCHASE_ACCEPTED) {
        if (call->low_priority)
            people_end(call, CALL_TAKEN, "ACCEPTED");
        return;
    }
    if (result->code == SK_PURCHASE_PLACED && people.vouchers[call->voucher].epoch == 0)
        people.vouchers[call->voucher].epoch = judge_epoch(people.vouchers[call->voucher].id);
    people_end(call, result->code == SK_PURCHASE_WAITING ? CALL_TAKEN : people_outcome(verdict),
               sk_verdict_code(verdict));
}

static void people_on_result(void *arg, uint64_t handle, const struct sk_purchase_result *result)
{
    (void)arg;
    people_take_result(&people.calls[handle - 1], result);
}

// A page is one step: what it has is read, and the cursor moves.
static void people_take_feed(const struct sk_answer *answer)
{
    json_t *page = json_loads(answer->body, 0, NULL), *event;
    size_t i;
    json_array_foreach(json_object_get(page, "events"), i, event)
    {
        char *text = world_alloc(FEED_TEXT);
        const char *order_id = json_string_value(json_object_get(event, "order_id"));
        (void)snprintf(text, FEED_TEXT, "%s %s",
                       order_id == NULL ? json_string_value(json_object_get(event, "voucher_id")) : order_id,
                       json_string_value(json_object_get(event, "event")));
        if (people.feed.count == FEED_MAX)
            world_fail("the feed does not end");
        const char *status = json_string_value(json_object_get(event, "status"));
        people.feed.statuses[people.feed.count] = status == NULL ? "" : world_copy(status);
        people.feed.events[people.feed.count++] = text;
    }
    const char *next = json_string_value(json_object_get(page, "next"));
    if (next == NULL)
        world_fail("the feed has no next page");
    (void)snprintf(people.feed.cursor, sizeof people.feed.cursor, "%s", next);
    json_decref(page);
}

const char *people_feed_status(const char *order_id)
{
    const char *last = NULL;
    for (size_t i = 0; i < people.feed.count; i++)
        last = strncmp(people.feed.events[i], order_id, SK_UUID_CHARS) == 0 ? people.feed.statuses[i] : last;
    return last;
}

size_t people_feed(const char ***events)
{
    *events = people.feed.events;
    return people.feed.count;
}

static int64_t people_read_price(const char *order)
{
    json_t *json = json_loads(order, 0, NULL), *price = json_object_get(json, "price_cents");
    int64_t cents = price == NULL ? -1 : json_integer_value(price);
    json_decref(json);
    return cents;
}

static void people_on_answer(void *arg, uint64_t handle, const struct sk_answer *answer)
{
    struct call *call = &people.calls[handle - 1];
    (void)arg;
    if (call->outcome != CALL_WAITS)
        return;
    if (call->kind == CALL_CREATE && answer->verdict == SK_VERDICT_CREATED) {
        const char *id = strstr(answer->body, "\"id\":");
        people.vouchers[call->voucher].id = id == NULL ? 0 : strtoll(id + 5 + strspn(id + 5, " \""), NULL, 10);
    }
    if (call->kind == CALL_FEED && answer->verdict == SK_VERDICT_FOUND)
        people_take_feed(answer);
    if (call->kind == CALL_LOOK && answer->verdict == SK_VERDICT_FOUND)
        call->price_cents = people_read_price(answer->body);
    if (answer->status != NULL)
        (void)snprintf(call->status, sizeof call->status, "%s", answer->status);
    people_end(call, people_outcome(answer->verdict), sk_verdict_code(answer->verdict));
}

// ---- calls ----

struct asking {
    struct call *call;
    struct instance *instance;
};

static struct sk_terms people_terms(size_t number)
{
    const struct plan_voucher *voucher = &people.plan->vouchers[number];
    int64_t now = world_wall() / MS;
    return (struct sk_terms){.title = "a voucher",
                             .currency = "CNY",
                             .stock = voucher->stock,
                             .price_cents = voucher->price_cents,
                             .begin_ms = now + voucher->begins_ms,
                             .end_ms = now + voucher->ends_ms,
                             .user_limit = voucher->limit,
                             .scope = people.plan->scope && number > 0 ? people.vouchers[0].id : 0,
                             .orders_per_user = people.plan->orders_max < ORDERS_FEW ? 3 : 20,
                             .extend_s = 3,
                             .waitlist = voucher->stock == 1 || voucher->stock == 3 ? LINE_MOST : 0,
                             .pay_within_s = voucher->pay_within_s};
}

static void people_list(struct sk_control *control, const struct call *call, int64_t voucher, uint64_t handle)
{
    const struct sk_page_asked page = {.limit = 20};
    const struct sk_order_filter filter = {.voucher_id = voucher};
    switch (handle % 10) {
    case 0:
        sk_list_all_orders(control, &filter, &page, handle);
        break;
    case 1:
        sk_list_payments(control, voucher, &page, handle);
        break;
    case 2:
        sk_list_to_refund(control, call->units > 2 ? voucher : 0, &page, handle);
        break;
    case 3:
        (call->units > 2 ? sk_list_webhooks : sk_list_troubles)(control, handle);
        break;
    case 4:
        sk_list_admin_events(control, voucher, &page, handle);
        break;
    case 5:
        sk_list_order_events(control, &page, 3, NULL, handle);
        break;
    case 6:
        sk_list_admin_vouchers(control, NULL, "vouch", &page, handle);
        break;
    case 7:
        sk_list_dead_letters(control, voucher, &page, handle);
        break;
    case 8:
        sk_list_instances(control, handle);
        break;
    default:
        sk_find_payment(control, "key-1", handle);
    }
}

static void people_stop_waiting(void *arg)
{
    const struct asking *asking = arg;
    if (asking->call->outcome == CALL_WAITS && instance_life(asking->instance) == asking->call->life)
        sk_waiting_over(instance_control(asking->instance)->waiting, (uint64_t)(asking->call - people.calls) + 1);
}

static void people_on_time_over(void *arg)
{
    const struct asking *asking = arg;
    if (!instance_drains(asking->instance))
        (void)instance_run(asking->instance, people_stop_waiting, arg);
}

// As the long poll of an order that was found unpaid.
static void people_wait_for(struct sk_control *control, struct asking *asking, uint64_t handle)
{
    struct call *call = asking->call;
    if (!sk_waiting_add(control->waiting, call->order_id, call->user, call->units < 4 ? "unpaid" : "pending", handle))
        people_end(call, CALL_UNKNOWN, "OVERLOADED");
    else
        world_at(world_now() + (uint64_t)POLL_MS * MS, people_on_time_over, asking);
}

static void people_ask_as(struct sk_control *control, struct asking *asking, uint64_t handle)
{
    struct call *call = asking->call;
    const struct sold *voucher = &people.vouchers[call->voucher];
    char key[REFERENCE_SIZE];
    people_reference(call, key);
    const struct sk_operation operation = {
        .voucher_id = voucher->id, .key = key, .by = "sim", .if_match = call->kind == CALL_PRICE ? call->units / 2 : 0};
    const struct sk_page_asked page = {.limit = 20};
    const struct sk_page_asked feed = {FEED_PAGE, people.feed.cursor[0] == '\0' ? NULL : people.feed.cursor};
    struct sk_terms terms;
    struct sk_purchase_result result;
    const struct sk_wish wish = {.voucher_id = voucher->id,
                                 .user = call->user,
                                 .quantity = call->quantity,
                                 .key = call->key,
                                 .low_priority = call->low_priority,
                                 .waits = call->waits,
                                 .ticket = SK_ASK_TICKETS_OFF};
    const struct sk_payment payment = {
        .reference = key, .amount_cents = voucher->price_cents * call->quantity, .currency = "CNY"};
    const struct sk_extension extension = {.reference = key, .extend_s = call->units};
    const struct sk_refund refund = {call->units > 2, NULL, NULL};
    switch (call->kind) {
    case CALL_CREATE:
        terms = people_terms(call->voucher);
        (void)snprintf(key, sizeof key, "create-%zu", call->voucher);
        sk_create_voucher(control, key, "sim", &terms, handle);
        break;
    case CALL_BUY:
        if (!sk_purchase(control, &wish, handle, &result))
            people_take_result(call, &result);
        break;
    case CALL_PAY:
        sk_move_pay(control, call->order_id, "", &payment, "sim", handle);
        break;
    case CALL_EXTEND:
        sk_move_extend(control, call->order_id, &extension, "sim", handle);
        break;
    case CALL_CANCEL:
        sk_move_cancel(control, call->order_id, call->user, handle);
        break;
    case CALL_REFUND:
        sk_move_refund(control, call->order_id, &refund, "sim", handle);
        break;
    case CALL_LOOK:
        sk_order_lookup(control, SK_LOOKUP_FOR_USER, call->order_id, call->user, handle);
        break;
    case CALL_REPEATED:
        sk_order_lookup(control, SK_LOOKUP_FOR_REPEAT, call->order_id, call->user, handle);
        break;
    case CALL_WAIT:
        people_wait_for(control, asking, handle);
        break;
    case CALL_REBUILD:
        sk_operate_rebuild(control, voucher->id, handle);
        break;
    case CALL_REQUEUE:
        sk_decide_dead_letter(control, voucher->id, call->units + 1, false, handle);
        break;
    case CALL_WRITE_OFF:
        sk_decide_dead_letter(control, voucher->id, call->units + 1, true, handle);
        break;
    case CALL_LIST:
        sk_user_orders(control, SK_PG_QUERIES, call->user, &page, handle);
        break;
    case CALL_HOLD:
    case CALL_RELEASE:
        sk_operate_expiry(control, call->units > 3 ? 0 : voucher->id, call->kind == CALL_HOLD, "sim", handle);
        break;
    case CALL_PAUSE:
        sk_operate_state(control, &operation, SK_VOUCHER_PAUSED, handle);
        break;
    case CALL_RESUME:
        sk_operate_state(control, &operation, SK_VOUCHER_OPEN, handle);
        break;
    case CALL_CLOSE:
        sk_operate_state(control, &operation, SK_VOUCHER_CLOSED, handle);
        break;
    case CALL_ADD:
        sk_operate_stock(control, &operation, call->units, handle);
        break;
    case CALL_PRICE:
        terms = (struct sk_terms){.begin_ms = SK_TERM_AS_IT_IS,
                                  .end_ms = SK_TERM_AS_IT_IS,
                                  .price_cents = call->units,
                                  .user_limit = SK_TERM_AS_IT_IS,
                                  .orders_per_user = SK_TERM_AS_IT_IS,
                                  .extend_s = SK_TERM_AS_IT_IS,
                                  .pay_within_s = SK_TERM_AS_IT_IS,
                                  .ticket = SK_TERM_AS_IT_IS,
                                  .work_bits = SK_TERM_AS_IT_IS,
                                  .more_ms = SK_TERM_AS_IT_IS,
                                  .waitlist = SK_TERM_AS_IT_IS};
        sk_operate_change(control, &operation, &terms, handle);
        break;
    case CALL_SETTLEMENT:
        sk_settlement_report(control, voucher->id, SK_REPORT_JSON, handle);
        break;
    case CALL_VOUCHER:
        if (call->units > 2)
            sk_inspect_voucher(control, voucher->id, handle);
        else
            sk_show_voucher(control, voucher->id, handle);
        break;
    case CALL_VOUCHERS:
        sk_list_vouchers(control, &page, handle);
        break;
    case CALL_LISTS:
        people_list(control, call, voucher->id, handle);
        break;
    case CALL_FEED:
        sk_list_order_events(control, &feed, 0, NULL, handle);
        break;
    default:
        world_fail("no such call");
    }
}

static void people_run(void *arg)
{
    struct asking *asking = arg;
    if (instance_drains(asking->instance)) // SHUTTING_DOWN
        people_end(asking->call, CALL_UNKNOWN, "draining");
    else
        people_ask_as(instance_control(asking->instance), asking, (uint64_t)(asking->call - people.calls) + 1);
}

// One of those that are not off.
static struct instance *people_choose(unsigned which)
{
    struct instance *on[INSTANCES_MAX];
    size_t count = 0;
    for (size_t i = 0; i < instances_count(); i++) {
        if (instance_state(instance_at(i)) != INSTANCE_OFF)
            on[count++] = instance_at(i);
    }
    return count == 0 ? NULL : on[which % count];
}

static struct call *people_new(enum call_kind kind, size_t voucher)
{
    if (people.called == CALLS_MAX)
        return NULL;
    struct call *call = &people.calls[people.called++];
    *call = (struct call){.kind = kind, .voucher = voucher, .quantity = 1, .asked_at = world_now(), .price_cents = -1};
    return call;
}

static size_t people_make(struct call *call, unsigned which)
{
    struct asking *asking = world_alloc(sizeof *asking);
    size_t number = (size_t)(call - people.calls);
    *asking = (struct asking){call, people_choose(which)};
    world_tell("#%zu %s at %c: voucher %zu user %s units %u order %s", number, people_kind(call->kind),
               asking->instance == NULL ? '-' : instance_letter(asking->instance), call->voucher, call->user,
               call->quantity, call->order_id);
    world_at(world_now() + (uint64_t)PATIENCE_MS * MS, people_on_patience_over, call);
    if (asking->instance != NULL) {
        call->instance = (size_t)(instance_letter(asking->instance) - 'A');
        call->life = instance_life(asking->instance);
    }
    if (asking->instance == NULL || !instance_run(asking->instance, people_run, asking)) {
        if (call->outcome == CALL_WAITS)
            people_end(call, CALL_UNKNOWN, "nobody there");
    }
    return number;
}

void people_read_feed(void)
{
    for (size_t i = 0; i < people.called; i++) {
        if (people.calls[i].kind == CALL_FEED && people.calls[i].outcome == CALL_WAITS)
            return; // one page at a time
    }
    struct call *call = people_new(CALL_FEED, 0);
    if (call != NULL)
        (void)people_make(call, (unsigned)people.called);
}

static void people_follow_feed(void *arg)
{
    people_read_feed();
    world_at(world_now() + (uint64_t)FEED_EVERY_MS * MS, people_follow_feed, arg);
}

size_t people_try(size_t voucher)
{
    struct call *call = people_new(CALL_BUY, voucher);
    if (call == NULL)
        world_fail("too many calls");
    (void)snprintf(call->user, sizeof call->user, "new%u", ++people.newcomers);
    return people_make(call, people.newcomers);
}

size_t people_look(size_t bought, bool stranger)
{
    const struct call *about = &people.calls[bought];
    struct call *call = people_new(CALL_LOOK, about->voucher);
    if (call == NULL)
        world_fail("too many calls");
    (void)snprintf(call->user, sizeof call->user, "%s", stranger ? "stranger" : about->user);
    memcpy(call->order_id, about->order_id, sizeof call->order_id);
    return people_make(call, (unsigned)people.called);
}

void people_write_off_all(void)
{
    for (size_t voucher = 0; voucher < people.plan->voucher_count; voucher++) {
        for (int64_t letter = judge_letter(voucher); letter > 0; letter = 0) {
            struct call *call = people_new(CALL_WRITE_OFF, voucher);
            if (call == NULL)
                return;
            call->units = letter - 1;
            (void)people_make(call, (unsigned)people.called);
        }
    }
}

// ---- what they do ----

// The order of one of the purchases so far, or NULL.
static const struct call *people_some_order(unsigned which)
{
    for (size_t i = 0; i < people.called; i++) {
        const struct call *call = &people.calls[(which + i) % people.called];
        if (call->kind == CALL_BUY && call->order_id[0] != '\0')
            return call;
    }
    return NULL;
}

static bool people_is_about_order(enum call_kind kind)
{
    return kind == CALL_PAY || kind == CALL_EXTEND || kind == CALL_CANCEL || kind == CALL_REFUND || kind == CALL_LOOK ||
           kind == CALL_REPEATED || kind == CALL_WAIT;
}

// The newest call of that kind about that order; 0: none.
static size_t people_earlier(enum call_kind kind, const char *order_id)
{
    for (size_t i = people.called; i-- > 0;) {
        const struct call *call = &people.calls[i];
        if (call->kind == kind && strcmp(call->order_id, order_id) == 0)
            return call->repeats != 0 ? call->repeats : i + 1;
    }
    return 0;
}

static void people_act(void *arg)
{
    const struct plan_act *act = arg;
    size_t voucher = act->voucher % people.plan->voucher_count;
    const struct call *about = people_is_about_order(act->kind) ? people_some_order(act->about) : NULL;
    if (people.vouchers[voucher].id == 0)
        return;
    enum call_kind kind = people_is_about_order(act->kind) && about == NULL ? CALL_BUY : act->kind;
    size_t earlier =
        (kind == CALL_PAY || kind == CALL_EXTEND) && act->key != 0 ? people_earlier(kind, about->order_id) : 0;
    struct call *call = people_new(kind, about == NULL ? voucher : about->voucher);
    if (call == NULL)
        return;
    call->units = act->units;
    call->repeats = earlier;
    if (about != NULL) {
        memcpy(call->user, about->user, sizeof call->user);
        memcpy(call->order_id, about->order_id, sizeof call->order_id);
        call->quantity = about->quantity;
    } else {
        (void)snprintf(call->user, sizeof call->user, "u%u", act->user);
        call->quantity = kind == CALL_BUY ? 1 + act->quantity % people.vouchers[voucher].limit : 1;
        call->low_priority = kind == CALL_BUY && act->low_priority;
        call->key = kind == CALL_BUY ? act->key : 0;
        call->waits = kind == CALL_BUY && call->quantity == 1 && act->about % 2 == 0;
    }
    (void)people_make(call, act->instance);
}

static void people_create(void *arg)
{
    size_t voucher = (size_t)((struct sold *)arg - people.vouchers);
    if (people.vouchers[voucher].id != 0 || people.called > CREATE_CALLS_MAX)
        return;
    struct instance *first = instance_at(0);
    bool may = voucher == 0 || !people.plan->scope || people.vouchers[0].id != 0;
    struct call *call = may && instance_ready(first) ? people_new(CALL_CREATE, voucher) : NULL;
    if (call != NULL)
        (void)people_make(call, 0);
    world_at(world_now() + (uint64_t)RETRY_MS * MS, people_create, arg);
}

void people_begin(void)
{
    const struct plan *plan = people.plan;
    if (plan->reader)
        world_at(world_now() + (uint64_t)FEED_EVERY_MS * MS, people_follow_feed, NULL);
    for (size_t i = 0; i < plan->voucher_count; i++)
        world_at(world_now() + MS, people_create, &people.vouchers[i]);
    for (size_t i = 0; i < plan->act_count; i++)
        world_at(plan->acts[i].at_ms * MS, people_act, (void *)&plan->acts[i]);
}
