// Which side is updated when catalogue and Redis have different offers, and that the voucher is released whatever the
// result. The catalogue sync, the changes and the batcher are fakes.
#include "fake_catalogue_sync.h"

#include "batcher.h"
#include "fake_catalogue.h"
#include "recovery.h"
#include "test.h"
#include "voucher_changes.h"

enum { KNOWN = 3 };

static uv_loop_t loop;
static struct sk_shard shards[SK_SHARDS_MAX];
static struct sk_sale own_sale;
static struct sk_voucher *own_voucher;
static size_t releases, carried;
static enum sk_status carry_status;
static sk_changes_cb *carry_done;
static void *carry_arg;

void sk_batcher_release(struct sk_voucher *voucher)
{
    ck_assert_ptr_eq(voucher, own_voucher);
    releases++;
}

enum sk_status sk_changes_carry_out(const struct sk_sale *sale, struct sk_voucher *voucher, sk_changes_cb *done,
                                    void *arg)
{
    ck_assert_ptr_eq(sale, &own_sale);
    ck_assert_ptr_eq(voucher, own_voucher);
    carried++;
    carry_done = done;
    carry_arg = arg;
    return carry_status;
}

static void setup(void)
{
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    own_sale = (struct sk_sale){.loop = &loop,
                                .shards = shards,
                                .shard_count = 1,
                                .catalogue = sk_catalogue_new(sizeof(struct sk_maintenance))};
    own_voucher = a_voucher(own_sale.catalogue, 7);
    own_voucher->offer = KNOWN;
    releases = carried = fake_catalogue_sync.waits = fake_catalogue_sync.hurries = 0;
    carry_status = SK_OK;
}

static void teardown(void)
{
    ck_assert_uint_eq(own_voucher->pins, 0);
    sk_catalogue_free(own_sale.catalogue);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}

static void found(int32_t offer)
{
    struct sk_recovery recovery = {.sale = &own_sale};
    sk_recovery_offers_differ(&recovery, own_voucher, offer);
}

TEST(an_instance_that_is_behind_follows)
{
    for (int ok = 0; ok < 2; ok++) {
        found(KNOWN + 1);
        ck_assert_uint_eq(fake_catalogue_sync.waits, (size_t)ok + 1);
        ck_assert_uint_eq(releases, (size_t)ok);
        ck_assert_uint_gt(own_voucher->pins, 0);
        follow_ends(ok == 1);
        ck_assert_uint_eq(releases, (size_t)ok + 1);
    }
    ck_assert_uint_eq(fake_catalogue_sync.hurries, 1); // the second, a moment later, waits for the shared poll
    ck_assert_uint_eq(carried, 0);
}

TEST(a_redis_that_is_behind_gets_the_change)
{
    for (int ok = 0; ok < 2; ok++) {
        found(KNOWN - 1);
        ck_assert_uint_eq(carried, (size_t)ok + 1);
        ck_assert_uint_eq(releases, (size_t)ok);
        carry_done(carry_arg, ok == 1);
        ck_assert_uint_eq(releases, (size_t)ok + 1);
    }
    ck_assert_uint_eq(fake_catalogue_sync.waits, 0);
}

TEST(without_redis_it_is_released_at_once)
{
    carry_status = SK_DOWN;
    found(KNOWN - 1);
    ck_assert_uint_eq(releases, 1);
}

TEST(one_at_a_time_for_a_voucher)
{
    found(KNOWN + 1);
    found(KNOWN + 2);
    found(KNOWN - 1);
    ck_assert_uint_eq(fake_catalogue_sync.waits, 1);
    ck_assert_uint_eq(carried, 0);
    follow_ends(true);
    ck_assert_uint_eq(releases, 1);
}

SUITE(.setup = setup, .teardown = teardown);
