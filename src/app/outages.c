// Reads what the reactors publish for /metrics. So the main thread can do it, and no reactor has to.
#include "outages.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "metrics.h"

struct outage {
    const char *store;
    char name[SK_SERVER_NAME_SIZE];
    uint64_t since_ms, logged_ms; // 0: not logged yet
    uint64_t most_waiting;        // orders
};

struct sk_outages {
    struct sk_metrics_sum sum;
    uint64_t next_ms;
    struct outage all[SK_SERVERS_MAX];
    size_t count;
    uint64_t waiting; // orders
};

static const char unknown[] = "unknown"; // no sentinel has named a master yet, or no node of a cluster is known

struct sk_outages *sk_outages_open(void)
{
    return calloc(1, sizeof(struct sk_outages));
}

void sk_outages_close(struct sk_outages *outages)
{
    free(outages);
}

static uint64_t outages_count_waiting(const struct sk_metrics_sum *sum)
{
    static const enum sk_metric states[] = {
        SK_METRIC_ORDERS_WAITING, SK_METRIC_ORDERS_DELAYED,    SK_METRIC_ORDERS_WRITING, SK_METRIC_ORDERS_SETTING_ASIDE,
        SK_METRIC_ORDERS_LOST,    SK_METRIC_ORDERS_REGRANTING, SK_METRIC_ORDERS_REFUSING};
    uint64_t orders = 0;
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++)
        orders += sum->values[states[i]];
    return orders;
}

static void outages_note_unknown(struct sk_server_rows *rows)
{
    bool known = rows->count == 0; // no reactor has published its servers yet
    for (size_t i = 0; i < rows->count; i++)
        known = known || strcmp(rows->rows[i].store, "redis") == 0;
    if (!known)
        (void)sk_server_table_row(rows, "redis", unknown);
}

static bool outages_is_of(const struct outage *outage, const struct sk_server_row *row)
{
    return strcmp(outage->store, row->store) == 0 && strcmp(outage->name, row->name) == 0;
}

static bool outages_is_away(const struct sk_outages *outages, const struct sk_server_row *row)
{
    return row->up < outages->sum.values[SK_METRIC_REACTORS];
}

static const char *outages_meaning(const struct sk_outages *outages, bool redis)
{
    const uint64_t *values = outages->sum.values;
    if (redis)
        return "Redis is away: purchases of its vouchers get 503";
    if (values[SK_METRIC_REACTORS_READY] < values[SK_METRIC_REACTORS])
        return "PostgreSQL is away, and this instance is not ready";
    return "PostgreSQL is away: purchases of its vouchers get 202, and their orders wait";
}

static void outages_log(const struct sk_outages *outages, const struct outage *outage, const struct sk_server_row *row,
                        enum sk_log_level level, const char *what, uint64_t now_ms)
{
    sk_log(level, what,
           "server=%s for_s=%" PRIu64 " orders_waiting=%" PRIu64 " at_most=%" PRIu64 " reactors_connected=%" PRIu64
           "/%" PRIu64,
           outage->name, (now_ms - outage->since_ms) / 1000, outages->waiting, outage->most_waiting,
           row == NULL ? 0 : row->up, outages->sum.values[SK_METRIC_REACTORS]);
}

// False: it is over.
static bool outages_review(struct sk_outages *outages, struct outage *outage, uint64_t now_ms)
{
    const struct sk_server_rows *rows = &outages->sum.servers;
    const struct sk_server_row *row = NULL;
    bool redis = strcmp(outage->store, "redis") == 0;
    if (outages->waiting > outage->most_waiting)
        outage->most_waiting = outages->waiting;
    for (size_t i = 0; i < rows->count && row == NULL; i++)
        row = outages_is_of(outage, &rows->rows[i]) ? &rows->rows[i] : NULL;
    if (row != NULL && outages_is_away(outages, row)) {
        if (outage->logged_ms == 0 || now_ms >= outage->logged_ms + SK_OUTAGES_STILL_MS) {
            outages_log(outages, outage, row, SK_LOG_ERROR, outages_meaning(outages, redis), now_ms);
            outage->logged_ms = now_ms;
        }
        return true;
    }
    bool replaced = row == NULL && strcmp(outage->name, unknown) != 0;
    if (outage->logged_ms != 0)
        outages_log(outages, outage, row, SK_LOG_INFO,
                    replaced ? "another Redis has replaced it"
                    : redis  ? "Redis is back"
                             : "PostgreSQL is back",
                    now_ms);
    return false;
}

static void outages_add(struct sk_outages *outages, const struct sk_server_row *row, uint64_t now_ms)
{
    if (!outages_is_away(outages, row) || outages->count == SK_SERVERS_MAX)
        return;
    for (size_t i = 0; i < outages->count; i++) {
        if (outages_is_of(&outages->all[i], row))
            return;
    }
    struct outage *outage = &outages->all[outages->count++];
    *outage = (struct outage){.store = row->store, .since_ms = now_ms};
    memcpy(outage->name, row->name, sizeof outage->name);
}

void sk_outages_check(struct sk_outages *outages, uint64_t now_ms)
{
    if (now_ms < outages->next_ms)
        return;
    outages->next_ms = now_ms + SK_OUTAGES_MS;
    sk_metrics_sum(&outages->sum, now_ms);
    struct sk_server_rows *rows = &outages->sum.servers;
    outages->waiting = outages_count_waiting(&outages->sum);
    outages_note_unknown(rows);
    for (size_t i = outages->count; i-- > 0;) {
        if (!outages_review(outages, &outages->all[i], now_ms))
            outages->all[i] = outages->all[--outages->count];
    }
    for (size_t i = 0; i < rows->count; i++)
        outages_add(outages, &rows->rows[i], now_ms);
}
