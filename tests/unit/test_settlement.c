// Parses a row of place_orders(), and writes its array arguments. PostgreSQL is a fake.
#include "settlement.h"

#include "fake_stores.h"
#include "params.h"
#include "test.h"

#define LIVE  "018bcfe5-6800-7000-8000-0123456789ab"
#define FIRST "018bcfe5-6800-7000-8000-0123456789ac"

TEST(each_word_has_its_meaning)
{
    static const char *const words[][ROW_COLUMNS] = {
        {"1", "placed", NULL, NULL, "1700000000001"},
        {"2", "already_placed"},
        {"3", "ended", LIVE, NULL, NULL, NULL, "1", NULL, "2"},
        {"4", "duplicate", LIVE, NULL, NULL, NULL, "1", LIVE " 2", NULL, "7"},
        {"5", "repeated", LIVE, FIRST},
        {"6", "reused", NULL, FIRST},
        {"7", "gone", NULL, NULL, "1700000000001", "7-1"},
        {"8", "sold_out"},
        {"9", "stale"},
        {"10", "clash"},
    };
    const struct sk_rows rows = {10, words};
    for (size_t row = 0; row < 10; row++) {
        size_t n = 99;
        struct sk_settlement_more more = {"", "", 1, "", "", 1, 1};
        ck_assert_uint_eq(sk_settlement_read(&rows, row, &n, &more), row);
        ck_assert_uint_eq(n, row);
        ck_assert_pstr_eq(more.live_id, words[row][2]);
        ck_assert_pstr_eq(more.first_id, words[row][3]);
        ck_assert_int_eq(more.created_ms, row == 0 || row == 6 ? 1700000000001 : 0);
        ck_assert_pstr_eq(more.gone_by, words[row][5]);
        ck_assert_pstr_eq(more.live, words[row][7]);
        ck_assert_uint_eq(more.ended_nth, row == 2 ? 2 : 0);
        ck_assert_int_eq(more.live_voucher, row == 3 ? 7 : 0);
    }
}

// An unknown outcome is never taken for placed.
TEST(what_is_not_known_is_a_clash)
{
    static const char *const words[][ROW_COLUMNS] = {{"1", NULL}, {"1", ""}, {"1", "place"}, {"1", "Placed"}};
    const struct sk_rows rows = {4, words};
    for (size_t row = 0; row < 4; row++) {
        size_t n;
        ck_assert_uint_eq(sk_settlement_read(&rows, row, &n, NULL), SK_SETTLEMENT_CLASH);
    }
}

TEST(one_row_may_stand_for_all)
{
    static const char *const words[][ROW_COLUMNS] = {{NULL, "placed"}, {NULL, "stale"}, {NULL, "?"}, {"1", "placed"}};
    static const enum sk_settlement wanted[] = {SK_SETTLEMENT_PLACED, SK_SETTLEMENT_STALE, SK_SETTLEMENT_CLASH,
                                                SK_SETTLEMENT_PLACED};
    const struct sk_rows rows = {4, words};
    for (size_t row = 0; row < 4; row++) {
        size_t n = 99;
        ck_assert_uint_eq(sk_settlement_read(&rows, row, &n, NULL), wanted[row]);
        ck_assert_uint_eq(n, row < 3 ? SK_SETTLEMENT_OF_ALL : 0);
    }
}

TEST(arrays_are_written)
{
    struct sk_buf array = {0};
    sk_params_begin(&array);
    ck_assert_str_eq(sk_params_end(&array), "{}");
    sk_params_begin(&array);
    sk_params_add(&array, "7");
    ck_assert_str_eq(sk_params_end(&array), "{7}");
    sk_params_begin(&array);
    sk_params_add_text(&array, "alice");
    sk_params_add_text(&array, "null");
    ck_assert_str_eq(sk_params_end(&array), "{\"alice\",\"null\"}");
    array.failed = true;
    ck_assert_ptr_null(sk_params_end(&array));
    sk_buf_free(&array);
}

TEST(numbers_are_written)
{
    char out[SK_PARAM_NUMBER_SIZE];
    ck_assert_str_eq(sk_params_number(out, INT64_MIN), "-9223372036854775808");
    ck_assert_str_eq(sk_params_number(out, 0), "0");
}

SUITE(.teardown = fake_stores_forget);
