// Ending an entry is one call: XDEL if all its orders were placed, else settle_entry.lua.
#include "entry.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "failpoint.h"
#include "log.h"

struct sk_entry *sk_entry_new(const struct sk_core *core, struct sk_segment *segment, enum sk_entry_kind kind,
                              const char *journal_id)
{
    size_t len = strlen(journal_id);
    struct sk_entry *entry = len < SK_JOURNAL_ID_SIZE ? calloc(1, sizeof *entry) : NULL;
    if (entry == NULL)
        return NULL;
    entry->segment = segment;
    entry->kind = kind;
    entry->run_number = sk_redis_run_number(core->redis);
    memcpy(entry->journal_id, journal_id, len + 1);
    sk_segment_pin(segment);
    if (kind == SK_ENTRY_OWN) {
        entry->prev = segment->entries.youngest;
        if (entry->prev != NULL)
            entry->prev->next = entry;
        else
            segment->entries.oldest = entry;
        segment->entries.youngest = entry;
    }
    return entry;
}

void sk_entry_free(struct sk_entry *entry)
{
    struct sk_segment *segment = entry->segment;
    sk_segment_unpin(segment);
    if (entry->kind == SK_ENTRY_OWN) {
        if (entry->prev != NULL)
            entry->prev->next = entry->next;
        else
            segment->entries.oldest = entry->next;
        if (entry->next != NULL)
            entry->next->prev = entry->prev;
        else
            segment->entries.youngest = entry->prev;
    }
    sk_buf_free(&entry->refused);
    free(entry);
}

struct reading {
    const struct sk_core *core;
    struct sk_order_list *out;
    bool failed;
};

static void read_order(void *arg, const char *id, const char *user)
{
    struct reading *reading = arg;
    struct sk_order *order = reading->failed ? NULL : sk_order_take(reading->core->orders);
    if (order == NULL) {
        reading->failed = true;
        return;
    }
    memcpy(order->id, id, SK_UUID_SIZE);
    memcpy(order->user, user, strlen(user) + 1);
    order->patient = true;
    sk_order_push(reading->out, order);
}

bool sk_entry_read_orders(const struct sk_core *core, const char *orders, size_t len, struct sk_order_list *out)
{
    struct reading reading = {.core = core, .out = out};
    struct sk_order *order;
    if (sk_journal_parse(orders, len, read_order, &reading) > 0 && !reading.failed)
        return true;
    while ((order = sk_order_pop(out)) != NULL)
        sk_order_give(core->orders, order);
    return false;
}

void sk_entry_note_refused(struct sk_entry *entry, const struct sk_order *order, enum sk_correction correction,
                           const char *live_id)
{
    const char *word = correction == SK_CORRECTION_RETURN ? "return" : "drop";
    const char *parts[] = {word, order->id, order->user, live_id == NULL ? "" : live_id};
    for (int i = 0; i < 4; i++)
        sk_buf_add(&entry->refused, parts[i], strlen(parts[i]) + 1);
    entry->refused_count++;
}

static void on_ended(void *arg, const struct sk_reply *reply)
{
    (void)arg;
    if (reply != NULL && sk_reply_error(reply) != NULL)
        sk_log_text(SK_WARN, "journal entry not dropped; recovery will", "reason", sk_reply_error(reply));
}

static enum sk_status correct_and_drop(const struct sk_core *core, const struct sk_entry *entry, const char *journal_id)
{
    const struct sk_segment *segment = entry->segment;
    const char *argv[SK_REDIS_ARGS_MAX];
    char hold_ms[24];
    int n = 0;
    (void)snprintf(hold_ms, sizeof hold_ms, "%" PRId64, core->config->sold_out_mark_ms);
    argv[n++] = segment->keys.voucher;
    argv[n++] = segment->keys.buyers;
    argv[n++] = segment->keys.journal;
    argv[n++] = journal_id;
    argv[n++] = hold_ms;
    if (entry->refused.failed || (size_t)n + entry->refused_count * 4 > SK_REDIS_ARGS_MAX)
        return SK_NO_MEM;
    const char *at = entry->refused.data;
    for (size_t i = 0; i < entry->refused_count * 4; i++, at += strlen(at) + 1)
        argv[n++] = at;
    SK_FAILPOINT("writer.correcting");
    return sk_redis_script(core->redis, SK_SCRIPT_SETTLE_ENTRY, 3, n, argv, NULL, on_ended, NULL);
}

void sk_entry_end(const struct sk_core *core, const struct sk_entry *entry)
{
    // Another Redis process than the one that made the entry is rebuilt from PostgreSQL before it sells: the
    // entry is not there, and one of the same id may be another's.
    bool same_run = entry->run_number == sk_redis_run_number(core->redis);
    const char *argv[] = {"XDEL", entry->segment->keys.journal, entry->journal_id};
    enum sk_status status = SK_OK;
    if (entry->refused_count > 0)
        status = correct_and_drop(core, entry, same_run ? entry->journal_id : "");
    else if (same_run && entry->kind != SK_ENTRY_LOOSE)
        status = sk_redis_command(core->redis, 3, argv, NULL, on_ended, NULL);
    if (status != SK_OK)
        sk_log(SK_WARN, "journal entry left to recovery", "journal_id=%s", entry->journal_id);
}
