// Puts the parts of a reactor's sale together, and takes them apart in reverse order.
#include "sale.h"

#include <string.h>

#include "admit.h"
#include "failpoint.h"
#include "place.h"
#include "recover.h"
#include "regrant.h"
#include "writer.h"

enum { RETRY_AFTER_MS = 1000 };

struct sk_sale {
    struct sk_core core;
    struct sk_admit *admit;
    struct sk_place *place;
    struct sk_writer *writer;
    struct sk_regrant *regrant;
    struct sk_recover *recover;
    struct sk_inquiries *inquiries;
    struct sk_repairs *repairs;
    struct sk_creations *creations;
};

static void on_redis_change(void *arg, bool ready)
{
    struct sk_sale *sale = arg;
    if (ready && sale->recover != NULL)
        sk_recover_hurry(sale->recover); // it may have lost something
}

static void on_pg_change(void *arg, bool ready)
{
    struct sk_sale *sale = arg;
    if (ready && sale->writer != NULL)
        sk_writer_pump(sale->writer, false);
    if (ready && sale->recover != NULL)
        sk_recover_hurry(sale->recover);
}

static enum sk_status open_stores(struct sk_sale *sale)
{
    struct sk_core *core = &sale->core;
    const struct sk_config *config = core->config;
    struct sk_redis_options redis = {config->redis_url, (uint32_t)config->redis_timeout_ms, on_redis_change, sale};
    struct sk_pg_options pg = {config->database_url, (uint32_t)config->pg_timeout_ms, on_pg_change, sale};
    core->redis = sk_redis_open(core->loop, &redis);
    core->pg = sk_pg_open(core->loop, &pg);
    if (core->redis == NULL || core->pg == NULL)
        return SK_FAIL;
    core->locker = sk_locker_open(core->loop, core->redis, (uint32_t)config->lock_ttl_ms);
    core->vouchers = sk_vouchers_new();
    core->orders = sk_order_pool_new((size_t)config->journal_max_orders);
    return core->locker != NULL && core->vouchers != NULL && core->orders != NULL ? SK_OK : SK_NO_MEM;
}

static enum sk_status open_parts(struct sk_sale *sale)
{
    const struct sk_core *core = &sale->core;
    sale->admit = sk_admit_open(core);
    sale->recover = sk_recover_open(core);
    sale->regrant = sk_regrant_open(core);
    if (sale->admit == NULL || sale->recover == NULL || sale->regrant == NULL)
        return SK_NO_MEM;
    struct sk_writer_events events = {sk_recover_settled, sk_regrant_add, sale->recover, sale->regrant};
    sale->writer = sk_writer_open(core, &events);
    if (sale->writer == NULL)
        return SK_NO_MEM;
    sk_recover_set_writer(sale->recover, sale->writer);
    sk_regrant_set_writer(sale->regrant, sale->writer);
    sale->place = sk_place_open(core, sale->admit, sale->writer);
    sale->inquiries = sk_inquiries_open(core);
    sale->repairs = sk_repairs_open(core, sale->regrant);
    sale->creations = sk_creations_open(core);
    bool complete = sale->place != NULL && sale->inquiries != NULL && sale->repairs != NULL && sale->creations != NULL;
    return complete ? SK_OK : SK_NO_MEM;
}

struct sk_sale *sk_sale_open(const struct sk_sale_options *options)
{
    struct sk_sale *sale = calloc(1, sizeof *sale);
    if (sale == NULL)
        return NULL;
    sale->core.loop = options->loop;
    sale->core.config = options->config;
    sale->core.on_outcome = options->on_outcome;
    sale->core.arg = options->arg;
    if (open_stores(sale) != SK_OK || open_parts(sale) != SK_OK) {
        sk_sale_close(sale);
        return NULL;
    }
    return sale;
}

void sk_sale_close(struct sk_sale *sale)
{
    if (sale == NULL)
        return;
    // The links go first: their last callbacks still find everything in place.
    sk_pg_close(sale->core.pg);
    sk_redis_close(sale->core.redis);
    sk_creations_close(sale->creations);
    sk_repairs_close(sale->repairs);
    sk_inquiries_close(sale->inquiries);
    sk_place_close(sale->place);
    sk_regrant_close(sale->regrant);
    sk_writer_close(sale->writer);
    sk_recover_close(sale->recover);
    sk_admit_close(sale->admit);
    sk_locker_close(sale->core.locker);
    sk_order_pool_free(sale->core.orders);
    sk_vouchers_free(sale->core.vouchers);
    free(sale);
}

bool sk_sale_place(struct sk_sale *sale, int64_t voucher_id, const char *user, uint64_t ticket, bool patient,
                   struct sk_outcome *outcome)
{
    const struct sk_core *core = &sale->core;
    // Without Redis nothing is certain, not even what was remembered a moment ago.
    *outcome = (struct sk_outcome){.verdict = SK_VERDICT_UNAVAILABLE, .retry_after_ms = RETRY_AFTER_MS};
    if (!sk_redis_ready(core->redis))
        return false;
    struct sk_voucher *voucher = sk_vouchers_get(core->vouchers, voucher_id, uv_now(core->loop));
    if (voucher != NULL && sk_admit_refuses(sale->admit, voucher, user, outcome))
        return false;
    struct sk_order *order = voucher == NULL ? NULL : sk_order_take(core->orders);
    if (order == NULL) {
        *outcome = (struct sk_outcome){.verdict = SK_VERDICT_OVERLOADED, .retry_after_ms = RETRY_AFTER_MS};
        return false;
    }
    order->ticket = ticket;
    order->patient = patient;
    size_t len = strlen(user);
    SK_ASSERT(len < sizeof order->user);
    memcpy(order->user, user, len + 1);
    sk_place_add(sale->place, voucher, order);
    return true;
}

struct sk_inquiries *sk_sale_inquiries(struct sk_sale *sale)
{
    return sale->inquiries;
}

struct sk_repairs *sk_sale_repairs(struct sk_sale *sale)
{
    return sale->repairs;
}

struct sk_creations *sk_sale_creations(struct sk_sale *sale)
{
    return sale->creations;
}

void sk_sale_turn(struct sk_sale *sale)
{
    bool asked = sk_place_flush(sale->place);
    sk_writer_pump(sale->writer, sk_place_busy(sale->place));
    sk_redis_flush(sale->core.redis);
    if (asked)
        SK_FAILPOINT("place.sent");
}

bool sk_sale_ready(const struct sk_sale *sale)
{
    return sk_redis_ready(sale->core.redis) && sk_pg_ready(sale->core.pg);
}

bool sk_sale_give_up(struct sk_sale *sale)
{
    sk_regrant_give_up(sale->regrant);
    return !sk_regrant_idle(sale->regrant);
}

struct sk_left sk_sale_left(const struct sk_sale *sale)
{
    struct sk_left left = {0};
    sk_writer_count(sale->writer, &left);
    sk_regrant_count(sale->regrant, &left);
    return left;
}

bool sk_sale_idle(const struct sk_sale *sale)
{
    return sk_writer_idle(sale->writer) && sk_regrant_idle(sale->regrant) && sk_redis_idle(sale->core.redis);
}
