// A letter ends by its orders being known to PostgreSQL, as placed or as refused; nothing else marks it. So
// an answer that was lost, or an instance that died half-way, leaves a letter that can be decided again.
#include "repair.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "entry.h"
#include "params.h"
#include "rebuild.h"

enum { RETRY_AFTER_MS = 1000 };

struct sk_repairs {
    const struct sk_core *core;
    struct sk_regrant *regrant;
};

struct repair {
    struct sk_repairs *repairs;
    uint64_t ticket;
    struct sk_segment *voucher; // pinned
    bool write_off;
    char slot[SK_PARAM_NUMBER_SIZE], voucher_id[SK_PARAM_NUMBER_SIZE], letter[SK_PARAM_NUMBER_SIZE];
    size_t orders;
};

struct sk_repairs *sk_repairs_open(const struct sk_core *core, struct sk_regrant *regrant)
{
    struct sk_repairs *repairs = calloc(1, sizeof *repairs);
    if (repairs == NULL)
        return NULL;
    repairs->core = core;
    repairs->regrant = regrant;
    return repairs;
}

void sk_repairs_close(struct sk_repairs *repairs)
{
    free(repairs);
}

static void tell(const struct sk_repairs *repairs, uint64_t ticket, enum sk_verdict verdict, const char *document)
{
    struct sk_outcome outcome = {.verdict = verdict, .document = document};
    if (sk_verdict_http_status(verdict) == 503)
        outcome.retry_after_ms = RETRY_AFTER_MS;
    repairs->core->on_outcome(repairs->core->arg, ticket, &outcome);
}

static struct repair *begin(struct sk_repairs *repairs, int64_t voucher_id, int64_t letter, uint64_t ticket)
{
    const struct sk_core *core = repairs->core;
    struct sk_segment *voucher = sk_segments_get(core->segments, voucher_id, uv_now(core->loop));
    struct repair *repair = voucher == NULL ? NULL : calloc(1, sizeof *repair);
    if (repair == NULL) {
        tell(repairs, ticket, SK_VERDICT_OVERLOADED, NULL);
        return NULL;
    }
    repair->repairs = repairs;
    repair->ticket = ticket;
    repair->voucher = voucher;
    sk_segment_pin(voucher);
    (void)sk_params_number(repair->slot, voucher->slot);
    (void)sk_params_number(repair->voucher_id, voucher_id);
    (void)sk_params_number(repair->letter, letter);
    return repair;
}

static void end(struct repair *repair, enum sk_verdict verdict, const char *document)
{
    tell(repair->repairs, repair->ticket, verdict, document);
    sk_segment_unpin(repair->voucher);
    free(repair);
}

static void call_pg(struct repair *repair, enum sk_statement statement, int n, const char *const *params,
                    sk_pg_cb *done)
{
    enum sk_status status = sk_pg_call(repair->repairs->core->pg, statement, n, params, done, repair);
    if (status != SK_OK)
        end(repair, status == SK_DOWN ? SK_VERDICT_UNAVAILABLE : SK_VERDICT_OVERLOADED, NULL);
}

static void find_voucher(struct repair *repair, sk_pg_cb *done)
{
    const char *params[] = {repair->voucher_id};
    call_pg(repair, SK_STATEMENT_FIND_VOUCHER, 1, params, done);
}

// `n`: of slot, voucher, letter.
static void ask_letters(struct repair *repair, enum sk_statement statement, int n, sk_pg_cb *done)
{
    const char *params[] = {repair->slot, repair->voucher_id, repair->letter};
    call_pg(repair, statement, n, params, done);
}

// Answers with the number of orders concerned.
static void end_counted(struct repair *repair, const char *what)
{
    char document[64];
    (void)snprintf(document, sizeof document, "{\"%s\":%zu}", what, repair->orders);
    end(repair, SK_VERDICT_FOUND, document);
}

// ---- reconcile ----

static void on_voucher(void *arg, const struct sk_result *result)
{
    const struct sk_rows *rows = result->rows;
    struct repair *repair = arg;
    if (rows == NULL)
        end(repair, SK_VERDICT_UNAVAILABLE, NULL);
    else if (sk_rows_count(rows) == 0)
        end(repair, SK_VERDICT_UNKNOWN_VOUCHER, NULL);
    else
        end(repair, SK_VERDICT_FOUND, sk_rows_text(rows, 0, 3));
}

static void on_reconciled(void *arg, bool ok)
{
    struct repair *repair = arg;
    if (ok)
        find_voucher(repair, on_voucher);
    else
        end(repair, SK_VERDICT_LOADING, NULL);
}

static void on_known(void *arg, const struct sk_result *result)
{
    const struct sk_rows *rows = result->rows;
    struct repair *repair = arg;
    if (rows == NULL || sk_rows_count(rows) == 0) {
        on_voucher(repair, result);
        return;
    }
    enum sk_status status = sk_rebuild(repair->repairs->core, repair->voucher, on_reconciled, repair);
    if (status != SK_OK)
        end(repair, status == SK_DOWN ? SK_VERDICT_UNAVAILABLE : SK_VERDICT_LOADING, NULL);
}

void sk_repair_reconcile(struct sk_repairs *repairs, int64_t voucher_id, uint64_t ticket)
{
    struct repair *repair = begin(repairs, voucher_id, 0, ticket);
    if (repair != NULL)
        find_voucher(repair, on_known);
}

// ---- dead letters ----

static void on_list(void *arg, const struct sk_result *result)
{
    const struct sk_rows *rows = result->rows;
    struct repair *repair = arg;
    struct sk_buf body = {0};
    if (rows == NULL) {
        end(repair, SK_VERDICT_UNAVAILABLE, NULL);
        return;
    }
    bool more = strcmp(sk_rows_text(rows, 0, 1), "t") == 0;
    sk_buf_printf(&body, "{\"dead_letters\":%s,\"more\":%s}", sk_rows_text(rows, 0, 0), more ? "true" : "false");
    end(repair, body.failed ? SK_VERDICT_OVERLOADED : SK_VERDICT_FOUND, body.data);
    sk_buf_free(&body);
}

void sk_repair_list(struct sk_repairs *repairs, int64_t voucher_id, uint64_t ticket)
{
    struct repair *repair = begin(repairs, voucher_id, 0, ticket);
    if (repair != NULL)
        ask_letters(repair, SK_STATEMENT_LIST_DEAD_LETTERS, 2, on_list);
}

static void requeue(struct repair *repair, const char *orders)
{
    const struct sk_core *core = repair->repairs->core;
    struct sk_order_list list = {0};
    if (sk_journal_parse(orders, strlen(orders), NULL, NULL) < 0) {
        end(repair, SK_VERDICT_UNREADABLE, NULL);
        return;
    }
    struct sk_entry *entry = sk_entry_new(core, repair->voucher, SK_ENTRY_LOOSE, "");
    if (entry == NULL || !sk_entry_read_orders(core, orders, strlen(orders), &list)) {
        if (entry != NULL)
            sk_entry_free(entry);
        end(repair, SK_VERDICT_OVERLOADED, NULL);
        return;
    }
    struct sk_order *order;
    for (; (order = sk_order_pop(&list)) != NULL; repair->orders++)
        sk_regrant_requeue(repair->repairs->regrant, entry, order);
    end_counted(repair, "requeued");
}

// PostgreSQL has refused the orders; Redis gives back the units of those that it still holds.
static void on_written_off(void *arg, const struct sk_result *result)
{
    const struct sk_rows *rows = result->rows;
    struct repair *repair = arg;
    const struct sk_core *core = repair->repairs->core;
    struct sk_entry *entry = rows == NULL ? NULL : sk_entry_new(core, repair->voucher, SK_ENTRY_LOOSE, "");
    if (entry == NULL) {
        end(repair, SK_VERDICT_UNAVAILABLE, NULL);
        return;
    }
    for (size_t i = 0; i < sk_rows_count(rows); i++) {
        struct sk_order order = {0};
        (void)snprintf(order.id, sizeof order.id, "%s", sk_rows_text(rows, i, 0));
        (void)snprintf(order.user, sizeof order.user, "%s", sk_rows_text(rows, i, 1));
        sk_entry_note_refused(entry, &order, SK_CORRECTION_RETURN, NULL);
        repair->orders++;
    }
    sk_entry_end(core, entry);
    sk_entry_free(entry);
    end_counted(repair, "written_off");
}

static void on_letter(void *arg, const struct sk_result *result)
{
    const struct sk_rows *rows = result->rows;
    struct repair *repair = arg;
    if (rows == NULL) {
        end(repair, SK_VERDICT_UNAVAILABLE, NULL);
        return;
    }
    bool waits = sk_rows_count(rows) == 1 && strcmp(sk_rows_text(rows, 0, 1), "t") == 0; // not written off
    if (sk_rows_count(rows) == 0 || (!waits && !repair->write_off))
        end(repair, SK_VERDICT_NOT_FOUND, NULL);
    else if (repair->write_off)
        ask_letters(repair, SK_STATEMENT_WRITE_OFF, 3, on_written_off);
    else if (sk_rows_text(rows, 0, 0) == NULL)
        end(repair, SK_VERDICT_UNREADABLE, NULL);
    else
        requeue(repair, sk_rows_text(rows, 0, 0));
}

void sk_repair_requeue(struct sk_repairs *repairs, int64_t voucher_id, int64_t letter, uint64_t ticket)
{
    struct repair *repair = begin(repairs, voucher_id, letter, ticket);
    if (repair != NULL)
        ask_letters(repair, SK_STATEMENT_FIND_DEAD_LETTER, 3, on_letter);
}

void sk_repair_write_off(struct sk_repairs *repairs, int64_t voucher_id, int64_t letter, uint64_t ticket)
{
    struct repair *repair = begin(repairs, voucher_id, letter, ticket);
    if (repair == NULL)
        return;
    repair->write_off = true;
    ask_letters(repair, SK_STATEMENT_FIND_DEAD_LETTER, 3, on_letter);
}
