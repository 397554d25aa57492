// The catalogue: contains all vouchers that are not retired, finds them by id and by slot, and keeps pinned ones.
#include "failing_memory.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

#include "catalogue.h"
#include "slot.h"
#include "test.h"
#include "voucher.h"

enum { MANY = 20000, ALLOCATIONS_MAX = 20, MAINTENANCE_SIZE = 40 };

static struct sk_catalogue *catalogue;

static void setup(void)
{
    catalogue = sk_catalogue_new(MAINTENANCE_SIZE);
    ck_assert_ptr_nonnull(catalogue);
}

static void teardown(void)
{
    sk_catalogue_free(catalogue);
}

static struct sk_catalogue_row row_of(int64_t id, int64_t change, const char *tag)
{
    return (struct sk_catalogue_row){.change = change, .voucher_id = id, .begin_ms = 10, .end_ms = 20, .tag = tag};
}

static void put(struct sk_catalogue_row row)
{
    ck_assert_int_eq(sk_catalogue_put(catalogue, &row), SK_OK);
}

static void put_voucher(int64_t id, int64_t change)
{
    char tag[SK_TAG_SIZE];
    (void)snprintf(tag, sizeof tag, "%" PRId64, id);
    put(row_of(id, change, tag));
}

static void put_state(int64_t id, int64_t change, enum sk_voucher_state state)
{
    struct sk_catalogue_row row = row_of(id, change, "x");
    row.state = state;
    put(row);
}

static void retire(int64_t id, int64_t change)
{
    put_state(id, change, SK_VOUCHER_RETIRED);
}

static struct sk_voucher *found(int64_t id)
{
    struct sk_voucher *voucher = sk_catalogue_find(catalogue, id);
    ck_assert_msg(voucher != NULL, "voucher %d is not in the catalogue", (int)id);
    ck_assert_int_eq(voucher->id, id);
    return voucher;
}

static size_t count_at_slot(unsigned slot)
{
    size_t count = 0;
    for (struct sk_voucher *voucher = sk_catalogue_at_slot(catalogue, slot); voucher != NULL;
         voucher = voucher->next_in_slot) {
        ck_assert_uint_eq(voucher->slot, slot);
        count++;
    }
    return count;
}

static size_t count_in_slots(void)
{
    size_t count = 0;
    for (unsigned slot = 0; slot < SK_SLOTS; slot++)
        count += count_at_slot(slot);
    return count;
}

// Each voucher has one place, and each place one voucher.
static void places_must_be_right(size_t count)
{
    ck_assert_uint_eq(sk_catalogue_count(catalogue), count);
    for (size_t i = 0; i < count; i++) {
        struct sk_voucher *voucher = sk_catalogue_at(catalogue, i);
        ck_assert_uint_eq(voucher->at, i);
        ck_assert_ptr_eq(sk_catalogue_find(catalogue, voucher->id), voucher);
    }
}

TEST(nothing_is_found_in_an_empty_one)
{
    ck_assert_ptr_null(sk_catalogue_find(catalogue, 1));
    ck_assert_ptr_null(sk_catalogue_at_slot(catalogue, 7));
    ck_assert_ptr_null(sk_catalogue_open(catalogue));
    ck_assert_uint_eq(sk_catalogue_count(catalogue), 0);
    retire(1, 1);
    ck_assert_ptr_null(sk_catalogue_find(catalogue, 1));
}

TEST(a_voucher_is_found_with_its_terms_and_its_keys)
{
    put_voucher(7, 3);
    struct sk_voucher *voucher = found(7);
    ck_assert_int_eq(voucher->change, 3);
    ck_assert_int_eq(voucher->begin_ms, 10);
    ck_assert_int_eq(voucher->end_ms, 20);
    ck_assert_int_eq(voucher->state, SK_VOUCHER_OPEN);
    ck_assert_str_eq(voucher->tag, "7");
    ck_assert_str_eq(voucher->keys.journal, "seckill:{7}:journal");
    ck_assert_uint_eq(voucher->slot, sk_slot("7", 1));
    ck_assert_ptr_eq(sk_catalogue_at_slot(catalogue, voucher->slot), voucher);
    static const char zeros[MAINTENANCE_SIZE];
    ck_assert_mem_eq(voucher->maintenance, zeros, MAINTENANCE_SIZE);
    put_voucher(INT64_MAX, 4);
    ck_assert_str_eq(found(INT64_MAX)->keys.buyers, "seckill:{9223372036854775807}:buyers");
    places_must_be_right(2);
}

TEST(only_a_newer_change_is_taken_over)
{
    put_voucher(7, 3);
    struct sk_voucher *voucher = found(7);
    for (int64_t change = 5; change >= 4; change--) { // the second is older
        struct sk_catalogue_row row = row_of(7, change, "7");
        row.end_ms = 25 + change;
        row.state = change == 5 ? SK_VOUCHER_CLOSED : SK_VOUCHER_PAUSED;
        put(row);
        ck_assert_ptr_eq(found(7), voucher);
        ck_assert_int_eq(voucher->change, 5);
        ck_assert_int_eq(voucher->end_ms, 30);
        ck_assert_int_eq(voucher->state, SK_VOUCHER_CLOSED);
    }
    retire(7, 4);
    ck_assert_ptr_eq(found(7), voucher);
    ck_assert_uint_eq(count_at_slot(voucher->slot), 1);
    places_must_be_right(1);
}

TEST(what_is_retired_leaves_and_may_return)
{
    for (int64_t id = 1; id <= 3; id++)
        put_voucher(id, id);
    unsigned slot = found(1)->slot;
    retire(1, 4); // the last one takes its place
    ck_assert_ptr_null(sk_catalogue_find(catalogue, 1));
    ck_assert_uint_eq(count_at_slot(slot), 0);
    places_must_be_right(2);
    retire(3, 5); // that was the last one
    places_must_be_right(1);
    put_voucher(1, 6);
    ck_assert_uint_eq(count_at_slot(slot), 1);
    places_must_be_right(2);
}

// The sanitizer build detects if it is freed too early, or never.
TEST(what_is_pinned_lives_until_its_last_pin)
{
    put_voucher(7, 1);
    struct sk_voucher *voucher = found(7);
    sk_voucher_pin(voucher);
    sk_voucher_pin(voucher);
    ck_assert_uint_eq(voucher->pins, 2);
    sk_voucher_pin(voucher);
    sk_voucher_unpin(voucher); // pins of catalogue vouchers come and go
    retire(7, 2);
    ck_assert(voucher->left);
    ck_assert_ptr_null(sk_catalogue_find(catalogue, 7));
    ck_assert_ptr_null(sk_catalogue_at_slot(catalogue, voucher->slot));
    put_voucher(7, 3); // a new one, while the old one still exists
    ck_assert_ptr_ne(found(7), voucher);
    sk_voucher_unpin(voucher);
    ck_assert_str_eq(voucher->tag, "7");
    ck_assert_int_eq(voucher->id, 7);
    sk_voucher_unpin(voucher);
}

TEST_ABORTS(a_pin_that_is_too_few_is_noticed)
{
    put_voucher(7, 1);
    sk_voucher_unpin(found(7));
}

TEST(there_may_be_many)
{
    for (int64_t id = 1; id <= MANY; id++)
        put_voucher(id * 3, id);
    places_must_be_right(MANY);
    ck_assert_ptr_null(sk_catalogue_find(catalogue, 4));
    ck_assert_uint_eq(count_in_slots(), MANY);
    for (int64_t id = 1; id <= MANY; id += 2)
        retire(id * 3, MANY + id);
    places_must_be_right(MANY / 2);
    for (int64_t id = 1; id <= MANY; id++)
        ck_assert_int_eq(sk_catalogue_find(catalogue, id * 3) != NULL, id % 2 == 0);
    ck_assert_uint_eq(count_in_slots(), MANY / 2);
}

// The vouchers of a slot are removed one by one, from any position in the list.
TEST(vouchers_share_a_slot)
{
    unsigned slot = sk_slot("{a}", 3); // here a tag is any word
    for (int gone = 0; gone < 3; gone++) {
        for (int i = 0; i < 3; i++)
            put(row_of(gone * 10 + i + 1, 1, "{a}"));
        ck_assert_uint_eq(count_at_slot(slot), 3);
        retire(gone * 10 + gone + 1, 2);
        ck_assert_uint_eq(count_at_slot(slot), 2);
        for (struct sk_voucher *voucher = sk_catalogue_at_slot(catalogue, slot); voucher != NULL;
             voucher = voucher->next_in_slot)
            ck_assert_int_ne(voucher->id, gone * 10 + gone + 1);
        for (int i = 0; i < 3; i++)
            retire(gone * 10 + i + 1, 3);
        ck_assert_uint_eq(count_at_slot(slot), 0);
    }
    ck_assert_ptr_null(sk_catalogue_at_slot(catalogue, SK_SLOTS + 5)); // beyond the table there is no slot
}

TEST(rows_that_cannot_be_change_nothing)
{
    char long_tag[SK_TAG_SIZE + 1];
    memset(long_tag, '7', SK_TAG_SIZE);
    long_tag[SK_TAG_SIZE] = '\0';
    struct sk_catalogue_row rows[] = {row_of(0, 1, "7"), row_of(-1, 1, "7"), row_of(7, 1, ""), row_of(7, 1, long_tag)};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        ck_assert_msg(sk_catalogue_put(catalogue, &rows[i]) == SK_FAIL, "row %d is taken", (int)i);
    ck_assert_uint_eq(sk_catalogue_count(catalogue), 0);
    put_voucher(7, 1);
    rows[3].change = 2; // nor does a known voucher
    ck_assert_int_eq(sk_catalogue_put(catalogue, &rows[3]), SK_FAIL);
    ck_assert_int_eq(found(7)->change, 1);
    long_tag[SK_TAG_SIZE - 1] = '\0'; // the longest there can be
    put(row_of(8, 1, long_tag));
    ck_assert_str_eq(found(8)->tag, long_tag);
}

TEST(where_memory_is_short_nothing_changes)
{
    int n = 1;
    enum sk_status status = SK_NO_MEM;
    allocations_left = 1;
    ck_assert_ptr_null(sk_catalogue_new(1));
    for (; status == SK_NO_MEM; n++) {
        struct sk_catalogue_row row = row_of(7, 1, "7");
        ck_assert_int_lt(n, ALLOCATIONS_MAX);
        teardown(); // memory of the previous attempt must not be reused
        setup();
        allocations_left = n;
        status = sk_catalogue_put(catalogue, &row);
        allocations_left = 0;
        if (status == SK_NO_MEM) {
            ck_assert_ptr_null(sk_catalogue_find(catalogue, 7));
            ck_assert_uint_eq(count_at_slot(sk_slot("7", 1)), 0);
            places_must_be_right(0);
        }
    }
    ck_assert_int_gt(n, 4); // some allocations must have failed
    ck_assert_int_eq(status, SK_OK);
    ck_assert_uint_eq(count_at_slot(sk_slot("7", 1)), 1);
    places_must_be_right(1);
}

// The table grows at the 257th voucher.
TEST(memory_that_is_short_while_the_table_grows)
{
    enum { FIRST = 256 };
    for (int64_t id = 1; id <= FIRST; id++)
        put_voucher(id, id);
    for (int n = 1; n <= 2; n++) {
        struct sk_catalogue_row row = row_of(1000, 1000, "1000");
        allocations_left = n;
        ck_assert_int_eq(sk_catalogue_put(catalogue, &row), SK_NO_MEM);
        allocations_left = 0;
        places_must_be_right(FIRST);
    }
    put_voucher(1000, 1000);
    places_must_be_right(FIRST + 1);
}

// ---- what buyers are shown ----

static void must_list(const char *ids)
{
    char text[64] = "";
    size_t count, len = 0;
    const struct sk_listed *listed = sk_catalogue_listed(catalogue, &count);
    for (size_t i = 0; i < count; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%" PRId64, i == 0 ? "" : " ", listed[i].id);
    ck_assert_str_eq(text, ids);
}

TEST(open_and_paused_ones_are_listed)
{
    must_list("");
    put_state(4, 1, SK_VOUCHER_OPEN);
    put_state(9, 2, SK_VOUCHER_PAUSED);
    put_state(2, 3, SK_VOUCHER_CLOSED);
    put_state(7, 4, SK_VOUCHER_OPEN);
    must_list("9 7 4");
    must_list("9 7 4");
    put_state(7, 5, SK_VOUCHER_CLOSED);
    put_state(11, 6, SK_VOUCHER_OPEN);
    must_list("11 9 4");
    retire(9, 7);
    must_list("11 4");
    retire(4, 8);
    retire(11, 9);
    must_list("");
    for (int64_t id = 1; id <= MANY; id++)
        put_voucher(id, 10 + id);
    size_t count;
    const struct sk_listed *listed = sk_catalogue_listed(catalogue, &count);
    ck_assert_uint_eq(count, MANY);
    for (size_t i = 0; i < count; i++)
        ck_assert_int_eq(listed[i].id, (int64_t)(MANY - i));
    ck_assert_ptr_eq(listed[0].voucher, found(MANY));
}

TEST(a_document_is_kept)
{
    put_voucher(7, 1);
    struct sk_voucher *voucher = found(7);
    ck_assert_ptr_null(voucher->document);
    ck_assert_int_eq(sk_voucher_keep_document(voucher, "{}"), SK_OK);
    ck_assert_int_eq(sk_voucher_keep_document(voucher, "{\"id\":\"7\"}"), SK_OK);
    allocations_left = 1;
    ck_assert_int_eq(sk_voucher_keep_document(voucher, "{}"), SK_NO_MEM);
    allocations_left = 0;
    ck_assert_str_eq(voucher->document, "{\"id\":\"7\"}");
}

SUITE(.setup = setup, .teardown = teardown);
