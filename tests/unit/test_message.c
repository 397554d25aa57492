// The body and the id of a page of events, and where the feed goes on.
#include <stdio.h>
#include <stdlib.h>

#include "message.h"
#include "test.h"

static struct sk_message message;
static struct sk_receiver receiver = {.name = "shop", .page = 50};

// ---- rows ----

enum { COLUMNS = 5 };

struct sk_rows {
    size_t count;
    const char *texts[3][COLUMNS];
};

static const struct sk_rows given = {
    3,
    {{"7", "128", "order.placed", "2026-11-11T00:00:00Z", "{\"event\": \"order.placed\"}"},
     {"7", "129", "order.placed", "2026-11-11T00:00:00Z", "{\"event\": \"order.placed\"}"},
     {"9", "256", "sale.ended", "2026-11-11T00:00:05Z", "{\"event\": \"sale.ended\"}"}}};

size_t sk_rows_count(const struct sk_rows *rows)
{
    return rows->count;
}

const char *sk_rows_text(const struct sk_rows *rows, size_t row, int column)
{
    return rows->texts[row][column];
}

int64_t sk_rows_number(const struct sk_rows *rows, size_t row, int column)
{
    return strtoll(rows->texts[row][column], NULL, 10);
}

// ---- the tests ----

#define PLACED(id)                                                                             \
    "{\"type\":\"order.placed\",\"timestamp\":\"2026-11-11T00:00:00Z\",\"data\":{\"id\":\"" id \
    "\",\"event\": \"order.placed\"}}"

static void teardown(void)
{
    sk_message_free(&message);
    message = (struct sk_message){0};
}

static const char *id_of(uint64_t tx, uint64_t seq)
{
    static char id[SK_CURSOR_SIZE];
    const struct sk_position position = {tx, seq};
    sk_cursor_put(id, SK_CURSOR_ORDER_EVENTS, "", &position, 1);
    return id;
}

static void make(size_t page, const char **events, size_t count, size_t shards)
{
    receiver.page = page;
    receiver.events = events;
    receiver.events_count = count;
    ck_assert_int_eq(sk_message_make(&message, &receiver, &given, shards - 1, shards), SK_OK);
}

static void must_stand_at(const char *tx, const char *seq)
{
    ck_assert_str_eq(message.behind.tx, tx);
    ck_assert_str_eq(message.behind.seq, seq);
}

TEST(a_page)
{
    char body[1024], first[SK_CURSOR_SIZE], second[SK_CURSOR_SIZE];
    make(50, NULL, 0, 1);
    (void)snprintf(first, sizeof first, "%s", id_of(7, 128));
    (void)snprintf(second, sizeof second, "%s", id_of(7, 129));
    (void)snprintf(body, sizeof body,
                   "{\"type\":\"seckill.events\",\"timestamp\":\"2026-11-11T00:00:05Z\",\"data\":{\"events\":[" PLACED(
                       "%s") "," PLACED("%s") ","
                                              "{\"type\":\"sale.ended\",\"timestamp\":\"2026-11-11T00:00:05Z\","
                                              "\"data\":{\"id\":\"%s\","
                                              "\"event\": \"sale.ended\"}}]}}",
                   first, second, id_of(9, 256));
    ck_assert_str_eq(message.body.data, body);
    ck_assert_str_eq(message.id, id_of(9, 256));
    ck_assert_str_eq(message.first_at, "2026-11-11T00:00:00Z");
    ck_assert_uint_eq(message.events, 3);
    must_stand_at("9", "256");
}

TEST(an_event_alone)
{
    char body[1024];
    make(1, NULL, 0, 1);
    (void)snprintf(body, sizeof body, PLACED("%s"), id_of(7, 128));
    ck_assert_str_eq(message.body.data, body);
    ck_assert_str_eq(message.id, id_of(7, 128));
    must_stand_at("7", "128");
}

// It ends with the last event that fits, so that the next one begins behind it.
TEST(a_page_that_is_full)
{
    make(2, NULL, 0, 1);
    ck_assert_uint_eq(message.events, 2);
    ck_assert_str_eq(message.id, id_of(7, 129));
    must_stand_at("7", "129");
}

TEST(what_is_not_wanted_is_passed_by)
{
    const char *sales[] = {"sale.*"}, *placed[] = {"order.placed"}, *paid[] = {"order.paid"};
    make(50, sales, 1, 1);
    ck_assert_uint_eq(message.events, 1);
    ck_assert_str_eq(message.first_at, "2026-11-11T00:00:05Z");
    ck_assert_str_eq(message.id, id_of(9, 256));
    make(50, placed, 1, 1);
    ck_assert_uint_eq(message.events, 2);
    ck_assert_str_eq(message.id, id_of(7, 129));
    must_stand_at("9", "256");
    make(50, paid, 1, 1);
    ck_assert_uint_eq(message.events, 0);
    must_stand_at("9", "256");
}

// As in the feed of several shards: two may have the same position.
TEST(a_shard_is_a_part_of_the_id)
{
    make(1, NULL, 0, 2);
    ck_assert_str_eq(message.id, id_of(7, UINT64_C(128) | UINT64_C(2) << SK_CURSOR_SHARD_SHIFT));
}

TEST(a_test)
{
    char body[256];
    ck_assert_int_eq(sk_message_make_test(&message, 0), SK_OK);
    (void)snprintf(body, sizeof body,
                   "{\"type\":\"seckill.test\",\"timestamp\":\"1970-01-01T00:00:00.000Z\",\"data\":{\"id\":\"%s\"}}",
                   message.id);
    ck_assert_str_eq(message.body.data, body);
}

SUITE(.teardown = teardown);
