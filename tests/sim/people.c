#include "people.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin_lists.h"
#include "answer.h"
#include "instance.h"
#include "judge.h"
#include "moves.h"
#include "operate.h"
#include "orders.h"
#include "page.h"
#include "purchase.h"
#include "report.h"
#include "vouchers.h"
#include "world.h"

enum { FEED_MAX = 1024, FEED_PAGE = 5, FEED_EVERY_MS = 700, FEED_TEXT = 64, CREATE_CALLS_MAX = 300 };
enum { PATIENCE_MS = 4000, RETRY_MS = 300 };

static struct {
    struct call calls[CALLS_MAX];
    size_t called;
    struct sold vouchers[VOUCHERS_MAX];
    size_t vouchers_count, users;
    unsigned newcomers;
    uint64_t skipped;
    struct {
        char cursor[SK_CURSOR_SIZE]; // "": at the beginning
        const char *events[FEED_MAX];
        size_t count;
    } feed;
    bool closing; // some end in the middle
    bool damaged; // somebody has deleted who the buyers are: Redis cannot know them until an audit finds that
} people;

static void people_on_result(void *arg, uint64_t handle, const struct sk_purchase_result *result);
static void people_on_answer(void *arg, uint64_t handle, const struct sk_answer *answer);
static void people_create(void *arg);

const char *people_kind(enum call_kind kind)
{
    static const char *const names[CALL_KINDS] = {"create",     "buy",     "pay",      "cancel", "refund", "look",
                                                  "list",       "pause",   "resume",   "close",  "stock",  "price",
                                                  "settlement", "voucher", "vouchers", "lists",  "feed"};
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

size_t people_vouchers(void)
{
    return people.vouchers_count;
}

const struct sold *people_voucher(size_t i)
{
    return &people.vouchers[i];
}

void people_skip(uint64_t acts)
{
    people.skipped = acts;
}

void people_forget_buyers(void)
{
    people.damaged = true;
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

void people_open(void)
{
    const struct instance_events events = {people_on_result, people_on_answer};
    instances_open(world_between(1, INSTANCES_MAX), &events);
    people.vouchers_count = world_between(1, VOUCHERS_MAX);
    people.users = world_between(2, USERS_MAX);
    people.closing = world_chance(300);
    for (size_t i = 0; i < people.vouchers_count; i++)
        people.vouchers[i] = (struct sold){0, (int64_t)world_between(1, 5), (int64_t)world_between(0, 3),
                                           (unsigned)world_between(1, 3), 0};
}

// ---- answers ----

static void people_tell(const struct call *call)
{
    static const char *const outcomes[] = {"waits", "done", "taken", "refused", "unknown"};
    world_tell("#%zu %s: %s %s %s", (size_t)(call - people.calls), people_kind(call->kind), outcomes[call->outcome],
               call->code, call->order_id);
}

// P6: a user who knows of a live order is not refused as sold out.
static void people_check_refusal(const struct call *call)
{
    if (people.damaged || call->kind != CALL_BUY ||
        (strcmp(call->code, "SOLD_OUT") != 0 && strcmp(call->code, "NOT_ENOUGH") != 0))
        return;
    for (size_t i = 0; i < people.called; i++) {
        const struct call *other = &people.calls[i];
        if (other->kind == CALL_BUY && other->voucher == call->voucher && strcmp(other->user, call->user) == 0 &&
            (other->outcome == CALL_DONE || other->outcome == CALL_TAKEN) && other->ended_at <= call->asked_at &&
            judge_is_live(other->order_id))
            world_fail("P6: #%zu was told %s, and has order %s", (size_t)(call - people.calls), call->code,
                       other->order_id);
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
    if (result->code == SK_PURCHASE_ACCEPTED) {
        if (call->low_priority)
            people_end(call, CALL_TAKEN, "ACCEPTED");
        return;
    }
    if (result->code == SK_PURCHASE_PLACED && people.vouchers[call->voucher].epoch == 0)
        people.vouchers[call->voucher].epoch = judge_epoch(people.vouchers[call->voucher].id);
    people_end(call, people_outcome(verdict), sk_verdict_code(verdict));
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
        bool moved = strcmp(json_string_value(json_object_get(event, "type")), "moved") == 0;
        (void)snprintf(text, FEED_TEXT, "%s %s", json_string_value(json_object_get(event, "order_id")),
                       moved ? json_string_value(json_object_get(event, "status")) : "noted");
        if (people.feed.count == FEED_MAX)
            world_fail("the feed does not end");
        people.feed.events[people.feed.count++] = text;
    }
    const char *next = json_string_value(json_object_get(page, "next"));
    if (next == NULL)
        world_fail("the feed has no next page");
    (void)snprintf(people.feed.cursor, sizeof people.feed.cursor, "%s", next);
    json_decref(page);
}

size_t people_feed(const char ***events)
{
    *events = people.feed.events;
    return people.feed.count;
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
    people_end(call, people_outcome(answer->verdict), sk_verdict_code(answer->verdict));
}

// ---- calls ----

struct asking {
    struct call *call;
    struct instance *instance;
};

static struct sk_terms people_terms(const struct sold *voucher)
{
    int64_t now = world_wall() / MS;
    return (struct sk_terms){.title = "a voucher",
                             .currency = "CNY",
                             .stock = voucher->stock,
                             .price_cents = voucher->price_cents,
                             .begin_ms = now - (int64_t)world_roll(2) * 1000 + 500,
                             .end_ms = now + (people.closing ? (int64_t)world_between(2000, 9000) : 3600000),
                             .user_limit = voucher->limit,
                             .pay_within_s = (int64_t)world_roll(3)};
}

static void people_list(struct sk_control *control, int64_t voucher, const struct sk_page_asked *page, uint64_t handle)
{
    const struct sk_order_filter filter = {.voucher_id = voucher};
    switch (handle % 6) {
    case 0:
        sk_list_all_orders(control, &filter, page, handle);
        break;
    case 1:
        sk_list_payments(control, voucher, page, handle);
        break;
    case 2:
        sk_list_to_refund(control, voucher, page, handle);
        break;
    case 3:
        sk_list_troubles(control, handle);
        break;
    case 4:
        sk_list_admin_events(control, voucher, page, handle);
        break;
    default:
        sk_find_payment(control, "key-1", handle);
    }
}

static void people_ask_as(struct sk_control *control, struct call *call, uint64_t handle)
{
    const struct sold *voucher = &people.vouchers[call->voucher];
    char key[24];
    (void)snprintf(key, sizeof key, "key-%" PRIu64, handle);
    const struct sk_operation operation = {voucher->id, key, "sim", 0};
    const struct sk_page_asked page = {.limit = 20};
    const struct sk_page_asked feed = {FEED_PAGE, people.feed.cursor[0] == '\0' ? NULL : people.feed.cursor};
    struct sk_terms terms;
    struct sk_purchase_result result;
    const struct sk_ask ask = {voucher->id, call->user, call->quantity, 0, call->low_priority, SK_ASK_TICKETS_OFF, 0};
    const struct sk_payment payment = {key, voucher->price_cents * call->quantity, "CNY"};
    const struct sk_refund refund = {call->units > 0, NULL, NULL};
    switch (call->kind) {
    case CALL_CREATE:
        terms = people_terms(voucher);
        (void)snprintf(key, sizeof key, "create-%zu", call->voucher);
        sk_create_voucher(control, key, "sim", &terms, handle);
        break;
    case CALL_BUY:
        if (!sk_purchase(control, &ask, handle, &result))
            people_take_result(call, &result);
        break;
    case CALL_PAY:
        sk_move_pay(control, call->order_id, &payment, "sim", handle);
        break;
    case CALL_CANCEL:
        sk_move_cancel(control, call->order_id, call->user, handle);
        break;
    case CALL_REFUND:
        sk_move_refund(control, call->order_id, &refund, "sim", handle);
        break;
    case CALL_LOOK:
        sk_order_lookup(control, call->order_id, call->user, handle);
        break;
    case CALL_LIST:
        sk_user_orders(control, SK_PG_QUERIES, call->user, &page, handle);
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
                                  .price_cents = (int64_t)world_roll(5),
                                  .user_limit = SK_TERM_AS_IT_IS,
                                  .pay_within_s = SK_TERM_AS_IT_IS,
                                  .ticket = SK_TERM_AS_IT_IS,
                                  .work_bits = SK_TERM_AS_IT_IS};
        sk_operate_change(control, &operation, &terms, handle);
        break;
    case CALL_SETTLEMENT:
        sk_settlement_report(control, voucher->id, SK_REPORT_JSON, handle);
        break;
    case CALL_VOUCHER:
        if (call->units > 0)
            sk_inspect_voucher(control, voucher->id, handle);
        else
            sk_show_voucher(control, voucher->id, handle);
        break;
    case CALL_VOUCHERS:
        sk_list_vouchers(control, &page, handle);
        break;
    case CALL_LISTS:
        people_list(control, voucher->id, &page, handle);
        break;
    case CALL_FEED:
        sk_list_order_events(control, &feed, 0, handle);
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
        people_ask_as(instance_control(asking->instance), asking->call, (uint64_t)(asking->call - people.calls) + 1);
}

static struct instance *people_choose(void)
{
    struct instance *on[INSTANCES_MAX];
    size_t count = 0;
    for (size_t i = 0; i < instances_count(); i++) {
        if (instance_state(instance_at(i)) != INSTANCE_OFF)
            on[count++] = instance_at(i);
    }
    return count == 0 ? NULL : on[world_roll(count)];
}

static struct call *people_new(enum call_kind kind, size_t voucher)
{
    if (people.called == CALLS_MAX)
        return NULL;
    struct call *call = &people.calls[people.called++];
    *call = (struct call){.kind = kind, .voucher = voucher, .quantity = 1, .asked_at = world_now()};
    return call;
}

static size_t people_make(struct call *call)
{
    struct asking *asking = world_alloc(sizeof *asking);
    size_t number = (size_t)(call - people.calls);
    *asking = (struct asking){call, people_choose()};
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
        (void)people_make(call);
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
    return people_make(call);
}

// ---- what they do ----

static const struct call *people_some_order(void)
{
    for (unsigned i = 0; i < 8 && people.called > 0; i++) {
        const struct call *call = &people.calls[world_roll(people.called)];
        if (call->kind == CALL_BUY && call->order_id[0] != '\0')
            return call;
    }
    return NULL;
}

static void people_act(void *arg)
{
    static const struct {
        enum call_kind kind;
        unsigned weight;
    } weights[] = {{CALL_BUY, 50},  {CALL_PAY, 12},       {CALL_CANCEL, 10}, {CALL_REFUND, 6},   {CALL_LOOK, 8},
                   {CALL_LIST, 3},  {CALL_PAUSE, 2},      {CALL_RESUME, 4},  {CALL_ADD, 5},      {CALL_PRICE, 2},
                   {CALL_CLOSE, 1}, {CALL_SETTLEMENT, 2}, {CALL_VOUCHER, 3}, {CALL_VOUCHERS, 2}, {CALL_LISTS, 3}};
    uint64_t luck = world_roll(113);
    size_t which = 0, voucher = world_roll(people.vouchers_count);
    (void)arg;
    while (which + 1 < sizeof weights / sizeof *weights && luck >= weights[which].weight)
        luck -= weights[which++].weight;
    enum call_kind kind = weights[which].kind;
    const struct call *about = kind == CALL_PAY || kind == CALL_CANCEL || kind == CALL_REFUND || kind == CALL_LOOK
                                   ? people_some_order()
                                   : NULL;
    if (kind == CALL_CLOSE && !people.closing)
        kind = CALL_SETTLEMENT;
    if ((about == NULL && (kind == CALL_PAY || kind == CALL_CANCEL || kind == CALL_REFUND || kind == CALL_LOOK)) ||
        people.vouchers[voucher].id == 0)
        kind = CALL_BUY;
    if (people.vouchers[voucher].id == 0)
        return;
    struct call *call = people_new(kind, about == NULL ? voucher : about->voucher);
    if (call == NULL)
        return;
    (void)snprintf(call->user, sizeof call->user, "u%d", (int)world_roll(people.users));
    if (about != NULL && kind != CALL_BUY) {
        memcpy(call->user, about->user, sizeof call->user);
        memcpy(call->order_id, about->order_id, sizeof call->order_id);
        call->quantity = about->quantity;
        call->units = (int64_t)world_roll(2);
    } else if (kind == CALL_BUY) {
        call->quantity = (unsigned)world_between(1, people.vouchers[voucher].limit);
        call->low_priority = world_chance(200);
    } else if (kind == CALL_ADD) {
        call->units = world_chance(400) ? -1 : (int64_t)world_between(1, 2);
    }
    (void)people_make(call);
}

static void people_create(void *arg)
{
    size_t voucher = (size_t)((struct sold *)arg - people.vouchers);
    if (people.vouchers[voucher].id != 0 || people.called > CREATE_CALLS_MAX)
        return;
    struct instance *first = instance_at(0);
    struct call *call = instance_ready(first) ? people_new(CALL_CREATE, voucher) : NULL;
    if (call != NULL)
        (void)people_make(call);
    world_at(world_now() + (uint64_t)RETRY_MS * MS, people_create, arg);
}

void people_begin(uint64_t for_ns)
{
    size_t acts = world_between(10, 60);
    if (world_chance(300))
        world_at(world_now() + (uint64_t)FEED_EVERY_MS * MS, people_follow_feed, NULL);
    for (size_t i = 0; i < people.vouchers_count; i++)
        world_at(world_now() + MS, people_create, &people.vouchers[i]);
    for (size_t i = 0; i < acts; i++) {
        uint64_t at = world_now() + 400 * MS + world_roll(for_ns - 400 * MS);
        if ((people.skipped >> i % 64 & 1) == 0)
            world_at(at, people_act, NULL);
    }
}
