// Ending an entry takes one call: XDEL if all its orders were placed, else settle_entry.lua.
#include "entry.h"

#include <string.h>

#include "failpoint.h"
#include "log.h"
#include "params.h"
#include "probe.h"

struct sk_entry *sk_entry_new(const struct sk_sale *sale, struct sk_voucher *voucher, enum sk_entry_kind kind,
                              uint64_t run_number)
{
    struct sk_entry *entry = calloc(1, sizeof *entry);
    if (entry == NULL)
        return NULL;
    entry->sale = sale;
    entry->voucher = voucher;
    entry->kind = kind;
    entry->run_number = run_number;
    sk_voucher_pin(voucher);
    return entry;
}

void sk_entry_name(struct sk_entry *entry, int64_t epoch, const char *journal_id)
{
    struct sk_voucher *voucher = entry->voucher;
    size_t len = strlen(journal_id);
    SK_ASSERT(entry->kind != SK_ENTRY_LOOSE && entry->journal_id[0] == '\0' && len > 0 && len < SK_JOURNAL_ID_SIZE);
    entry->epoch = epoch;
    entry->newest_epoch = voucher->seen.epoch > epoch ? voucher->seen.epoch : epoch;
    memcpy(entry->journal_id, journal_id, len + 1);
    if (entry->kind != SK_ENTRY_OWN)
        return;
    struct sk_entries *entries = &voucher->entries;
    if (sk_list_is_empty(&entries->own)) {
        entries->link = entries->open;
        entries->next = *entries->open;
        *entries->link = voucher;
        if (entries->next != NULL)
            entries->next->entries.link = &entries->next;
    }
    sk_list_add_last(&entry->list, &entries->own);
}

bool sk_entry_is_here(const struct sk_entry *entry)
{
    return entry->run_number == sk_sale_run_number(entry->sale, entry->voucher) &&
           entry->voucher->seen.epoch <= entry->newest_epoch;
}

// Own entries of one process are listed by epoch and, within an epoch, by id.
static bool entry_is_before(const struct sk_entry *entry, const char *journal_id, int64_t epoch)
{
    return entry->epoch == epoch ? sk_journal_compare(entry->journal_id, journal_id) < 0 : entry->epoch < epoch;
}

bool sk_entry_holds(const struct sk_sale *sale, const struct sk_voucher *voucher, const struct sk_entry **at,
                    const char *journal_id, int64_t epoch)
{
    const struct sk_list *own = &voucher->entries.own;
    const struct sk_entry *entry = *at == NULL ? sk_list_first(own) : *at;
    uint64_t run_number = sk_sale_run_number(sale, voucher);
    while (entry != NULL && (entry->run_number != run_number || entry_is_before(entry, journal_id, epoch))) {
        *at = entry;
        entry = sk_list_next(own, &entry->list);
    }
    return entry != NULL && entry->epoch == epoch && strcmp(entry->journal_id, journal_id) == 0;
}

// ---- orders ----

struct reading {
    const struct sk_sale *sale;
    const struct sk_voucher *voucher;
    struct sk_order_list *out;
    int32_t offer;
    bool failed;
};

static void entry_read_order(void *arg, const struct sk_journal_order *read)
{
    struct reading *reading = arg;
    struct sk_order *order = reading->failed ? NULL : sk_order_take(reading->sale->orders, reading->voucher->shard);
    if (order == NULL) {
        reading->failed = true;
        return;
    }
    memcpy(order->id, read->id, SK_UUID_SIZE);
    memcpy(order->user, read->user, strlen(read->user) + 1);
    order->quantity = (uint16_t)read->quantity;
    order->key = read->key;
    order->offer = reading->offer;
    order->low_priority = true;
    sk_order_move(reading->sale->orders, order, SK_ORDER_NEW, reading->out);
}

bool sk_entry_read_orders(const struct sk_sale *sale, const struct sk_voucher *voucher, const char *orders, size_t len,
                          int32_t offer, struct sk_order_list *out)
{
    struct reading reading = {.sale = sale, .voucher = voucher, .out = out, .offer = offer};
    if (sk_journal_parse(orders, len, entry_read_order, &reading) > 0 && !reading.failed)
        return true;
    while (out->head != NULL)
        sk_order_give(sale->orders, out->head);
    return false;
}

static void entry_note(struct sk_entry *entry, const char *id, const char *user, unsigned units, const char *live)
{
    char number[SK_PARAM_NUMBER_SIZE];
    const char *parts[] = {sk_params_number(number, units), id, user, live};
    for (int i = 0; i < 4; i++)
        sk_buf_add(&entry->corrections, parts[i], strlen(parts[i]) + 1);
    entry->correction_count++;
    SK_ASSERT(entry->correction_count <= SK_JOURNAL_ORDERS_MAX);
}

void sk_entry_note_refused(struct sk_entry *entry, const char *id, const char *user, unsigned units, const char *live)
{
    entry_note(entry, id, user, units, live == NULL ? "" : live);
}

// Redis gets the number only from the bound on, which few users reach.
void sk_entry_note_ended(struct sk_entry *entry, const char *id, const char *user, unsigned units, unsigned nth,
                         const char *heirs, const char *came_by)
{
    char number[SK_PARAM_NUMBER_SIZE] = "";
    struct sk_buf ended = {0};
    if (nth >= entry->voucher->orders_per_user)
        (void)sk_params_number(number, nth);
    sk_buf_printf(&ended, "-%s", number);
    if (heirs != NULL || came_by != NULL)
        sk_buf_printf(&ended, ";%s;%s", came_by == NULL ? "" : came_by, heirs == NULL ? "" : heirs);
    entry->corrections.failed = entry->corrections.failed || ended.failed;
    entry_note(entry, id, user, units, ended.failed ? "-" : ended.data);
    sk_buf_free(&ended);
}

void sk_entry_note_over(const struct sk_order *order, unsigned nth, const char *live)
{
    if (nth > 0 && live == NULL)
        sk_entry_note_ended(order->entry, order->id, order->user, order->quantity, nth, NULL, NULL);
    else
        sk_entry_note_refused(order->entry, order->id, order->user, order->quantity, live);
}

// ---- the end ----

enum { BLOCKED_MOST_MS = 15 * 1000 }; // longer than it takes to settle for an instance that was killed

void sk_entry_forget(struct sk_entry *entry)
{
    if (entry == NULL)
        return;
    struct sk_voucher *voucher = entry->voucher;
    struct sk_entries *entries = &voucher->entries;
    if (entry->kind == SK_ENTRY_OWN && entry->journal_id[0] != '\0') {
        sk_list_remove(&entry->list);
        if (sk_list_is_empty(&entries->own)) {
            *entries->link = entries->next;
            if (entries->next != NULL)
                entries->next->entries.link = entries->link;
        }
    }
    sk_buf_free(&entry->corrections);
    free(entry);
    sk_voucher_unpin(voucher);
}

static void entry_on_ended(void *arg, const struct sk_reply *reply)
{
    struct sk_entry *entry = arg;
    const struct sk_sale *sale = entry->sale;
    int64_t corrected;
    bool blocked = sk_reply_number(reply, &corrected) && corrected < 0;
    if (reply == NULL || sk_reply_error(reply) != NULL || blocked)
        sale->orphaned(sale->recovery, entry->voucher);
    else
        SK_PROBE3(settled, entry->voucher->id, entry->journal_id, entry->correction_count);
    if (blocked && corrected < -BLOCKED_MOST_MS) // Redis has a buyer that no entry will remove
        sale->suspect(sale->recovery, entry->voucher, SK_DOUBT_BEHIND);
    if (reply != NULL && sk_reply_error(reply) != NULL)
        sk_log_repeat(SK_LOG_WARN, "journal entry not dropped; recovery will", "reason", sk_reply_error(reply));
    sk_entry_forget(entry);
}

static enum sk_status entry_correct_and_drop(struct sk_entry *entry, const char *journal_id)
{
    const struct sk_sale *sale = entry->sale;
    const struct sk_voucher *voucher = entry->voucher;
    const char *argv[SK_REDIS_ARGS_MAX];
    char epoch[SK_PARAM_NUMBER_SIZE];
    int n = 0;
    argv[n++] = voucher->keys.voucher;
    argv[n++] = voucher->keys.buyers;
    argv[n++] = voucher->keys.journal;
    argv[n++] = voucher->keys.repeats;
    argv[n++] = voucher->keys.ended;
    argv[n++] = journal_id;
    argv[n++] = entry->ends ? sk_params_number(epoch, entry->epoch) : "";
    if (entry->corrections.failed || (size_t)n + entry->correction_count * 4 > SK_REDIS_ARGS_MAX)
        return SK_NO_MEM;
    const char *at = entry->corrections.data;
    for (size_t i = 0; i < entry->correction_count * 4; i++, at += strlen(at) + 1)
        argv[n++] = at;
    SK_FAILPOINT("writer.correcting");
    return sk_redis_script(sk_sale_redis(sale, voucher), SK_SCRIPT_SETTLE_ENTRY, 5, n, argv, NULL, entry_on_ended,
                           entry);
}

void sk_entry_end(struct sk_entry *entry)
{
    const struct sk_sale *sale = entry->sale;
    SK_ASSERT(entry->open == 0);
    bool in_journal = entry->kind != SK_ENTRY_LOOSE, here = in_journal && sk_entry_is_here(entry);
    if (in_journal && !here) // a slot of a cluster may return to the process that has the entry
        sale->orphaned(sale->recovery, entry->voucher);
    const char *argv[] = {"XDEL", entry->voucher->keys.journal, entry->journal_id};
    enum sk_status status;
    if (entry->correction_count > 0) {
        status = entry_correct_and_drop(entry, here ? entry->journal_id : "");
    } else if (here) {
        status = sk_redis_command(sk_sale_redis(sale, entry->voucher), 3, argv, NULL, entry_on_ended, entry);
    } else {
        sk_entry_forget(entry);
        return;
    }
    if (status != SK_OK) {
        sk_log(SK_LOG_WARN, "journal entry left to recovery", "journal_id=%s", entry->journal_id);
        sale->orphaned(sale->recovery, entry->voucher);
        sk_entry_forget(entry);
    }
}
