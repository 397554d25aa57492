// Order ids: the slot and epoch in them, and what follows for an order that no store knows.
#include <string.h>

#include "order_id.h"
#include "slot.h"
#include "test.h"

enum { EPOCHS = 1024, MANY = 100000 };

static struct sk_uuid_gen gen;

static void make(unsigned slot, int64_t epoch, char id[SK_UUID_SIZE])
{
    sk_order_id_make(&gen, slot, epoch, id);
    ck_assert(sk_uuid_valid(id));
}

TEST(an_id_tells_its_slot)
{
    static const unsigned slots[] = {0, 1, 63, 64, 8191, 8192, SK_SLOTS - 1};
    static const int64_t epochs[] = {0, 1, 1023, 1024, INT64_C(1) << 53};
    for (size_t i = 0; i < sizeof slots / sizeof slots[0]; i++) {
        for (size_t j = 0; j < sizeof epochs / sizeof epochs[0]; j++) {
            char id[SK_UUID_SIZE];
            make(slots[i], epochs[j], id);
            ck_assert_uint_eq(sk_order_id_slot(id), slots[i]);
            ck_assert_int_eq(id[14], '7'); // still a UUIDv7
        }
    }
}

TEST(the_tail_is_slot_and_epoch)
{
    char id[SK_UUID_SIZE];
    make(1, 2, id);
    ck_assert_str_eq(id + SK_UUID_CHARS - 6, "000402"); // 1 << 10 | 2
    make(SK_SLOTS - 1, EPOCHS + 3, id);
    ck_assert_str_eq(id + SK_UUID_CHARS - 6, "fffc03");
}

TEST(who_may_be_away)
{
    static const struct {
        int64_t made, now;
        bool may;
    } rows[] = {
        // Before the voucher's first epoch, or made without knowing one.
        {0, 0, false},
        {0, 1, true},
        {0, 7, true},
        // Of the current epoch: a store would know it.
        {1, 1, false},
        {7, 7, false},
        {1023, 1023, false},
        // Of an earlier epoch.
        {1, 2, true},
        {6, 7, true},
        {1, 1023, true},
        // Of an epoch that has not existed.
        {8, 7, false},
        {1023, 7, false},
        {1, 0, false},
        // From 1024 on all numbers except the current one were used.
        {1023, 1024, true},
        {1, 1024, true},
        {1024, 1024, false},
        {1024, 1025, true},
        {1000, 1025, true},
        {1025, 1025, false},
        {5, 2048 + 4, true},
        {5, 2048 + 6, true},
        {4, INT64_C(1) << 53, true},
        {0, INT64_C(1) << 53, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char id[SK_UUID_SIZE];
        make(77, rows[i].made, id);
        ck_assert_msg(sk_order_id_may_be_away(id, rows[i].now) == rows[i].may, "row %d: made %d, now %d", (int)i,
                      (int)rows[i].made, (int)rows[i].now);
    }
}

// The tail is not part of the rising number: a large slot before a small one.
TEST(ids_rise_strictly)
{
    char before[SK_UUID_SIZE], id[SK_UUID_SIZE];
    make(SK_SLOTS - 1, EPOCHS - 1, before);
    for (unsigned i = 0; i < MANY; i++) {
        make(i % 2 == 0 ? 0 : SK_SLOTS - 1, i % 3 == 0 ? 0 : EPOCHS - 1, id);
        ck_assert_msg(strcmp(before, id) < 0, "%s is not before %s", before, id);
        memcpy(before, id, sizeof before);
    }
}

SUITE(.timeout_s = 30);
