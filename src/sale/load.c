// The steps, each one call to a store:
//   1 PostgreSQL  a new epoch: every writer still in flight is fenced off
//   2 Redis       load_begin: closed under that epoch, unless a newer one is there; old buyers go
//   3 PostgreSQL  stock and terms, as long as the epoch is still ours
//   4 PostgreSQL, Redis  the buyers, a chunk at a time
//   5 Redis       load_open: stock, terms, open
// Whoever comes later takes a newer epoch, and every step of the older one then does nothing. A step that
// fails leaves the voucher closed; the next caller starts again.
#include "load.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "admit.h"
#include "log.h"

enum { CHUNK = 1000 };

struct load {
    const struct sk_core *core;
    struct sk_voucher *voucher;
    sk_load_cb *done;
    void *arg;
    uint64_t since_ms;
    size_t buyers;
    bool last_chunk;
    char id[24], epoch[24], stock[16], begin_ms[24], end_ms[24], state[16];
    char after[SK_UUID_SIZE]; // the last order id read
};

static void end(struct load *load, const char *failed_at)
{
    struct sk_voucher *voucher = load->voucher;
    voucher->loading = false;
    voucher->loading_since_ms = 0;
    sk_admit_forget(voucher);
    if (failed_at != NULL)
        sk_log(SK_WARN, "voucher not loaded", "voucher=%s step=%s", load->id, failed_at);
    else
        sk_log(SK_INFO, "voucher loaded", "voucher=%s epoch=%s stock=%s buyers=%zu ms=%" PRIu64, load->id, load->epoch,
               load->stock, load->buyers, uv_now(load->core->loop) - load->since_ms);
    if (load->done != NULL)
        load->done(load->arg, failed_at == NULL);
    free(load);
}

static enum sk_status ask_pg(struct load *load, enum sk_statement statement, int n, const char *second, sk_pg_cb *done)
{
    const char *params[] = {load->id, second};
    return sk_pg_call(load->core->pg, statement, n, params, done, load);
}

// Each Redis step answers 1 while the loading is ours.
static bool ours(const struct sk_reply *reply)
{
    int64_t answer = 0;
    return reply != NULL && sk_reply_number(reply, &answer) && answer == 1;
}

static void on_opened(void *arg, const struct sk_reply *reply)
{
    struct load *load = arg;
    end(load, ours(reply) ? NULL : "open");
}

static void open_voucher(struct load *load)
{
    const char *argv[] = {
        load->voucher->voucher_key, load->epoch, load->stock, load->begin_ms, load->end_ms, load->state};
    if (sk_redis_script(load->core->redis, SK_SCRIPT_LOAD_OPEN, 1, 6, argv, NULL, on_opened, load) != SK_OK)
        end(load, "open");
}

static void read_chunk(struct load *load);

static void on_chunk_stored(void *arg, const struct sk_reply *reply)
{
    struct load *load = arg;
    if (!ours(reply))
        end(load, "buyers");
    else if (load->last_chunk)
        open_voucher(load);
    else
        read_chunk(load);
}

static void on_chunk(void *arg, const struct sk_rows *rows)
{
    struct load *load = arg;
    const char *argv[2 * CHUNK + 3] = {load->voucher->voucher_key, load->voucher->buyers_key, load->epoch};
    int n = 3;
    if (rows == NULL) {
        end(load, "buyers");
        return;
    }
    size_t count = sk_rows_count(rows);
    load->last_chunk = count < CHUNK;
    load->buyers += count;
    if (count == 0) {
        open_voucher(load);
        return;
    }
    SK_ASSERT(count <= CHUNK);
    for (size_t i = 0; i < count; i++) {
        argv[n++] = sk_rows_text(rows, i, 1);
        argv[n++] = sk_rows_text(rows, i, 0);
    }
    memcpy(load->after, argv[n - 1], SK_UUID_SIZE);
    if (sk_redis_script(load->core->redis, SK_SCRIPT_LOAD_BUYERS, 2, n, argv, NULL, on_chunk_stored, load) != SK_OK)
        end(load, "buyers");
}

static void read_chunk(struct load *load)
{
    if (ask_pg(load, SK_STATEMENT_LOAD_BUYERS, 2, load->after, on_chunk) != SK_OK)
        end(load, "buyers");
}

static void on_stock(void *arg, const struct sk_rows *rows)
{
    struct load *load = arg;
    if (rows == NULL || sk_rows_count(rows) != 1) {
        end(load, "stock");
        return;
    }
    (void)snprintf(load->stock, sizeof load->stock, "%s", sk_rows_text(rows, 0, 0));
    (void)snprintf(load->begin_ms, sizeof load->begin_ms, "%s", sk_rows_text(rows, 0, 1));
    (void)snprintf(load->end_ms, sizeof load->end_ms, "%s", sk_rows_text(rows, 0, 2));
    (void)snprintf(load->state, sizeof load->state, "%s", sk_rows_text(rows, 0, 3));
    read_chunk(load);
}

static void on_begun(void *arg, const struct sk_reply *reply)
{
    struct load *load = arg;
    if (!ours(reply) || ask_pg(load, SK_STATEMENT_LOAD_STOCK, 2, load->epoch, on_stock) != SK_OK)
        end(load, "begin");
}

static void on_epoch(void *arg, const struct sk_rows *rows)
{
    struct load *load = arg;
    if (rows == NULL || sk_rows_count(rows) != 1) {
        end(load, "epoch");
        return;
    }
    (void)snprintf(load->epoch, sizeof load->epoch, "%s", sk_rows_text(rows, 0, 0));
    const char *argv[] = {load->voucher->voucher_key, load->voucher->buyers_key, load->epoch};
    if (sk_redis_script(load->core->redis, SK_SCRIPT_LOAD_BEGIN, 2, 3, argv, NULL, on_begun, load) != SK_OK)
        end(load, "begin");
}

enum sk_status sk_load(const struct sk_core *core, struct sk_voucher *voucher, sk_load_cb *done, void *arg)
{
    if (voucher->loading)
        return SK_FULL;
    if (!sk_redis_ready(core->redis))
        return SK_DOWN;
    struct load *load = calloc(1, sizeof *load);
    if (load == NULL)
        return SK_NO_MEM;
    load->core = core;
    load->voucher = voucher;
    load->done = done;
    load->arg = arg;
    load->since_ms = uv_now(core->loop);
    (void)snprintf(load->id, sizeof load->id, "%" PRId64, voucher->id);
    memcpy(load->after, "00000000-0000-0000-0000-000000000000", SK_UUID_SIZE);
    enum sk_status status = ask_pg(load, SK_STATEMENT_LOAD_EPOCH, 1, NULL, on_epoch);
    if (status != SK_OK) {
        free(load);
        return status;
    }
    voucher->loading = true;
    return SK_OK;
}
