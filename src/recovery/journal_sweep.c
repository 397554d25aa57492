// A sweep reads the journal page by page from the voucher's cursor on. It begins without a lock: mostly living sessions
// hold all entries, and the cursor just moves on. At the first entry to settle it takes the lock and reads that page
// again, because another session may have settled the entry meanwhile. Entries to settle go to the writer as if they
// had just been granted, a page at a time.
//
// Redis judges the sessions that are not in the list of living ones (sk_sessions_judge), once in a sweep. If it cannot
// yet, the cursor stays before their first entry.
#include "journal_sweep.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "dead_letter.h"
#include "list.h"
#include "log.h"
#include "maintenance.h"
#include "returns.h"
#include "timer.h"
#include "writer.h"

enum {
    ORPHANS_MS = 1000,               // between two checks for them
    ORPHANS_FOR_MS = 20 * 60 * 1000, // longer than a kernel tries to deliver the data of a closed connection
    SWEEPS_MAX = 16,                 // at a time, of vouchers of one shard
    PAGE_FIRST = 8,                  // entries of the first page of a journal; the next ones fit their size
    PAGE_MOST = 128,
    PAGE_BYTES = 128 * 1024, // of orders or unreadable bytes in a page: little enough for one turn of the loop
};

struct sk_sweeper {
    const struct sk_sale *sale;
    struct sk_rebuilds *rebuilds;
    struct sk_timer *timer;
    struct sk_list orphans; // vouchers that may have some, in turn
    size_t listed;
    struct sk_list sweeps;
    unsigned sweep_counts[SK_SHARDS_MAX];
};

// READING -> JUDGING -> READING, -> LOCKING -> READING (with the lock) -> SETTLING -> READING ...
enum sweep_state { SWEEP_READING, SWEEP_JUDGING, SWEEP_LOCKING, SWEEP_SETTLING, SWEEP_ENDED, SWEEP_STATES };

struct sweep {
    struct sk_list list; // must be first
    struct sk_sweeper *sweeper;
    struct sk_voucher *voucher; // pinned
    enum sweep_state state;
    struct sk_named_lock *lock; // NULL: not needed so far
    bool locked;
    bool stays;       // the voucher's cursor stays: entries after it may have to be read again
    bool more;        // the page was full
    int page;         // entries to read at once
    size_t unsettled; // entries in the writer
    size_t orphans;   // those of our own session among them
    char after[SK_JOURNAL_ID_SIZE];
    // Sessions that are not in the list of living ones, and Redis's judgement.
    char sessions[SK_SESSIONS_JUDGED_MAX][SK_UUID_SIZE];
    enum sk_life lives[SK_SESSIONS_JUDGED_MAX];
    size_t session_count, judged_count;
};

// What to do with an entry.
enum sweep_class {
    SWEEP_HELD,   // by a living session
    SWEEP_NEW,    // by one that lives, but was not in the list yet: its death could be missed
    SWEEP_SETTLE, // by none
    SWEEP_UNREADABLE,
    SWEEP_UNJUDGED, // its session must be judged first
    SWEEP_UNKNOWN,  // it cannot be judged now
};

static void sweep_on_read(void *arg, const struct sk_reply *reply);

static void sweep_move(struct sweep *sweep, enum sweep_state state)
{
#define TO(name) (1U << SWEEP_##name)
    static const unsigned allowed[SWEEP_STATES] = {
        [SWEEP_READING] = TO(READING) | TO(JUDGING) | TO(LOCKING) | TO(SETTLING) | TO(ENDED),
        [SWEEP_JUDGING] = TO(READING) | TO(ENDED),
        [SWEEP_LOCKING] = TO(READING) | TO(ENDED),
        [SWEEP_SETTLING] = TO(READING) | TO(ENDED),
    };
#undef TO
    SK_ASSERT((allowed[sweep->state] & 1U << state) != 0);
    sweep->state = state;
}

// ---- entries that are settled ----

// The time begins anew whenever the journal could not be read or settled: a Redis that hung may still run calls that it
// has received.
static void sweep_wait_for_orphans(const struct sk_sweeper *sweeper, struct sk_voucher *voucher)
{
    voucher->maintenance->swept.orphans_until_ms = uv_now(sweeper->sale->loop) + ORPHANS_FOR_MS;
}

// NULL: out of memory.
static struct sk_entry *sweep_entry(const struct sweep *sweep, const struct sk_journal_entry *found)
{
    struct sk_entry *entry = sk_entry_new(sweep->sweeper->sale, sweep->voucher, SK_ENTRY_RECOVERED,
                                          sweep->voucher->maintenance->swept.run_number);
    if (entry != NULL)
        sk_entry_name(entry, found->epoch, found->id);
    return entry;
}

// An entry of an instance with larger batches than there can ever be room for here. A rebuild settles it like any
// other.
static void sweep_settle_by_rebuild(const struct sweep *sweep, const struct sk_journal_entry *found)
{
    enum sk_status status = sk_rebuild(sweep->sweeper->rebuilds, sweep->voucher, SK_REBUILD_ORDERED, NULL, NULL);
    sk_log(SK_LOG_WARN, "journal entry is larger than SECKILL_ORDERS_MAX allows; its voucher is rebuilt",
           "voucher=%" PRId64 " journal_id=%s orders=%d begun=%d", sweep->voucher->id, found->id, found->count,
           status == SK_OK);
}

// False: there is no room for it now.
static bool sweep_refill(const struct sweep *sweep, const struct sk_journal_entry *found)
{
    const struct sk_sale *sale = sweep->sweeper->sale;
    struct sk_order_list orders = {0};
    if (!sk_entry_read_orders(sale, sweep->voucher, found->orders, found->orders_len, found->offer, &orders))
        return false;
    struct sk_entry *entry = sweep_entry(sweep, found);
    while (orders.head != NULL) {
        orders.head->epoch = found->epoch;
        if (entry != NULL)
            sk_writer_add(entry, orders.head);
        else
            sk_order_give(sale->orders, orders.head);
    }
    return entry != NULL;
}

// If the entry stays, a later sweep finds it again, and its letter is kept only once.
static void sweep_on_kept(void *arg, bool kept)
{
    struct sk_entry *entry = arg;
    if (kept)
        sk_entry_end(entry);
    else
        sk_entry_forget(entry);
}

static void sweep_set_aside(struct sweep *sweep, const struct sk_reply *element, const struct sk_journal_entry *found)
{
    const struct sk_sale *sale = sweep->sweeper->sale;
    struct sk_entry *entry = sweep_entry(sweep, found);
    if (entry != NULL &&
        sk_dead_letter_put_unreadable(sale, sweep->voucher, found->id, element, sweep_on_kept, entry) != SK_OK)
        sk_entry_forget(entry);
}

static bool sweep_is_own(const struct sweep *sweep, const struct sk_journal_entry *found)
{
    return found->session != NULL && strcmp(found->session, sk_session_id(sweep->sweeper->sale->session)) == 0;
}

// False: not now.
static bool sweep_take(struct sweep *sweep, const struct sk_reply *element, const struct sk_journal_entry *found)
{
    const struct sk_sale *sale = sweep->sweeper->sale;
    struct sk_voucher *voucher = sweep->voucher;
    if (found->orders == NULL) {
        sweep_set_aside(sweep, element, found);
        return true;
    }
    if (found->move == NULL && found->count > (int)sk_order_pool_most(sale->orders)) {
        sweep_settle_by_rebuild(sweep, found);
        return false;
    }
    bool taken = found->move == NULL ? sweep_refill(sweep, found)
                                     : sk_returns_recover(sk_sale_shard(sale, voucher)->returns, voucher,
                                                          voucher->maintenance->swept.run_number, found);
    if (!taken) {
        sk_log(SK_LOG_INFO, "no room for a journal entry now", "voucher=%" PRId64 " journal_id=%s orders=%d",
               voucher->id, found->id, found->count);
        sweep_wait_for_orphans(sweep->sweeper, voucher);
        return false;
    }
    sweep->unsettled++;
    sweep->orphans += sweep_is_own(sweep, found);
    sk_metrics_add(sale->metrics, SK_METRIC_ENTRIES_SWEPT, 1);
    return true;
}

// ---- who holds an entry ----

static enum sweep_class sweep_note_session(struct sweep *sweep, const char *session)
{
    static const enum sweep_class classes[] = {
        [SK_LIFE_UNKNOWN] = SWEEP_UNKNOWN, [SK_LIFE_LIVING] = SWEEP_NEW, [SK_LIFE_DEAD] = SWEEP_SETTLE};
    size_t i = 0;
    while (i < sweep->session_count && strcmp(sweep->sessions[i], session) != 0)
        i++;
    if (i == SK_SESSIONS_JUDGED_MAX)
        return SWEEP_UNKNOWN; // the next sweep has room again
    if (i == sweep->session_count)
        memcpy(sweep->sessions[sweep->session_count++], session, SK_UUID_SIZE);
    if (i >= sweep->judged_count)
        return SWEEP_UNJUDGED;
    return classes[sweep->lives[i]];
}

// The claim on a user outlives its holder. So the session shows whether another may settle the entry.
static enum sweep_class sweep_classify(struct sweep *sweep, const struct sk_journal_entry *found,
                                       const struct sk_entry **own)
{
    const struct sk_sale *sale = sweep->sweeper->sale;
    if (found->orders == NULL)
        return SWEEP_UNREADABLE;
    if (found->session == NULL)
        return SWEEP_SETTLE;
    if (sweep_is_own(sweep, found))
        return sk_entry_holds(sale, sweep->voucher, own, found->id, found->epoch) ? SWEEP_HELD : SWEEP_SETTLE;
    if (sk_session_lives(sale->session, found->session))
        return SWEEP_HELD;
    return sweep_note_session(sweep, found->session);
}

// ---- a sweep ----

static void sweep_end(struct sweep *sweep)
{
    sweep_move(sweep, SWEEP_ENDED);
    sk_named_lock_release(sweep->lock);
    sweep->voucher->maintenance->swept.sweep = NULL;
    sk_list_remove(&sweep->list);
    SK_ASSERT(sweep->sweeper->sweep_counts[sweep->voucher->shard] > 0);
    sweep->sweeper->sweep_counts[sweep->voucher->shard]--;
    sk_voucher_unpin(sweep->voucher);
    free(sweep);
}

static void sweep_read(struct sweep *sweep)
{
    sweep_move(sweep, SWEEP_READING);
    if (sk_journal_ask(sk_sale_redis(sweep->sweeper->sale, sweep->voucher), sweep->voucher->keys.journal, sweep->after,
                       sweep->page, sweep_on_read, sweep) != SK_OK)
        sweep_end(sweep);
}

static void sweep_on_judged(void *arg, const enum sk_life *lives, size_t n)
{
    struct sweep *sweep = arg;
    memcpy(sweep->lives + sweep->judged_count, lives, n * sizeof *lives);
    sweep->judged_count += n;
    sweep_read(sweep);
}

static void sweep_judge(struct sweep *sweep)
{
    size_t n = sweep->session_count - sweep->judged_count;
    sweep_move(sweep, SWEEP_JUDGING);
    if (sk_sessions_judge(sweep->sweeper->sale->session, n,
                          (const char(*)[SK_UUID_SIZE])(sweep->sessions + sweep->judged_count), sweep_on_judged,
                          sweep) != SK_OK)
        sweep_end(sweep);
}

static void sweep_on_locked(void *arg, bool held)
{
    struct sweep *sweep = arg;
    sweep->locked = held;
    if (held)
        sweep_read(sweep);
    else
        sweep_end(sweep); // another session is sweeping it
}

static void sweep_take_lock(struct sweep *sweep)
{
    char key[SK_KEY_SIZE];
    sk_key_of_lock("recover", sweep->voucher->id, sweep->voucher->tag, key);
    sweep_move(sweep, SWEEP_LOCKING);
    sweep->lock = sk_named_lock_take(sweep->sweeper->sale->locks, key, sweep_on_locked, sweep);
    if (sweep->lock == NULL)
        sweep_end(sweep);
}

static size_t sweep_bytes_of(const struct sk_reply *element, const struct sk_journal_entry *found)
{
    struct sk_buf none = {0};
    size_t bytes = found->orders != NULL ? found->orders_len : sk_journal_raw(element, 0, &none);
    sk_buf_free(&none);
    return bytes;
}

// Redis counts entries, but their sizes differ by a factor of thousands.
static void sweep_fit_page(struct sweep *sweep, size_t bytes)
{
    if (bytes > PAGE_BYTES && sweep->page > 1)
        sweep->page /= 2;
    else if (bytes < PAGE_BYTES / 2 && sweep->page < PAGE_MOST)
        sweep->page *= 2;
}

static void sweep_go_on(struct sweep *sweep, enum sweep_class stopped_at)
{
    if (sweep->unsettled > 0) {
        sweep_move(sweep, SWEEP_SETTLING);
        sk_log(SK_LOG_INFO, "recovering journal entries", "voucher=%" PRId64 " entries=%zu orphans=%zu",
               sweep->voucher->id, sweep->unsettled, sweep->orphans);
        sweep->orphans = 0;
    } else if (stopped_at == SWEEP_UNJUDGED) {
        sweep_judge(sweep);
    } else if ((stopped_at == SWEEP_SETTLE || stopped_at == SWEEP_UNREADABLE) && !sweep->locked) {
        sweep_take_lock(sweep);
    } else if (stopped_at == SWEEP_HELD && sweep->more) {
        sweep_read(sweep);
    } else {
        sweep_end(sweep);
    }
}

static void sweep_on_read(void *arg, const struct sk_reply *reply)
{
    struct sweep *sweep = arg;
    struct sk_swept *swept = &sweep->voucher->maintenance->swept;
    const struct sk_entry *own = NULL;
    enum sweep_class class = SWEEP_HELD;
    size_t count = sk_reply_count(reply), bytes = 0;
    sweep->more = count == (size_t)sweep->page;
    for (size_t i = 0; i < count; i++) {
        const struct sk_reply *element = sk_reply_at(reply, i);
        struct sk_journal_entry found;
        if (!sk_journal_read(element, &found)) {
            sweep->more = false;
            break;
        }
        class = sweep_classify(sweep, &found, &own);
        bytes += sweep_bytes_of(element, &found);
        if (class == SWEEP_UNJUDGED || class == SWEEP_UNKNOWN)
            break;
        bool is_held = class == SWEEP_HELD || class == SWEEP_NEW;
        if (!is_held && (!sweep->locked || !sweep_take(sweep, element, &found)))
            break;
        sweep->stays = sweep->stays || class != SWEEP_HELD;
        class = SWEEP_HELD;
        memcpy(sweep->after, found.id, strlen(found.id) + 1);
        if (!sweep->stays)
            memcpy(swept->after, found.id, strlen(found.id) + 1);
    }
    sweep_fit_page(sweep, bytes);
    sweep_go_on(sweep, class);
}

// Entries of a shard that is away stay in the writer until it is back, and their sweeps do not end. So each shard has a
// bound of its own.
static bool sweep_may_begin(const struct sk_sweeper *sweeper, size_t shard)
{
    return sweeper->sweep_counts[shard] < SWEEPS_MAX;
}

enum sk_status sk_sweep_voucher(struct sk_sweeper *sweeper, struct sk_voucher *voucher)
{
    struct sk_swept *swept = &voucher->maintenance->swept;
    const struct sk_sale *sale = sweeper->sale;
    if (swept->sweep != NULL || !sweep_may_begin(sweeper, voucher->shard))
        return SK_FULL;
    if (!sk_session_sells(sale->session, voucher->slot))
        return SK_DOWN;
    struct sweep *sweep = calloc(1, sizeof *sweep);
    if (sweep == NULL)
        return SK_NO_MEM;
    uint64_t deaths = sk_session_deaths(sale->session), run_number = sk_sale_run_number(sale, voucher);
    if (swept->deaths != deaths || swept->run_number != run_number || swept->epoch != voucher->seen.epoch)
        swept->after[0] = '\0';
    swept->deaths = deaths;
    swept->run_number = run_number;
    swept->epoch = voucher->seen.epoch;
    sweep->sweeper = sweeper;
    sweep->voucher = voucher;
    sweep->page = PAGE_FIRST;
    memcpy(sweep->after, swept->after, sizeof sweep->after);
    swept->sweep = sweep;
    sk_list_add_behind(&sweep->list, &sweeper->sweeps);
    sweeper->sweep_counts[voucher->shard]++;
    sk_voucher_pin(voucher);
    sweep_read(sweep);
    return SK_OK;
}

void sk_sweep_settled(void *arg, struct sk_voucher *voucher)
{
    struct sweep *sweep = voucher->maintenance->swept.sweep;
    (void)arg;
    if (sweep == NULL || sweep->unsettled == 0 || --sweep->unsettled > 0 || sweep->state != SWEEP_SETTLING)
        return;
    sweep_read(sweep);
}

// ---- orphans ----

void sk_sweep_orphans(struct sk_sweeper *sweeper, struct sk_voucher *voucher)
{
    struct sk_swept *swept = &voucher->maintenance->swept;
    sweep_wait_for_orphans(sweeper, voucher);
    swept->after[0] = '\0';
    if (swept->listed)
        return;
    swept->listed = true;
    swept->voucher = voucher;
    sk_voucher_pin(voucher);
    sk_list_add_last(&swept->list, &sweeper->orphans);
    sweeper->listed++;
}

static void sweep_on_timer(void *arg)
{
    struct sk_sweeper *sweeper = arg;
    uint64_t now = uv_now(sweeper->sale->loop);
    struct sk_swept *swept = sk_list_first(&sweeper->orphans), *next;
    for (size_t left = sweeper->listed; left > 0 && swept != NULL; left--, swept = next) {
        next = sk_list_next(&sweeper->orphans, &swept->list);
        if (swept->sweep == NULL && !sweep_may_begin(sweeper, swept->voucher->shard)) {
            sweep_wait_for_orphans(sweeper, swept->voucher);
            continue; // it keeps its place: a later round begins with it
        }
        sk_list_remove(&swept->list);
        if (now < swept->orphans_until_ms) {
            sk_list_add_last(&swept->list, &sweeper->orphans);
            if (swept->sweep == NULL && sk_sweep_voucher(sweeper, swept->voucher) != SK_OK)
                sweep_wait_for_orphans(sweeper, swept->voucher);
        } else {
            SK_ASSERT(sweeper->listed > 0);
            sweeper->listed--;
            swept->listed = false;
            sk_voucher_unpin(swept->voucher);
        }
    }
}

struct sk_sweeper *sk_sweeper_open(const struct sk_sale *sale, struct sk_rebuilds *rebuilds)
{
    struct sk_sweeper *sweeper = calloc(1, sizeof *sweeper);
    if (sweeper == NULL)
        return NULL;
    sk_list_begin(&sweeper->sweeps);
    sk_list_begin(&sweeper->orphans);
    sweeper->sale = sale;
    sweeper->rebuilds = rebuilds;
    sweeper->timer = sk_timer_open(sale->loop, ORPHANS_MS, sweep_on_timer, sweeper);
    if (sweeper->timer == NULL) {
        free(sweeper);
        return NULL;
    }
    return sweeper;
}

void sk_sweeper_close(struct sk_sweeper *sweeper)
{
    if (sweeper == NULL)
        return;
    for (struct sweep *sweep; (sweep = sk_list_first(&sweeper->sweeps)) != NULL;)
        sweep_end(sweep); // its entries are in the writer
    for (struct sk_swept *swept = sk_list_first(&sweeper->orphans), *next; swept != NULL; swept = next) {
        next = sk_list_next(&sweeper->orphans, &swept->list);
        sk_voucher_unpin(swept->voucher);
    }
    sk_timer_close(sweeper->timer);
    free(sweeper);
}
