// A journal entry's orders are taken completely or not at all. The stores are fakes.

#include "entry.h"
#include "stage.h"
#include "test.h"

enum { ROOM = 3, OFFER = 5 };

#define A "018bcfe5-6800-7000-8000-00000000000a"
#define B "018bcfe5-6800-7000-8000-00000000000b"
#define C "018bcfe5-6800-7000-8000-00000000000c"
#define D "018bcfe5-6800-7000-8000-00000000000d"

static const struct sk_voucher of_first = {.shard = 0};

static void setup(void)
{
    stage_open((struct sk_sale_options){0}, 1, ROOM);
}

static void teardown(void)
{
    stage_close();
}

static bool take(const char *text, struct sk_order_list *out)
{
    return sk_entry_read_orders(&sale, &of_first, text, strlen(text), OFFER, out);
}

TEST(orders_are_read)
{
    struct sk_order_list list = {0};
    ck_assert(take(A " alice 3," B " bob 1 0123456789abcdef," C " carol", &list));
    ck_assert_uint_eq(list.count, 3);
    ck_assert_str_eq(list.head->id, A);
    ck_assert_str_eq(list.head->user, "alice");
    ck_assert_uint_eq(list.head->quantity, 3);
    ck_assert_uint_eq(list.head->key, 0);
    ck_assert_str_eq(list.head->next->user, "bob");
    ck_assert_uint_eq(list.head->next->quantity, 1);
    ck_assert_uint_eq(list.head->next->key, UINT64_C(0x0123456789abcdef));
    ck_assert_str_eq(list.tail->id, C);
    ck_assert_str_eq(list.tail->user, "carol");
    ck_assert_uint_eq(list.tail->quantity, 1);
    ck_assert_uint_eq(list.tail->key, 0);
    for (; list.head != NULL; sk_order_give(sale.orders, list.head))
        ck_assert(list.head->offer == OFFER && list.head->low_priority && list.head->entry == NULL &&
                  list.head->handle == 0);
}

// ... all or none: not without room or memory, which fail in the same way, nor from a bad text.
TEST_EACH(of_a_text_that_cannot_be_taken_none_is, 4)
{
    static const char *const texts[] = {A " alice," B " bob," C " carol," D " dave", A " alice," B " ", A " alice 1001",
                                        A " alice 3," B " bob 1 0"};
    struct sk_order_list list = {0};
    ck_assert(!take(texts[_i], &list));
    ck_assert_uint_eq(list.count, 0);
    ck_assert_uint_eq(sk_order_pool_out(sale.orders), 0);
}

// ---- the end ----

// For each order: units, id, user, and the buyer's live order ("": none; "-": none, but the order stays repeatable).
// From the bound on the "-" is followed by the number of ended orders.
TEST(what_is_not_placed_is_corrected_with_its_units)
{
    struct sk_voucher *voucher = a_voucher(sale.catalogue, 1);
    const struct sk_reply four = NUMBER(4);
    struct sk_entry *entry = own_entry(voucher, 7, "10-1");
    sk_entry_note_refused(entry, A, "alice", 3, B);
    sk_entry_note_refused(entry, B, "bob", 0, NULL);
    sk_entry_note_ended(entry, C, "carol", 2, 19, NULL, NULL);
    sk_entry_note_ended(entry, D, "dave", 0, 20, NULL, NULL);
    entry->ends = true;
    sk_entry_end(entry);
    ck_assert_int_eq(fake_redis.asked[0].what, SK_SCRIPT_SETTLE_ENTRY);
    ck_assert_int_eq(fake_redis.asked[0].keys, 5);
    ck_assert_str_eq(words_from(&fake_redis.asked[0], 0),
                     "seckill:{1}:voucher seckill:{1}:buyers seckill:{1}:journal seckill:{1}:repeats seckill:{1}:ended "
                     "10-1 7 3 " A " alice " B " 0 " B " bob '' 2 " C " carol - 0 " D " dave -20");
    redis_answers(&four);
    ck_assert(sk_list_is_empty(&voucher->entries.own));
    ck_assert_int_eq(orphans, 0);
}

// It is held until Redis confirms its removal. Any entry in the journal that is not held is an orphan.
TEST_EACH(an_entry_is_held_until_it_is_dropped, 8)
{
    static const struct sk_reply done = NUMBER(1), error = ERROR("OOM");
    static const struct sk_reply *const answers[] = {&done, &error, NULL};
    int i = _i % 4;
    struct sk_voucher *voucher = a_voucher(sale.catalogue, 1);
    struct sk_entry *entry = own_entry(voucher, 7, "10-1");
    const struct sk_entry *at = NULL;
    if (_i >= 4)
        sk_entry_note_refused(entry, A, "alice", 3, NULL);
    fake_redis.down = i == 3;
    sk_entry_end(entry);
    ck_assert_uint_eq(fake_redis.count, i < 3);
    ck_assert(sk_entry_holds(&sale, voucher, &at, "10-1", 7) == (i < 3));
    if (i < 3)
        redis_answers(answers[i]);
    at = NULL;
    ck_assert(!sk_entry_holds(&sale, voucher, &at, "10-1", 7));
    ck_assert_int_eq(orphans, i > 0);
}

// Its slot may return to the node that has the entry. A loose one is nowhere. Under a newer epoch, the same process may
// have been away meanwhile, and have given the id to another entry.
TEST(an_entry_that_may_be_elsewhere_is_not_dropped)
{
    enum { STAYS, MOVES, HAS_NEWER_EPOCH };
    static const struct {
        enum sk_entry_kind kind;
        int what;
        bool corrected;
        int calls, orphans;
    } rows[] = {
        {SK_ENTRY_OWN, MOVES, false, 0, 1},
        {SK_ENTRY_OWN, MOVES, true, 1, 1},
        {SK_ENTRY_RECOVERED, MOVES, false, 0, 1},
        {SK_ENTRY_RECOVERED, MOVES, true, 1, 1},
        {SK_ENTRY_LOOSE, MOVES, false, 0, 0},
        {SK_ENTRY_LOOSE, MOVES, true, 1, 0},
        {SK_ENTRY_OWN, STAYS, false, 1, 0},
        {SK_ENTRY_OWN, STAYS, true, 1, 0},
        {SK_ENTRY_RECOVERED, STAYS, false, 1, 0},
        {SK_ENTRY_OWN, HAS_NEWER_EPOCH, false, 0, 1},
        {SK_ENTRY_OWN, HAS_NEWER_EPOCH, true, 1, 1},
        {SK_ENTRY_RECOVERED, HAS_NEWER_EPOCH, false, 0, 1},
        {SK_ENTRY_LOOSE, HAS_NEWER_EPOCH, true, 1, 0},
    };
    const struct sk_reply one = NUMBER(1);
    struct sk_voucher *voucher = a_voucher(sale.catalogue, 1);
    fake_redis.cluster = true;
    fake_redis.second_run_number = fake_redis.run_number + 1;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t before = fake_redis.count;
        uint64_t run_number = sk_sale_run_number(&sale, voucher);
        voucher->seen.epoch = 7;
        struct sk_entry *entry = sk_entry_new(&sale, voucher, rows[i].kind, run_number);
        if (rows[i].kind != SK_ENTRY_LOOSE)
            sk_entry_name(entry, 7, "10-1");
        if (rows[i].corrected)
            sk_entry_note_refused(entry, A, "alice", 3, NULL);
        orphans = 0;
        fake_redis.swapped ^= rows[i].what == MOVES;
        voucher->seen.epoch += rows[i].what == HAS_NEWER_EPOCH;
        sk_entry_end(entry);
        ck_assert_msg(fake_redis.count == before + (size_t)rows[i].calls && orphans == rows[i].orphans, "row %zu", i);
        if (rows[i].corrected) // its journal id; none: the entry stays
            ck_assert_str_eq(fake_redis.asked[before].argv[5],
                             rows[i].orphans > 0 || rows[i].kind == SK_ENTRY_LOOSE ? "" : "10-1");
        if (rows[i].calls > 0)
            redis_answers(&one);
    }
}

// A sweep may find an old entry, or a forged one, in a journal of a newer epoch. It is dropped if that epoch was known.
TEST(an_entry_of_an_older_epoch_can_be_dropped)
{
    const struct sk_reply one = NUMBER(1);
    struct sk_voucher *voucher = a_voucher(sale.catalogue, 1);
    voucher->seen.epoch = 9;
    for (int epoch = 9; epoch <= 10; epoch++) {
        struct sk_entry *entry = sk_entry_new(&sale, voucher, SK_ENTRY_RECOVERED, fake_redis.run_number);
        sk_entry_name(entry, 1, "10-1");
        voucher->seen.epoch = epoch;
        sk_entry_end(entry);
        ck_assert_uint_eq(fake_redis.count, 1);
        ck_assert_int_eq(orphans, epoch - 9);
        if (epoch == 9)
            redis_answers(&one);
    }
}

// Along the journal. The same process gave one id twice: it was replaced meanwhile, and its clock is behind.
TEST(own_entries_are_told_from_others)
{
    static const struct {
        const char *id;
        int64_t epoch;
        bool held;
    } rows[] = {{"9-5", 7, false},  {"10-1", 7, true}, {"10-2", 7, false}, {"30-1", 7, true},
                {"10-1", 8, false}, {"10-1", 9, true}, {"30-1", 9, false}};
    struct sk_voucher *voucher = a_voucher(sale.catalogue, 1);
    const struct sk_entry *at = NULL;
    struct sk_entry *entries[] = {own_entry(voucher, 7, "10-1"), own_entry(voucher, 7, "30-1"),
                                  own_entry(voucher, 9, "10-1")};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        ck_assert_msg(sk_entry_holds(&sale, voucher, &at, rows[i].id, rows[i].epoch) == rows[i].held, "row %zu", i);
    fake_redis.run_number++; // another process: its entries are not ours
    at = NULL;
    ck_assert(!sk_entry_holds(&sale, voucher, &at, "10-1", 7));
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++)
        sk_entry_forget(entries[i]);
    ck_assert(sk_list_is_empty(&voucher->entries.own));
}

TEST_EACH(vouchers_with_own_entries_are_listed, 3)
{
    struct sk_entry *entries[3], *second = NULL;
    for (int i = 0; i < 3; i++)
        entries[i] = own_entry(a_voucher(sale.catalogue, i + 1), 7, "10-1");
    second = own_entry(entries[_i]->voucher, 7, "10-2");
    for (int left = 3; left >= 0; left--) { // first one leaves from any place, which two entries had
        int seen = 0;
        for (struct sk_voucher *voucher = sk_catalogue_open(sale.catalogue); voucher != NULL;
             voucher = voucher->entries.next, seen++)
            ck_assert(!sk_list_is_empty(&voucher->entries.own));
        ck_assert_int_eq(seen, left);
        sk_entry_forget(second);
        second = NULL;
        if (left > 0)
            sk_entry_forget(entries[(_i + 3 - left) % 3]);
    }
}

SUITE(.setup = setup, .teardown = teardown);
