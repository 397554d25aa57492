// Cursors: each is read back as it was written, for its own list only, and no other text is a cursor.
#include <stdio.h>
#include <string.h>

#include "cursor.h"
#include "test.h"

#define ID            "018bcfe5-6800-7000-8000-0123456789ab"
#define LAST_ID       "ffffffff-ffff-ffff-ffff-ffffffffffff"
#define COUNT(array)  (sizeof(array) / sizeof(array)[0])
#define POSITION(...) ((const struct sk_position){__VA_ARGS__})

// An event of one of several shards has its shard above this in its id, which is no cursor.
#define EVENTS_MOST (UINT64_C(1) << 58)

static bool is_same(const struct sk_position *a, const struct sk_position *b)
{
    return a->first == b->first && a->second == b->second;
}

TEST(a_cursor_comes_out_as_it_went_in)
{
    static const struct sk_position positions[] = {
        {0, 0}, {1, 0}, {0, 1}, {7, 9}, {INT64_MAX, EVENTS_MOST - 1}, {INT64_MAX, INT64_MAX},
    };
    for (int kind = SK_CURSOR_ORDERS; kind < SK_CURSOR_KINDS; kind++) {
        for (size_t i = 0; i < COUNT(positions); i++) {
            char text[SK_CURSOR_SIZE];
            struct sk_position read = {2, 3};
            sk_cursor_put(text, (enum sk_cursor_kind)kind, "alice", &positions[i], 1);
            ck_assert_uint_eq(strlen(text), SK_CURSOR_CHARS);
            ck_assert_uint_eq(strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"),
                              SK_CURSOR_CHARS);
            bool fits = kind != SK_CURSOR_ORDER_EVENTS || positions[i].second < EVENTS_MOST;
            ck_assert(sk_cursor_read(text, (enum sk_cursor_kind)kind, "alice", &read, 1) == fits);
            ck_assert(!fits || is_same(&read, &positions[i]));
        }
    }
}

// Clients keep cursors, and other versions and instances read them.
TEST(a_cursor_is_what_it_was)
{
    char text[SK_CURSOR_SIZE];
    sk_cursor_put(text, SK_CURSOR_VOUCHERS, "", &POSITION(7, 0), 1);
    ck_assert_str_eq(text, "AgAAAAAAAAAHAAAAAAAAAAAooI_LoZ2d");
    sk_cursor_put(text, SK_CURSOR_ORDER_EVENTS, "", &POSITION(741, 12), 1);
    ck_assert_str_eq(text, "BwAAAAAAAALlAAAAAAAAAAw3Ph1X6V39");
}

TEST(a_cursor_is_of_one_list_of_one_owner)
{
    char text[SK_CURSOR_SIZE];
    struct sk_position read = {2, 3};
    sk_cursor_put(text, SK_CURSOR_ORDERS, "alice", &POSITION(5, 6), 1);
    for (int kind = SK_CURSOR_ORDERS; kind < SK_CURSOR_KINDS; kind++) {
        ck_assert(sk_cursor_read(text, (enum sk_cursor_kind)kind, "alice", &read, 1) == (kind == SK_CURSOR_ORDERS));
        ck_assert(!sk_cursor_read(text, (enum sk_cursor_kind)kind, "alicf", &read, 1));
        ck_assert(!sk_cursor_read(text, (enum sk_cursor_kind)kind, "alic", &read, 1));
        ck_assert(!sk_cursor_read(text, (enum sk_cursor_kind)kind, "", &read, 1));
    }
    ck_assert(is_same(&read, &POSITION(5, 6)));
}

TEST(what_was_made_up_is_no_cursor)
{
    char text[SK_CURSOR_SIZE], changed[SK_CURSOR_SIZE + 1];
    struct sk_position read = {2, 3};
    sk_cursor_put(text, SK_CURSOR_DEAD_LETTERS, "7", &POSITION(5, 0), 1);
    for (int i = 0; i < SK_CURSOR_CHARS; i++) {
        for (int c = 0; c < 256; c++) { // also cut there, by a NUL
            (void)snprintf(changed, sizeof changed, "%s", text);
            changed[i] = (char)c;
            ck_assert(sk_cursor_read(changed, SK_CURSOR_DEAD_LETTERS, "7", &read, 1) == (changed[i] == text[i]));
        }
    }
    (void)snprintf(changed, sizeof changed, "%sA", text);
    ck_assert(!sk_cursor_read(changed, SK_CURSOR_DEAD_LETTERS, "7", &read, 1));
    ck_assert(!sk_cursor_read(text + 1, SK_CURSOR_DEAD_LETTERS, "7", &read, 1));
    ck_assert(!sk_cursor_read("", SK_CURSOR_DEAD_LETTERS, "7", &read, 1));
    ck_assert(is_same(&read, &POSITION(5, 0)));
}

// A number out of PostgreSQL's range is rejected even if its check is right; a UUID may have any bits.
TEST(positions_that_cannot_be_are_none)
{
    static const struct sk_position positions[] = {{UINT64_C(1) << 63, 0}, {0, UINT64_MAX}};
    for (size_t i = 0; i < COUNT(positions); i++) {
        for (int kind = SK_CURSOR_ORDERS; kind < SK_CURSOR_KINDS; kind++) {
            char text[SK_CURSOR_SIZE];
            struct sk_position read;
            bool is_uuid = sk_cursor_names_order((enum sk_cursor_kind)kind);
            sk_cursor_put(text, (enum sk_cursor_kind)kind, "x", &positions[i], 1);
            ck_assert(sk_cursor_read(text, (enum sk_cursor_kind)kind, "x", &read, 1) == is_uuid);
        }
    }
}

TEST(ids_are_positions)
{
    static const char *const ids[] = {ID, LAST_ID, "00000000-0000-0000-0000-000000000000"};
    for (size_t i = 0; i < COUNT(ids); i++) {
        char id[SK_UUID_SIZE];
        struct sk_position position = sk_position_of_uuid(ids[i]);
        sk_position_put_uuid(&position, id);
        ck_assert_str_eq(id, ids[i]);
    }
    struct sk_position position = sk_position_of_uuid(ID);
    ck_assert_uint_eq(position.first, UINT64_C(0x018bcfe568007000));
    ck_assert_uint_eq(position.second, UINT64_C(0x80000123456789ab));
}

TEST(a_merged_cursor_holds_a_place_in_each_shard)
{
    struct sk_position positions[SK_SHARDS_MAX], read[SK_SHARDS_MAX];
    char text[SK_CURSOR_SIZE], alone[SK_CURSOR_SIZE];
    for (size_t i = 0; i < SK_SHARDS_MAX; i++)
        positions[i] = POSITION(100 + i, i);
    sk_cursor_put(alone, SK_CURSOR_VOUCHERS, "", &positions[0], 1);
    for (size_t places = 1; places <= SK_SHARDS_MAX; places++) {
        sk_cursor_put(text, SK_CURSOR_VOUCHERS, "", positions, places);
        ck_assert(strlen(text) < SK_CURSOR_SIZE);
        ck_assert(places > 1 || strcmp(text, alone) == 0);
        for (size_t others = 1; others <= SK_SHARDS_MAX; others++) // shards are split, and never merged
            ck_assert(sk_cursor_read(text, SK_CURSOR_VOUCHERS, "", read, others) == (others >= places));
        ck_assert(sk_cursor_read(text, SK_CURSOR_VOUCHERS, "", read, places));
        for (size_t i = 0; i < places; i++)
            ck_assert(is_same(&read[i], &positions[i]));
        ck_assert(!sk_cursor_read(text, SK_CURSOR_VOUCHERS, "x", read, places));
        ck_assert(!sk_cursor_read(text, SK_CURSOR_ORDER_EVENTS, "", read, places));
        text[strlen(text) - 1] ^= 1;
        ck_assert(!sk_cursor_read(text, SK_CURSOR_VOUCHERS, "", read, places));
    }
}

// As in the table of docs/scale.md.
TEST(a_new_shard_takes_the_place_of_the_one_that_was_split)
{
    static const size_t split[] = {0, 0, 0, 1, 0, 1, 2, 3};
    struct sk_position positions[COUNT(split)], read[COUNT(split)];
    char text[SK_CURSOR_SIZE];
    for (size_t before = 1; before < COUNT(split); before++) {
        for (size_t i = 0; i < before; i++)
            positions[i] = POSITION(100 + i, i);
        sk_cursor_put(text, SK_CURSOR_ORDER_EVENTS, "", positions, before);
        for (size_t after = before; after <= COUNT(split); after++) {
            ck_assert(sk_cursor_read(text, SK_CURSOR_ORDER_EVENTS, "", read, after));
            for (size_t i = 0; i < after; i++)
                ck_assert(is_same(&read[i], i < before ? &positions[i] : &read[split[i]]));
        }
    }
}
