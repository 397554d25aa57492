// While Redis has not answered the last write, the next batch gathers: under load batches grow by
// themselves, and at rest a request waits for nothing.
#include "place.h"

#include <inttypes.h>
#include <string.h>

#include "load.h"
#include "log.h"

enum {
    LOOKUPS_MAX = 64,             // voucher ids nobody knows, being looked up
    JOURNAL_ENTRIES_MAX = 100000, // of one voucher; past it 503
    STUCK_LOADING_MS = 5000,      // a loader that takes longer is taken over
    RUSH_MS = 20,                 // calls that follow each other closer than this are a rush
    RETRY_AFTER_MS = 1000,
};

struct sk_place {
    const struct sk_core *core;
    struct sk_admit *admit;
    struct sk_writer *writer;
    struct sk_voucher *first; // vouchers with requests to ask about
    unsigned lookups;
    uint64_t asked_at_ms; // the last script call
    const char **argv;    // scratch for a call
    size_t *lens;
    char journal_max[12];
};

// The requests of one script call, in the order of its arguments.
struct call {
    struct sk_place *place;
    struct sk_voucher *voucher;
    struct sk_order_list orders;
};

struct sk_place *sk_place_open(const struct sk_core *core, struct sk_admit *admit, struct sk_writer *writer)
{
    struct sk_place *place = calloc(1, sizeof *place);
    if (place == NULL)
        return NULL;
    size_t args = 4 + 2 * (size_t)core->config->batch_max;
    place->core = core;
    place->admit = admit;
    place->writer = writer;
    place->argv = calloc(args, sizeof *place->argv);
    place->lens = calloc(args, sizeof *place->lens);
    (void)snprintf(place->journal_max, sizeof place->journal_max, "%d", (int)JOURNAL_ENTRIES_MAX);
    if (place->argv == NULL || place->lens == NULL) {
        sk_place_close(place);
        return NULL;
    }
    return place;
}

static void refuse(struct sk_place *place, struct sk_order *order, enum sk_verdict verdict, const char *order_id,
                   uint64_t retry_after_ms)
{
    sk_core_tell(place->core, order, verdict, order_id, retry_after_ms);
    sk_order_give(place->core->orders, order);
}

static void refuse_all(struct sk_place *place, struct sk_order_list *orders, enum sk_verdict verdict)
{
    struct sk_order *order;
    while ((order = sk_order_pop(orders)) != NULL)
        refuse(place, order, verdict, NULL, sk_verdict_http_status(verdict) == 503 ? RETRY_AFTER_MS : 0);
}

void sk_place_close(struct sk_place *place)
{
    if (place == NULL)
        return;
    for (struct sk_voucher *voucher = place->first; voucher != NULL; voucher = voucher->next_asking)
        refuse_all(place, &voucher->asking, SK_VERDICT_UNAVAILABLE);
    free(place->argv);
    free(place->lens);
    free(place);
}

static void line_up(struct sk_place *place, struct sk_voucher *voucher)
{
    if (voucher->in_asking)
        return;
    voucher->in_asking = true;
    voucher->next_asking = place->first;
    place->first = voucher;
}

void sk_place_add(struct sk_place *place, struct sk_voucher *voucher, struct sk_order *order)
{
    sk_order_push(&voucher->asking, order);
    line_up(place, voucher);
}

// ---- a voucher that Redis does not have ----

struct lookup {
    struct sk_place *place;
    struct sk_voucher *voucher;
};

static void on_lookup(void *arg, const struct sk_rows *rows)
{
    struct lookup *lookup = arg;
    struct sk_place *place = lookup->place;
    struct sk_voucher *voucher = lookup->voucher;
    enum sk_verdict verdict = SK_VERDICT_UNAVAILABLE;
    voucher->looking_up = false;
    place->lookups--;
    if (rows != NULL && sk_rows_count(rows) == 0) {
        verdict = SK_VERDICT_UNKNOWN_VOUCHER;
        sk_admit_remember(place->admit, voucher, verdict, "", 0);
    } else if (rows != NULL) {
        verdict = SK_VERDICT_LOADING;
        if (sk_load(place->core, voucher, NULL, NULL) != SK_OK)
            sk_log(SK_DEBUG, "loading not started", "voucher=%" PRId64, voucher->id);
    }
    refuse_all(place, &voucher->unknown, verdict);
    free(lookup);
}

// PostgreSQL knows whether there is such a voucher: then it is loaded, else all are told so.
static void look_up(struct sk_place *place, struct sk_voucher *voucher, struct sk_order_list *orders)
{
    struct sk_order *order;
    while ((order = sk_order_pop(orders)) != NULL)
        sk_order_push(&voucher->unknown, order);
    if (voucher->looking_up)
        return;
    struct lookup *lookup = place->lookups < LOOKUPS_MAX ? malloc(sizeof *lookup) : NULL;
    char id[24];
    const char *params[] = {id};
    (void)snprintf(id, sizeof id, "%" PRId64, voucher->id);
    if (lookup == NULL) {
        refuse_all(place, &voucher->unknown, SK_VERDICT_OVERLOADED);
        return;
    }
    *lookup = (struct lookup){place, voucher};
    if (sk_pg_call(place->core->pg, SK_STATEMENT_FIND_VOUCHER, 1, params, on_lookup, lookup) != SK_OK) {
        free(lookup);
        refuse_all(place, &voucher->unknown, SK_VERDICT_UNAVAILABLE);
        return;
    }
    voucher->looking_up = true;
    place->lookups++;
}

// Somebody loads the voucher. If that takes too long, whoever it was has died: take over.
static void wait_for_loading(struct sk_place *place, struct sk_voucher *voucher, struct sk_order_list *orders)
{
    uint64_t now = uv_now(place->core->loop);
    if (voucher->loading_since_ms == 0)
        voucher->loading_since_ms = now;
    if (now - voucher->loading_since_ms > STUCK_LOADING_MS && sk_load(place->core, voucher, NULL, NULL) == SK_OK)
        voucher->loading_since_ms = now;
    refuse_all(place, orders, SK_VERDICT_LOADING);
}

// ---- the script's reply ----

struct reply_view {
    bool answered; // `ok`: there is a letter for each user
    const char *status, *last, *journal_id, *letters;
    int64_t now_ms, begin_ms, epoch;
    const struct sk_reply *reply;
    size_t next_existing;
};

// Reads the shape of the reply once, so that what follows can rely on it.
static bool read_reply(const struct sk_reply *reply, size_t users, struct reply_view *view)
{
    size_t letters = 0, existing = 0;
    *view = (struct reply_view){.reply = reply, .next_existing = 7};
    view->status = sk_reply_text(sk_reply_at(reply, 0), NULL);
    if (view->status == NULL)
        return false;
    if (strcmp(view->status, "ok") != 0)
        return true;
    view->last = sk_reply_text(sk_reply_at(reply, 4), NULL);
    view->journal_id = sk_reply_text(sk_reply_at(reply, 5), NULL);
    view->letters = sk_reply_text(sk_reply_at(reply, 6), &letters);
    if (!sk_reply_number(sk_reply_at(reply, 1), &view->now_ms) ||
        !sk_reply_number(sk_reply_at(reply, 2), &view->begin_ms) ||
        !sk_reply_number(sk_reply_at(reply, 3), &view->epoch) || view->last == NULL || view->journal_id == NULL ||
        view->letters == NULL || letters != users)
        return false;
    for (size_t i = 0; i < letters; i++) {
        if (view->letters[i] == '\0' || strchr("pasne", view->letters[i]) == NULL)
            return false;
        existing += view->letters[i] == SK_ALREADY;
    }
    view->answered = sk_reply_count(reply) == 7 + existing;
    return view->answered;
}

static void answer_each(struct sk_place *place, struct call *call, struct reply_view *view)
{
    struct sk_entry *entry = NULL;
    uint64_t begin_in_ms = view->begin_ms > view->now_ms ? (uint64_t)(view->begin_ms - view->now_ms) : 0;
    struct sk_order *order;
    for (size_t i = 0; (order = sk_order_pop(&call->orders)) != NULL; i++) {
        switch ((enum sk_place_letter)view->letters[i]) {
        case SK_PLACED:
            if (entry == NULL)
                entry = sk_writer_entry(place->writer, call->voucher, view->epoch, view->journal_id, false);
            sk_core_tell(place->core, order, SK_VERDICT_ACCEPTED, order->id, 0);
            if (entry != NULL)
                sk_writer_add(place->writer, entry, order);
            else
                sk_order_give(place->core->orders, order); // out of memory: recovery finds it in the journal
            break;
        case SK_ALREADY:
            refuse(place, order, SK_VERDICT_ALREADY_ORDERED,
                   sk_reply_text(sk_reply_at(view->reply, view->next_existing++), NULL), 0);
            break;
        case SK_SOLD_OUT:
            refuse(place, order, SK_VERDICT_SOLD_OUT, NULL, 0);
            break;
        case SK_NOT_STARTED:
            refuse(place, order, SK_VERDICT_NOT_STARTED, NULL, begin_in_ms);
            break;
        case SK_ENDED:
            refuse(place, order, SK_VERDICT_ENDED, NULL, 0);
            break;
        }
    }
}

static void remember(struct sk_place *place, struct sk_voucher *voucher, const struct reply_view *view)
{
    voucher->loading_since_ms = 0;
    if (strchr(view->letters, SK_SOLD_OUT) != NULL)
        sk_admit_remember(place->admit, voucher, SK_VERDICT_SOLD_OUT, view->last, 0);
    else if (strchr(view->letters, SK_ENDED) != NULL)
        sk_admit_remember(place->admit, voucher, SK_VERDICT_ENDED, view->last, 0);
    else if (strchr(view->letters, SK_NOT_STARTED) != NULL)
        sk_admit_remember(place->admit, voucher, SK_VERDICT_NOT_STARTED, "", (uint64_t)(view->begin_ms - view->now_ms));
}

// Anything that is not a clear answer is 503: never "sold out", never "unknown voucher". Where the call
// may have reached Redis the outcome is open; the journal and its recovery settle it (P7).
static void on_reply(void *arg, const struct sk_reply *reply)
{
    struct call *call = arg;
    struct sk_place *place = call->place;
    struct sk_voucher *voucher = call->voucher;
    struct reply_view view;
    voucher->calls--;
    if (reply == NULL) {
        refuse_all(place, &call->orders, SK_VERDICT_UNAVAILABLE);
    } else if (!read_reply(reply, call->orders.count, &view)) {
        const char *error = sk_reply_error(reply);
        sk_log_text(SK_WARN, "Redis refused place_orders", "reason", error == NULL ? "malformed reply" : error);
        refuse_all(place, &call->orders, SK_VERDICT_UNAVAILABLE);
    } else if (view.answered) {
        remember(place, voucher, &view);
        answer_each(place, call, &view);
    } else if (strcmp(view.status, "missing") == 0) {
        look_up(place, voucher, &call->orders);
    } else if (strcmp(view.status, "loading") == 0) {
        wait_for_loading(place, voucher, &call->orders);
    } else {
        refuse_all(place, &call->orders, SK_VERDICT_OVERLOADED); // the journal is full
    }
    free(call);
}

// ---- the script's call ----

static void ask(struct sk_place *place, struct sk_voucher *voucher)
{
    struct call *call = calloc(1, sizeof *call);
    if (call == NULL) {
        refuse_all(place, &voucher->asking, SK_VERDICT_OVERLOADED);
        return;
    }
    call->place = place;
    call->voucher = voucher;
    const char **argv = place->argv;
    int n = 0;
    argv[n++] = voucher->voucher_key;
    argv[n++] = voucher->buyers_key;
    argv[n++] = voucher->journal_key;
    argv[n++] = place->journal_max;
    for (int i = 0; i < n; i++)
        place->lens[i] = strlen(argv[i]);
    size_t most = (size_t)place->core->config->batch_max;
    while (call->orders.count < most && voucher->asking.count > 0) {
        struct sk_order *order = sk_order_pop(&voucher->asking);
        place->lens[n] = strlen(order->user);
        argv[n++] = order->user;
        place->lens[n] = SK_UUID_CHARS;
        argv[n++] = order->id;
        sk_order_push(&call->orders, order);
    }
    enum sk_status status =
        sk_redis_script(place->core->redis, SK_SCRIPT_PLACE_ORDERS, 3, n, argv, place->lens, on_reply, call);
    if (status != SK_OK) {
        refuse_all(place, &call->orders, SK_VERDICT_UNAVAILABLE);
        free(call);
        return;
    }
    voucher->calls++;
    place->asked_at_ms = uv_now(place->core->loop);
}

void sk_place_flush(struct sk_place *place)
{
    if (sk_redis_busy(place->core->redis))
        return;
    struct sk_voucher *voucher = place->first;
    place->first = NULL;
    while (voucher != NULL) {
        struct sk_voucher *next = voucher->next_asking;
        voucher->in_asking = false;
        while (voucher->asking.count > 0)
            ask(place, voucher);
        voucher = next;
    }
}

bool sk_place_busy(const struct sk_place *place)
{
    return place->first != NULL || uv_now(place->core->loop) < place->asked_at_ms + RUSH_MS;
}
