// Every outcome of every Lua script, on a real Redis.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "keys.h"
#include "scripts.h"
#include "test.h"
#include "trust.h"

enum { BATCH_MAX = 2048 };

static const char *mode, *journal_max, *seen_epoch, *seen_last, *details, *offer, *orders_max; // of place_orders

static void setup(void)
{
    scripts_setup();
    mode = "new";
    journal_max = "100";
    seen_epoch = "0";
    seen_last = "";
    details = "-";
    offer = "3";
    orders_max = "20";
}

// ---- Redis's data ----

static int64_t journal_length(void)
{
    return redis_number("XLEN " JOURNAL);
}

// The newest journal entry, as "id epoch orders".
static void newest_entry(char out[TEXT_SIZE])
{
    redisReply *entries = redisCommand(redis, "XREVRANGE " JOURNAL " + - COUNT 1");
    ck_assert_uint_eq(entries->elements, 1);
    const redisReply *fields = entries->element[0]->element[1];
    ck_assert_uint_eq(fields->elements, 8);
    ck_assert_str_eq(fields->element[0]->str, "epoch");
    ck_assert_str_eq(fields->element[2]->str, "orders");
    ck_assert_str_eq(fields->element[4]->str, "session");
    ck_assert_str_eq(fields->element[6]->str, "offer");
    ck_assert_str_eq(fields->element[7]->str, offer);
    (void)snprintf(out, TEXT_SIZE, "%s %s %s %s", entries->element[0]->element[0]->str, fields->element[1]->str,
                   fields->element[3]->str, fields->element[5]->str);
    freeReplyObject(entries);
}

// ---- place_orders ----

// Users and order ids alternate, ended by NULL.
static void place(const char *first, ...)
{
    const char *argv[14 + 64] = {VOUCHER, BUYERS,     JOURNAL,   REPEATS, ENDED,   journal_max, RUN,
                                 mode,    seen_epoch, seen_last, SESSION, details, offer,       orders_max};
    int argc = 14;
    va_list words;
    va_start(words, first);
    for (const char *word = first; word != NULL; word = va_arg(words, const char *))
        argv[argc++] = word;
    va_end(words);
    try_call(SK_SCRIPT_PLACE_ORDERS, 5, argc, argv);
}

TEST(an_order_is_placed_with_all_that_belongs_to_it)
{
    char entry[TEXT_SIZE], expected[TEXT_SIZE];
    on_sale(10);
    int64_t before_ms = now_ms();
    place("alice", "o1", NULL);
    must_answer("p", NULL);
    ck_assert_int_ge(reply->element[1]->integer, before_ms);
    ck_assert_int_le(reply->element[1]->integer, now_ms());
    ck_assert_int_eq(reply->element[2]->integer, redis_number("HGET " VOUCHER " begin_ms"));
    ck_assert_str_eq(element(3), "7");
    ck_assert_str_eq(element(4), element(5)); // `last` is the new entry
    must_be(VOUCHER, "last", element(5));
    must_be(BUYERS, "alice", "o1");
    ck_assert_int_eq(stock(), 9);
    newest_entry(entry);
    (void)snprintf(expected, sizeof expected, "%s 7 o1 alice " SESSION, element(5));
    ck_assert_str_eq(entry, expected);
}

TEST(a_batch_is_one_journal_entry)
{
    char entry[TEXT_SIZE], expected[TEXT_SIZE];
    on_sale(10);
    place("alice", "o1", "bob", "o2", "carol", "o3", NULL);
    must_answer("ppp", NULL);
    ck_assert_int_eq(journal_length(), 1);
    newest_entry(entry);
    (void)snprintf(expected, sizeof expected, "%s 7 o1 alice,o2 bob,o3 carol " SESSION, element(5));
    ck_assert_str_eq(entry, expected);
    ck_assert_int_eq(stock(), 7);
    ck_assert_int_eq(redis_number("HLEN " BUYERS), 3);
}

TEST(the_largest_batch_fits_into_one_call)
{
    static char users[BATCH_MAX][16], ids[BATCH_MAX][16];
    const char *argv[14 + 2 * BATCH_MAX] = {VOUCHER, BUYERS, JOURNAL, REPEATS, ENDED, "100", RUN,
                                            "new",   "0",    "",      SESSION, "-",   "3",   "20"};
    int argc = 14;
    on_sale(100000000);
    for (int i = 0; i < BATCH_MAX; i++) {
        (void)snprintf(users[i], sizeof users[i], "user-%d", i);
        (void)snprintf(ids[i], sizeof ids[i], "order-%d", i);
        argv[argc++] = users[i];
        argv[argc++] = ids[i];
    }
    call(SK_SCRIPT_PLACE_ORDERS, 5, argc, argv); // all win
    ck_assert_uint_eq(strspn(element(6), "p"), BATCH_MAX);
    ck_assert_int_eq(stock(), 100000000 - BATCH_MAX);
    call(SK_SCRIPT_PLACE_ORDERS, 5, argc, argv); // all have won
    ck_assert_uint_eq(strspn(element(6), "a"), BATCH_MAX);
    ck_assert_uint_eq(reply->elements, 7 + BATCH_MAX);
    ck_assert_str_eq(element(7 + BATCH_MAX - 1), ids[BATCH_MAX - 1]);
    ck_assert_int_eq(redis_number("HLEN " BUYERS), BATCH_MAX);
}

TEST(a_winner_who_repeats_gets_the_first_order_id)
{
    on_sale(10);
    place("alice", "o1", NULL);
    int64_t before = changes();
    place("alice", "o2", NULL);
    must_answer("a", "o1", NULL);
    ck_assert_str_eq(element(5), ""); // no journal entry
    must_be(VOUCHER, "last", element(4));
    ck_assert_int_eq(changes(), before);
}

TEST(existing_ids_follow_in_the_order_of_the_users)
{
    on_sale(10);
    place("alice", "o1", "bob", "o2", NULL);
    place("bob", "o3", "carol", "o4", "alice", "o5", "dave", "o6", NULL);
    must_answer("apap", "o2", "o1", NULL);
    ck_assert_int_eq(stock(), 6);
    must_be(BUYERS, "bob", "o2");
    must_be(BUYERS, "carol", "o4");
}

TEST(one_user_twice_in_a_batch_wins_once)
{
    char entry[TEXT_SIZE], expected[TEXT_SIZE];
    on_sale(2);
    place("alice", "o1", "alice", "o2", "bob", "o3", "alice", "o4", "carol", "o5", NULL);
    must_answer("papas", "o1", "o1", NULL);
    ck_assert_int_eq(stock(), 0);
    must_be(BUYERS, "alice", "o1");
    newest_entry(entry);
    (void)snprintf(expected, sizeof expected, "%s 7 o1 alice,o3 bob " SESSION, element(5));
    ck_assert_str_eq(entry, expected);
}

TEST(sold_out_writes_nothing)
{
    on_sale(0);
    int64_t before = changes();
    place("alice", "o1", "bob", "o2", NULL);
    must_answer("ss", NULL);
    ck_assert_str_eq(element(4), "epoch-7"); // no user has bought since the load
    ck_assert_str_eq(element(5), "");
    ck_assert_int_eq(changes(), before);
}

TEST(a_batch_larger_than_the_stock_wins_in_its_order_and_never_below_zero)
{
    on_sale(3);
    place("u1", "o1", "u2", "o2", "u3", "o3", "u4", "o4", "u5", "o5", NULL);
    must_answer("pppss", NULL);
    ck_assert_int_eq(stock(), 0);
    ck_assert_int_eq(redis_number("HLEN " BUYERS), 3);
    place("u6", "o6", NULL);
    must_answer("s", NULL);
    ck_assert_int_eq(stock(), 0);
}

TEST(a_sale_not_started_or_ended_or_closed_refuses_and_writes_nothing)
{
    static const struct {
        int begin_in_ms, end_in_ms;
        const char *state, *letters;
    } rows[] = {
        {HOUR_MS, 2 * HOUR_MS, "open", "nn"}, {-2 * HOUR_MS, -HOUR_MS, "open", "ee"},
        {-HOUR_MS, 0, "open", "ee"}, // the window excludes its end
        {-HOUR_MS, HOUR_MS, "closed", "ee"},  {HOUR_MS, 2 * HOUR_MS, "closed", "ee"},
        {0, HOUR_MS, "open", "pp"}, // and includes its beginning
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        on_sale(10);
        int64_t now = now_ms();
        redis_run("HSET " VOUCHER " state %s begin_ms %lld end_ms %lld", rows[i].state,
                  (long long)(now + rows[i].begin_in_ms), (long long)(now + rows[i].end_in_ms));
        int64_t before = changes();
        place("alice", "o1", "bob", "o2", NULL);
        must_answer(rows[i].letters, NULL);
        if (rows[i].letters[0] != 'p')
            ck_assert_int_eq(changes(), before);
    }
}

TEST(a_winner_is_told_so_whatever_has_happened_since)
{
    on_sale(1);
    place("alice", "o1", NULL);
    place("bob", "o2", "alice", "o3", NULL); // sold out
    must_answer("sa", "o1", NULL);
    redis_run("HSET " VOUCHER " end_ms 1000"); // ended
    place("bob", "o2", "alice", "o3", NULL);
    must_answer("ea", "o1", NULL);
    redis_run("HSET " VOUCHER " state closed");
    place("alice", "o3", "bob", "o2", NULL);
    must_answer("ae", "o1", NULL);
    redis_run("HSET " VOUCHER " state open begin_ms %lld end_ms %lld", (long long)(now_ms() + HOUR_MS),
              (long long)(now_ms() + 2 * HOUR_MS)); // postponed
    place("alice", "o3", "bob", "o2", NULL);
    must_answer("an", "o1", NULL);
}

static void must_only_say(const char *word)
{
    ck_assert_int_eq(reply->type, REDIS_REPLY_ARRAY);
    ck_assert_uint_eq(reply->elements, 1);
    ck_assert_str_eq(element(0), word);
}

TEST(a_voucher_that_is_not_there_is_missing)
{
    int64_t before = changes();
    place("alice", "o1", NULL);
    must_only_say("missing");
    redis_run("HSET " VOUCHER " stock 5"); // without a state it was never loaded
    before++;
    place("alice", "o1", NULL);
    must_only_say("missing");
    ck_assert_int_eq(changes(), before);
}

TEST(a_voucher_being_loaded_sells_nothing)
{
    static const char *const states[] = {"loading", "no-such-state", ""};
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++) {
        on_sale(5);
        redis_run("HSET " VOUCHER " state %s", states[i]);
        int64_t before = changes();
        place("alice", "o1", NULL);
        must_only_say("loading");
        ck_assert_int_eq(changes(), before);
    }
}

TEST(a_full_journal_takes_no_more_but_winners_are_told)
{
    on_sale(10);
    journal_max = "2";
    place("alice", "o1", NULL);
    must_answer("p", NULL);
    place("bob", "o2", NULL);
    must_answer("p", NULL);
    int64_t before = changes();
    place("carol", "o3", "alice", "o4", NULL);
    must_answer("fa", "o1", NULL);
    ck_assert_int_eq(changes(), before);
    redis_run("XTRIM " JOURNAL " MAXLEN 1"); // an entry has been settled
    place("carol", "o3", NULL);
    must_answer("p", NULL);
}

// Orders granted in time are granted again at any time, but only if a unit is left.
TEST(orders_granted_before_need_neither_window_nor_room)
{
    on_sale(1);
    redis_run("HSET " VOUCHER " end_ms 1000 state closed");
    journal_max = "0";
    place("alice", "o1", NULL);
    must_answer("e", NULL);
    mode = "again";
    place("alice", "o1", "bob", "o2", NULL);
    must_answer("ps", NULL);
    ck_assert_int_eq(journal_length(), 1);
    place("alice", "o1", "alice", "o9", NULL);
    must_answer("aa", "o1", "o1", NULL);
    ck_assert_int_eq(stock(), 0);
}

// The voucher was opened under another Redis process: later changes may be lost.
TEST(a_voucher_of_another_run_does_not_sell)
{
    static const char *const modes[] = {"new", "again"};
    for (int i = 0; i < 2; i++) {
        mode = modes[i];
        on_sale(5);
        redis_run("HSET " BUYERS " alice o1");
        redis_run("HSET " VOUCHER " run run-0");
        int64_t before = changes();
        place("alice", "o2", "bob", "o3", NULL);
        must_only_say("unsure");
        redis_run("HDEL " VOUCHER " run");
        place("bob", "o3", NULL);
        must_only_say("unsure");
        ck_assert_int_eq(changes(), before + 1);
    }
}

// The orders were checked under another offer than the voucher's, older or newer.
TEST(another_offer_grants_nothing)
{
    static const char *const others[] = {"2", "4", "0", "03", ""};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        on_sale(2);
        int64_t before = changes();
        offer = others[i];
        place("alice", "o1", "bob", "o2", NULL);
        ck_assert_str_eq(element(0), "other");
        ck_assert_str_eq(element(5), "3"); // the voucher's offer
        ck_assert_str_eq(element(6), "oo");
        ck_assert_int_eq(changes(), before);
        ck_assert_int_eq(stock(), 2);
        ck_assert_int_eq(redis_number("EXISTS " BUYERS " " JOURNAL), 0);
    }
}

// P6: a user with an order gets it, whatever the current terms are. A refusal that does not depend on the offer stays.
TEST(another_offer_does_not_hide_what_is_so_anyway)
{
    on_sale(1);
    place("alice", "o1", NULL);
    offer = "2";
    place("alice", "o2", "bob", "o3", NULL);
    ck_assert_str_eq(element(0), "other");
    ck_assert_str_eq(element(6), "as");
    ck_assert_str_eq(element(7), "o1");
    redis_run("HSET " VOUCHER " stock 5 end_ms 1");
    int64_t before = changes();
    place("alice", "o2", "bob", "o3", NULL);
    ck_assert_str_eq(element(6), "ae");
    ck_assert_int_eq(changes(), before);
}

// The order was granted before under that offer.
TEST(what_was_granted_is_granted_again_under_its_own_offer)
{
    char entry[TEXT_SIZE];
    on_sale(5);
    mode = "again";
    offer = "2";
    place("alice", "o1", NULL);
    must_answer("p", NULL);
    newest_entry(entry); // the entry names the offer
    ck_assert_int_eq(stock(), 4);
}

// An error does not undo a script's earlier writes, so it must occur before the first one.
TEST(a_damaged_voucher_sells_nothing)
{
    static const char *const fields[] = {"stock", "begin_ms", "end_ms", "epoch", "offer"};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        on_sale(5);
        redis_run("HDEL " VOUCHER " %s", fields[i]);
        int64_t before = changes();
        place("alice", "o1", "bob", "o2", NULL);
        must_only_say("unsure");
        ck_assert_int_eq(changes(), before);
        ck_assert_int_eq(redis_number("EXISTS " BUYERS " " JOURNAL), 0);
    }
    on_sale(5);
    redis_run("SET " JOURNAL " text"); // a key of the wrong type
    int64_t before = changes();
    place("alice", "o1", NULL);
    ck_assert_int_eq(reply->type, REDIS_REPLY_ERROR);
    ck_assert(sk_trust_is_damage(reply->str));
    ck_assert_int_eq(changes(), before);
}

// A number that Lua accepts and C rejects would grant a unit in a reply that cannot be parsed.
TEST(a_voucher_with_values_that_cannot_be_sells_nothing)
{
    static const struct {
        const char *field, *value;
    } rows[] = {
        {"stock", "abc"},
        {"stock", "1e5"},
        {"stock", "0x10"},
        {"stock", "1.5"},
        {"stock", "05"},
        {"stock", "-5"},
        {"stock", "-0"},
        {"stock", "nan"},
        {"stock", "inf"},
        {"stock", "1000000000000000"},
        {"begin_ms", "-5"},
        {"begin_ms", "1e3"},
        {"end_ms", "99999999999999999999"},
        {"epoch", "-1"},
        {"epoch", "007"},
        {"epoch", "7x"},
        {"epoch", "1e1"},
        {"epoch", ""},
        {"epoch", "99999999999999999999"},
        {"last", ""},
        {"last", "x"},
        {"last", "epoch-"},
        {"last", "100"},
        {"last", "100-"},
        {"last", "9999999999999999999-1"},
        {"last", "1-1\nlevel"},
        {"last", "epoch-7-1"},
        {"last", "1-9999999999999999999"},
        {"epoch", "9223372036854775807"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        on_sale(5);
        redis_run("HSET " VOUCHER " %s %s", rows[i].field, rows[i].value);
        int64_t before = changes();
        place("alice", "o1", NULL);
        ck_assert_msg(reply->elements == 1 && strcmp(element(0), "unsure") == 0, "%s is %s: %s", rows[i].field,
                      rows[i].value, element(0));
        ck_assert_int_eq(changes(), before);
    }
}

TEST(a_journal_that_is_at_its_end_takes_nothing)
{
    on_sale(5);
    redis_run("XADD " JOURNAL " 18446744073709551615-18446744073709551615 epoch 7 orders x");
    int64_t before = changes();
    place("alice", "o1", NULL);
    ck_assert_int_eq(reply->type, REDIS_REPLY_ERROR);
    ck_assert(sk_trust_is_damage(reply->str));
    ck_assert_int_eq(changes(), before);
    ck_assert_int_eq(stock(), 5);
}

TEST(journal_ids_rise_and_last_follows_them)
{
    char last[TEXT_SIZE] = "";
    on_sale(10);
    for (int i = 0; i < 5; i++) {
        char user[8], id[8];
        (void)snprintf(user, sizeof user, "u%d", i);
        (void)snprintf(id, sizeof id, "o%d", i);
        place(user, id, NULL);
        must_answer("p", NULL);
        ck_assert_str_ne(element(5), last);
        must_be(VOUCHER, "last", element(5));
        (void)snprintf(last, sizeof last, "%s", element(5));
    }
    place("late", "o9", "u0", "o8", NULL);
    must_answer("pa", "o0", NULL);
    ck_assert_int_eq(journal_length(), 6);
}

// ---- settle_entry ----

// Alice's and bob's orders o1 and o2, in one journal entry, of 10 units.
static void accept_two(char entry[TEXT_SIZE])
{
    on_sale(10);
    place("alice", "o1", "bob", "o2", NULL);
    must_answer("pp", NULL);
    (void)snprintf(entry, TEXT_SIZE, "%s", element(5));
}

#define SETTLE(entry, ...) \
    CALL(SK_SCRIPT_SETTLE_ENTRY, 5, VOUCHER, BUYERS, JOURNAL, REPEATS, ENDED, entry, "", __VA_ARGS__)

TEST(a_returned_order_becomes_the_live_one_and_its_unit_returns)
{
    char entry[TEXT_SIZE];
    accept_two(entry);
    SETTLE(entry, "1", "o1", "alice", "o-live");
    must_return(1);
    must_be(BUYERS, "alice", "o-live");
    must_be(BUYERS, "bob", "o2");
    ck_assert_int_eq(stock(), 9);
    ck_assert_int_eq(journal_length(), 0);
}

TEST(a_returned_order_without_a_live_one_leaves_no_buyer)
{
    char entry[TEXT_SIZE];
    accept_two(entry);
    SETTLE(entry, "1", "o1", "alice", "");
    must_return(1);
    must_be(BUYERS, "alice", NULL);
    ck_assert_int_eq(stock(), 9);
    ck_assert_int_eq(journal_length(), 0);
}

TEST(a_dropped_order_goes_and_its_unit_does_not_return)
{
    char entry[TEXT_SIZE];
    accept_two(entry);
    SETTLE(entry, "0", "o2", "bob", "");
    must_return(1);
    must_be(BUYERS, "bob", NULL);
    must_be(BUYERS, "alice", "o1");
    ck_assert_int_eq(stock(), 8);
    ck_assert_int_eq(journal_length(), 0);
}

TEST(several_orders_are_corrected_in_one_step)
{
    char entry[TEXT_SIZE];
    accept_two(entry);
    SETTLE(entry, "0", "o2", "bob", "", "1", "o1", "alice", "o-live");
    must_return(2);
    must_be(BUYERS, "alice", "o-live");
    must_be(BUYERS, "bob", NULL);
    ck_assert_int_eq(stock(), 9);
}

TEST(settling_a_second_time_changes_nothing)
{
    char entry[TEXT_SIZE];
    accept_two(entry);
    SETTLE(entry, "1", "o1", "alice", "", "0", "o2", "bob", "");
    must_return(2);
    int64_t before = changes();
    SETTLE(entry, "1", "o1", "alice", "", "0", "o2", "bob", "");
    must_return(0);
    ck_assert_int_eq(changes(), before);
    ck_assert_int_eq(stock(), 9);

    accept_two(entry);
    SETTLE(entry, "1", "o1", "alice", "o-live");
    SETTLE(entry, "1", "o1", "alice", "o-live");
    must_return(0);
    must_be(BUYERS, "alice", "o-live");
    ck_assert_int_eq(stock(), 9);
}

// Only the order that took a unit can return it.
TEST(an_entry_taken_by_another_order_stays_as_it_is)
{
    char entry[TEXT_SIZE];
    accept_two(entry);
    redis_run("HSET " BUYERS " alice o-newer");
    redis_run("HDEL " BUYERS " bob");
    SETTLE(entry, "1", "o1", "alice", "", "0", "o2", "bob", "");
    must_return(0);
    must_be(BUYERS, "alice", "o-newer");
    must_be(BUYERS, "bob", NULL);
    ck_assert_int_eq(stock(), 8);
    ck_assert_int_eq(journal_length(), 0); // the entry is still settled
}

TEST(only_the_entry_that_is_meant_is_dropped)
{
    char entry[TEXT_SIZE];
    accept_two(entry);
    place("carol", "o3", NULL);
    CALL(SK_SCRIPT_SETTLE_ENTRY, 5, VOUCHER, BUYERS, JOURNAL, REPEATS, ENDED, entry, "");
    must_return(0);
    ck_assert_int_eq(journal_length(), 1);
    ck_assert_int_eq(redis_number("HLEN " BUYERS), 3);
    ck_assert_int_eq(stock(), 7);
}

// While units are for sale no instance caches refusals, so no hold is needed.
TEST(a_unit_that_returns_among_others_sells_at_once)
{
    char entry[TEXT_SIZE];
    accept_two(entry);
    SETTLE(entry, "1", "o1", "alice", "");
    must_be(VOUCHER, "reopened_ms", NULL);
    place("carol", "o3", NULL);
    must_answer("p", NULL);
}

TEST(the_largest_entry_is_settled_in_one_call)
{
    static char names[BATCH_MAX][16];
    const char *argv[7 + 4 * BATCH_MAX] = {VOUCHER, BUYERS, JOURNAL, REPEATS, ENDED, "1-1", ""};
    int argc = 7;
    on_sale(0);
    redis_run("XADD " JOURNAL " 1-1 epoch 7 orders many");
    for (int i = 0; i < BATCH_MAX; i++) {
        (void)snprintf(names[i], sizeof names[i], "name-%d", i);
        redis_run("HSET " BUYERS " %s %s", names[i], names[i]);
        argv[argc++] = i % 2 == 0 ? "0" : "1";
        argv[argc++] = names[i];
        argv[argc++] = names[i];
        argv[argc++] = "";
    }
    call(SK_SCRIPT_SETTLE_ENTRY, 5, argc, argv);
    must_return(BATCH_MAX);
    ck_assert_int_eq(stock(), BATCH_MAX / 2);
    ck_assert_int_eq(redis_number("EXISTS " BUYERS), 0);
    ck_assert_int_eq(journal_length(), 0);
}

// ---- rebuild_begin, rebuild_buyers, rebuild_open ----

static void rebuild_begin(const char *epoch)
{
    CALL(SK_SCRIPT_REBUILD_BEGIN, 5, VOUCHER, BUYERS, JOURNAL, REPEATS, ENDED, epoch);
}

// The number of pairs, as text.
#define PAIRS(...) count_text(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *) / 2)

static const char *count_text(size_t n)
{
    static char text[24];
    (void)snprintf(text, sizeof text, "%zu", n);
    return text;
}

#define RECONCILE_BUYERS(epoch, ...) \
    CALL(SK_SCRIPT_REBUILD_BUYERS, 4, VOUCHER, BUYERS, REPEATS, ENDED, epoch, PAIRS(__VA_ARGS__), "0", __VA_ARGS__)

static void rebuild_open(const char *epoch, const char *units, const char *state)
{
    char begin_ms[24], end_ms[24], buyers[24];
    (void)snprintf(begin_ms, sizeof begin_ms, "%lld", (long long)(now_ms() - HOUR_MS));
    (void)snprintf(end_ms, sizeof end_ms, "%lld", (long long)(now_ms() + HOUR_MS));
    (void)snprintf(buyers, sizeof buyers, "%lld", (long long)redis_number("HLEN " BUYERS));
    CALL(SK_SCRIPT_REBUILD_OPEN, 3, VOUCHER, BUYERS, JOURNAL, epoch, units, buyers, begin_ms, end_ms, state, RUN, "9",
         "0", CACHE_MS, "3");
}

TEST(a_voucher_is_loaded_in_three_steps_and_sells_then)
{
    rebuild_begin("3");
    must_return(1);
    must_be(VOUCHER, "state", "loading");
    must_be(VOUCHER, "epoch", "3");
    place("carol", "o3", NULL);
    must_only_say("loading");
    RECONCILE_BUYERS("3", "alice", "o1", "bob", "o2");
    must_return(1);
    rebuild_open("3", "5", "open");
    must_return(1);
    must_be(VOUCHER, "state", "open");
    must_be(VOUCHER, "last", "epoch-3");
    ck_assert_int_eq(stock(), 5);
    place("alice", "o9", "carol", "o3", NULL);
    must_answer("ap", "o1", NULL);
    ck_assert_str_eq(element(3), "3");
    ck_assert_int_eq(stock(), 4);
}

TEST(loading_again_closes_the_voucher_and_forgets_the_buyers)
{
    on_sale(5);
    place("alice", "o1", NULL);
    rebuild_begin("8");
    must_return(1);
    ck_assert_int_eq(redis_number("EXISTS " BUYERS), 0);
    place("alice", "o2", NULL);
    must_only_say("loading");
    ck_assert_int_eq(journal_length(), 1);
    int64_t before = changes();
    rebuild_open("8", "4", "open"); // the entries in the journal must be settled first
    must_return(2);
    ck_assert_int_eq(changes(), before);
    redis_run("DEL " JOURNAL);
    rebuild_open("8", "4", "open");
    must_return(1);
    must_be(VOUCHER, "run", RUN);
    must_be(VOUCHER, "last", "epoch-8");
}

TEST(an_epoch_that_is_not_newer_loads_nothing)
{
    static const struct {
        const char *is, *asked;
        int ours;
    } rows[] = {
        {"7", "7", 0},
        {"7", "6", 0},
        {"7", "8", 1},
        {"9", "10", 1},
        {"10", "9", 0},
        {"99", "100", 1},
        // An impossible epoch is not newer.
        {"1000000006", "7", 0},
        {"1000000007", "7", 1},
        {"99999999999999999999", "8", 1},
        {"9223372036854775807", "8", 1},
        {"x", "8", 1},
        {"-3", "8", 1},
        {"1e3", "8", 1},
        {"", "8", 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        on_sale(5);
        redis_run("HSET " VOUCHER " epoch %s", rows[i].is);
        redis_run("HSET " BUYERS " alice o1");
        int64_t before = changes();
        rebuild_begin(rows[i].asked);
        must_return(rows[i].ours);
        must_be(VOUCHER, "state", rows[i].ours ? "loading" : "open");
        must_be(VOUCHER, "epoch", rows[i].ours ? rows[i].asked : rows[i].is);
        must_be(BUYERS, "alice", rows[i].ours ? NULL : "o1");
        if (!rows[i].ours)
            ck_assert_int_eq(changes(), before);
    }
}

TEST(keys_of_a_wrong_type_are_replaced)
{
    static const char *const keys[] = {VOUCHER, BUYERS, JOURNAL};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        redis_run("FLUSHALL");
        on_sale(5);
        place("alice", "o1", NULL);
        redis_run("DEL " JOURNAL);
        redis_run("SET %s text", keys[i]);
        rebuild_begin("8");
        must_return(1);
        RECONCILE_BUYERS("8", "alice", "o1");
        must_return(1);
        rebuild_open("8", "4", "open");
        must_return(1);
        place("bob", "o2", "alice", "o3", NULL);
        must_answer("pa", "o1", NULL);
    }
}

// A journal whose ids are out of range is deleted; another keeps its ids, which never decrease.
TEST(a_journal_with_ids_out_of_range_is_deleted)
{
    static const struct {
        const char *id;
        bool deleted;
    } rows[] = {{"999999999999999-5", false}, {"1000000000000000-0", true}, {"18446744073709551615-1", true}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        redis_run("FLUSHALL");
        on_sale(5);
        redis_run("XADD " JOURNAL " %s epoch 7 orders x", rows[i].id);
        redis_run("XDEL " JOURNAL " %s", rows[i].id);
        rebuild_begin("8");
        rebuild_open("8", "5", "open");
        must_return(1);
        ck_assert_int_eq(redis_number("EXISTS " JOURNAL), !rows[i].deleted);
        place("alice", "o1", NULL);
        must_answer("p", NULL);
        ck_assert(sk_trust_is_version(element(5)));
    }
}

TEST(the_later_loader_takes_over)
{
    rebuild_begin("5");
    RECONCILE_BUYERS("5", "alice", "o-old");
    must_return(1);
    rebuild_begin("6");
    must_return(1);
    RECONCILE_BUYERS("6", "bob", "o2");
    must_return(1);
    int64_t before = changes();
    RECONCILE_BUYERS("5", "carol", "o-old");
    must_return(0);
    rebuild_open("5", "99", "open");
    must_return(0);
    rebuild_begin("5");
    must_return(0);
    ck_assert_int_eq(changes(), before);
    rebuild_open("6", "3", "open");
    must_return(1);
    ck_assert_int_eq(stock(), 3);
    ck_assert_int_eq(redis_number("HLEN " BUYERS), 1); // only bob
}

TEST(no_step_of_a_loading_works_without_its_beginning_or_after_its_end)
{
    RECONCILE_BUYERS("3", "alice", "o1");
    must_return(0);
    rebuild_open("3", "5", "open");
    must_return(0);
    ck_assert_int_eq(redis_number("DBSIZE"), 0);
    rebuild_begin("3");
    rebuild_open("3", "5", "open");
    must_return(1);
    int64_t before = changes();
    RECONCILE_BUYERS("3", "alice", "o1");
    must_return(0);
    rebuild_open("3", "99", "open"); // would return units sold since
    must_return(0);
    ck_assert_int_eq(changes(), before);
}

// Redis has lost some buyers since they were written.
TEST(a_voucher_does_not_open_while_buyers_are_missing)
{
    rebuild_begin("3");
    RECONCILE_BUYERS("3", "alice", "o1", "bob", "o2");
    redis_run("HDEL " BUYERS " alice");
    CALL(SK_SCRIPT_REBUILD_OPEN, 3, VOUCHER, BUYERS, JOURNAL, "3", "5", "2", "0", "1", "open", RUN, "9", "0", CACHE_MS,
         "3");
    must_return(0);
    must_be(VOUCHER, "state", "loading");
}

// The caller has seen a newer state: Redis has lost data without a restart.
TEST(a_voucher_that_went_backwards_does_not_sell)
{
    static const struct {
        const char *epoch, *last;
        bool sells;
    } rows[] = {
        {"0", "", true},         {"7", "epoch-7", true}, {"7", "100-4", true},  {"7", "99-9", true},
        {"6", "999-9", true},    {"7", "100-5", true},   {"7", "100-6", false}, {"7", "101-0", false},
        {"8", "epoch-8", false}, {"7", "1000-0", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        on_sale(5);
        redis_run("HSET " VOUCHER " last 100-5");
        redis_run("DEL " BUYERS);
        seen_epoch = rows[i].epoch;
        seen_last = rows[i].last;
        int64_t before = changes();
        place("alice", "o1", NULL);
        if (rows[i].sells) {
            must_answer("p", NULL);
        } else {
            must_only_say("unsure");
            ck_assert_int_eq(changes(), before);
        }
    }
}

// ---- read_voucher ----

static void must_show(size_t i, const char *text)
{
    const redisReply *one = reply->element[i];
    if (one->type == REDIS_REPLY_INTEGER)
        ck_assert_int_eq(one->integer, strtoll(text, NULL, 10));
    else
        ck_assert_str_eq(one->str, text);
}

TEST(what_redis_holds_is_shown)
{
    static const char *const nothing[] = {"", "", "", "", "", "0", "0", "", "", "", "", "0", ""};
    static const char *const terms[][2] = {{"begin_ms", "x"}, {"end_ms", "-1"}, {"end_ms", "1e9"}, {"offer", "x"}};
    static const char *const sold_one[] = {"open", "7", NULL, "4", RUN, "1", "1", "o1"};
    CALL(SK_SCRIPT_READ_VOUCHER, 3, VOUCHER, BUYERS, JOURNAL, RUN);
    ck_assert_uint_eq(reply->elements, 13);
    for (size_t i = 0; i < 13; i++)
        must_show(i, nothing[i]);
    on_sale(5);
    place("alice", "o1", NULL);
    CALL(SK_SCRIPT_READ_VOUCHER, 3, VOUCHER, BUYERS, JOURNAL, RUN, "alice");
    for (size_t i = 0; i < 8; i++) {
        if (sold_one[i] != NULL)
            must_show(i, sold_one[i]);
    }
    must_show(12, "3");
    CALL(SK_SCRIPT_READ_VOUCHER, 3, VOUCHER, BUYERS, JOURNAL, RUN "0");
    must_show(0, "open");
    must_show(4, ""); // another process has opened it
    for (size_t i = 0; i < sizeof terms / sizeof terms[0];
         i++) { // impossible terms: treated as if another process had opened it
        on_sale(4);
        redis_run("HSET " VOUCHER " %s %s", terms[i][0], terms[i][1]);
        CALL(SK_SCRIPT_READ_VOUCHER, 3, VOUCHER, BUYERS, JOURNAL, RUN);
        must_show(4, "");
    }
}

static long long journal_age_with(const char *id)
{
    redis_run("DEL " JOURNAL);
    redis_run("XADD " JOURNAL " %s epoch 7", id);
    redis_run("XADD " JOURNAL " 18446744073709551615-2 epoch 7");
    CALL(SK_SCRIPT_READ_VOUCHER, 3, VOUCHER, BUYERS, JOURNAL, RUN);
    ck_assert_int_eq(reply->element[11]->type, REDIS_REPLY_INTEGER);
    return reply->element[11]->integer;
}

// The age of the oldest entry by Redis's clock. An entry from the future is not old.
TEST(a_journals_age_is_shown)
{
    char id[32];
    on_sale(5);
    long long now_ms = (long long)sk_wall_ms();
    (void)snprintf(id, sizeof id, "%lld-1", now_ms - 60000);
    long long age_ms = journal_age_with(id);
    ck_assert_int_ge(age_ms, 60000);
    ck_assert_int_le(age_ms, 60000 + ((long long)sk_wall_ms() - now_ms));
    (void)snprintf(id, sizeof id, "%lld-1", now_ms + 3600000);
    ck_assert_int_eq(journal_age_with(id), 0);
    ck_assert_int_eq(journal_age_with("18446744073709551615-1"), 0);
}

// The change number of the terms that opened it.
TEST(an_opened_voucher_has_its_change_number)
{
    rebuild_begin("3");
    rebuild_open("3", "5", "paused");
    must_return(1);
    must_be(VOUCHER, "change", "9");
    CALL(SK_SCRIPT_READ_VOUCHER, 3, VOUCHER, BUYERS, JOURNAL, RUN);
    must_show(0, "paused");
    must_show(4, RUN);
    must_show(8, "9");
    redis_run("HDEL " VOUCHER " change");
    CALL(SK_SCRIPT_READ_VOUCHER, 3, VOUCHER, BUYERS, JOURNAL, RUN);
    must_show(4, "");
}

TEST(a_closed_voucher_stays_closed_when_loaded)
{
    rebuild_begin("3");
    rebuild_open("3", "5", "closed");
    must_return(1);
    place("alice", "o1", NULL);
    must_answer("e", NULL);
}

TEST(buyers_are_loaded_a_thousand_at_a_time)
{
    enum { CHUNK = 1000 };
    static char users[CHUNK][16];
    const char *argv[7 + 2 * CHUNK] = {VOUCHER, BUYERS, REPEATS, ENDED, "3", "1000", "0"};
    rebuild_begin("3");
    for (int i = 0; i < CHUNK; i++) {
        (void)snprintf(users[i], sizeof users[i], "user-%d", i);
        argv[7 + 2 * i] = argv[8 + 2 * i] = users[i];
    }
    call(SK_SCRIPT_REBUILD_BUYERS, 4, 7 + 2 * CHUNK, argv);
    must_return(1);
    ck_assert_int_eq(redis_number("HLEN " BUYERS), CHUNK);
}

// ---- lock_release, lock_renew ----

TEST(only_locks_under_the_token_are_released)
{
    redis_run("SET lock:1 mine PX 60000");
    redis_run("SET lock:2 other PX 60000");
    CALL(SK_SCRIPT_LOCK_RELEASE, 1, "lock:1", "mine");
    must_return(1);
    ck_assert_int_eq(redis_number("EXISTS lock:1"), 0);
    CALL(SK_SCRIPT_LOCK_RELEASE, 1, "lock:1", "mine"); // again
    must_return(0);
    static const char *const tokens[] = {"mine", "othe", ""}; // a part of a token does not match
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++) {
        CALL(SK_SCRIPT_LOCK_RELEASE, 1, "lock:2", tokens[i]);
        must_return(0);
    }
    ck_assert_int_eq(redis_number("EXISTS lock:2"), 1);
}

TEST(only_locks_under_the_token_are_renewed)
{
    redis_run("SET lock:1 mine PX 60000");
    redis_run("SET lock:2 other PX 60000");
    CALL(SK_SCRIPT_LOCK_RENEW, 1, "lock:1", "mine", "120000");
    must_return(1);
    ck_assert_int_gt(redis_number("PTTL lock:1"), 60000);
    CALL(SK_SCRIPT_LOCK_RENEW, 1, "lock:1", "mine", "1000"); // also to a shorter TTL
    must_return(1);
    ck_assert_int_le(redis_number("PTTL lock:1"), 1000);
    CALL(SK_SCRIPT_LOCK_RENEW, 1, "lock:2", "mine", "120000");
    must_return(0);
    ck_assert_int_le(redis_number("PTTL lock:2"), 60000);
    CALL(SK_SCRIPT_LOCK_RENEW, 1, "lock:3", "mine", "120000");
    must_return(0);
    ck_assert_int_eq(redis_number("EXISTS lock:3"), 0); // a lost lock stays lost
}

// ---- session_keep, session_end ----

#define SESSIONS "seckill:{shared}:sessions"

static const char *protocol = SK_PROTOCOL; // the caller's

static void keep(const char *id, const char *token, const char *ttl_ms, const char *how)
{
    char key[TEXT_SIZE];
    (void)snprintf(key, sizeof key, "session:{shared}:%s", id);
    CALL(SK_SCRIPT_SESSION_KEEP, 4, key, SESSIONS, SK_KEY_PROTOCOL, SK_KEY_CLOCK, token, ttl_ms, id, how, protocol,
         "no able one", "0");
    ck_assert_msg(reply->type == REDIS_REPLY_ARRAY, "%s", reply->str);
}

// `living`: the number of sessions listed, if the session is kept.
static void must_be_kept(bool kept, size_t living)
{
    ck_assert_int_eq(reply->element[0]->integer, kept);
    ck_assert_uint_eq(reply->elements, kept ? 2 : 1);
    if (kept)
        ck_assert_uint_eq(reply->element[1]->elements, living);
}

static const char *living_at(size_t i)
{
    return reply->element[1]->element[i]->str;
}

TEST(a_session_is_its_owners_and_is_listed_while_it_lives)
{
    keep("a", "mine", "60000", "renew"); // it does not exist yet
    must_be_kept(false, 0);
    ck_assert_int_eq(redis_number("EXISTS session:{shared}:a " SESSIONS), 0);
    keep("a", "mine", "60000", "take");
    must_be_kept(true, 1);
    ck_assert_str_eq(living_at(0), "a");
    keep("a", "other", "120000", "take");
    must_be_kept(false, 0);
    keep("a", "other", "120000", "renew");
    must_be_kept(false, 0);
    ck_assert_int_le(redis_number("PTTL session:{shared}:a"), 60000);
    keep("a", "mine", "120000", "take"); // a reply was lost: its owner takes it again
    must_be_kept(true, 1);
    keep("b", "other", "60000", "take");
    must_be_kept(true, 2);
    keep("a", "mine", "240000", "renew");
    must_be_kept(true, 2);
    ck_assert_int_gt(redis_number("PTTL session:{shared}:a"), 120000);
    ck_assert_int_gt(redis_number("ZSCORE " SESSIONS " a"), now_ms() + 120000);
}

// Version 4 has its sessions under another key.
TEST(sessions_of_version_4_must_end_first)
{
    STACK_SKIP_CLUSTER("version 4 did not run on one");
    redis_run("ZADD " SK_KEY_SESSIONS_4 " %lld old", (long long)now_ms() + 60000);
    CALL(SK_SCRIPT_SESSION_KEEP, 5, "session:{shared}:a", SESSIONS, SK_KEY_PROTOCOL, SK_KEY_CLOCK, SK_KEY_SESSIONS_4,
         "mine", "60000", "a", "take", protocol, "no able one", "0");
    ck_assert_uint_eq(reply->elements, 2);
    ck_assert_int_eq(reply->element[0]->integer, 0);
    ck_assert_str_eq(element(1), "4");
    ck_assert_int_eq(redis_number("EXISTS session:{shared}:a"), 0);
    redis_run("ZADD " SK_KEY_SESSIONS_4 " %lld old", (long long)now_ms()); // expired
    CALL(SK_SCRIPT_SESSION_KEEP, 5, "session:{shared}:a", SESSIONS, SK_KEY_PROTOCOL, SK_KEY_CLOCK, SK_KEY_SESSIONS_4,
         "mine", "60000", "a", "take", protocol, "no able one", "0");
    must_be_kept(true, 1);
    redis_run("DEL " SK_KEY_SESSIONS_4);
}

TEST(two_protocol_versions_do_not_run_side_by_side)
{
    keep("a", "mine", "60000", "take");
    must_be_kept(true, 1);
    protocol = "other";
    keep("b", "other", "60000", "take");
    protocol = SK_PROTOCOL;
    ck_assert_uint_eq(reply->elements, 2);
    ck_assert_int_eq(reply->element[0]->integer, 0);
    ck_assert_str_eq(element(1), SK_PROTOCOL);
    ck_assert_int_eq(redis_number("EXISTS session:{shared}:b"), 0);
    keep("c", "third", "120000", "take");
    redis_run("ZADD " SESSIONS " %lld a", (long long)now_ms()); // expired
    protocol = "other";
    keep("b", "other", "60000", "take"); // another session lives
    ck_assert_int_eq(reply->element[0]->integer, 0);
    CALL(SK_SCRIPT_SESSION_END, 2, "session:{shared}:c", SESSIONS, "third", "c", "no able one");
    must_return(1);
    keep("b", "other", "60000", "take");
    must_be_kept(true, 1);
    protocol = SK_PROTOCOL;
    keep("a", "mine", "60000", "take");
    ck_assert_int_eq(reply->element[0]->integer, 0);
    ck_assert_str_eq(element(1), "other");
}

TEST(the_list_drops_who_has_expired)
{
    keep("a", "mine", "60000", "take");
    redis_run("ZADD " SESSIONS " %lld gone %lld soon", (long long)now_ms(), (long long)(now_ms() + 30000));
    keep("a", "mine", "60000", "renew");
    must_be_kept(true, 2);
    ck_assert_str_eq(living_at(0), "soon"); // the next to expire
    ck_assert_str_eq(living_at(1), "a");
}

// Else a session that was written by hand would have vouchers assigned that no one maintains, for as long as it names.
TEST(the_list_drops_who_expires_too_late)
{
    keep("a", "mine", "600000", "take");
    redis_run("ZADD " SESSIONS " 9e15 forged %lld late", (long long)now_ms() + 700000);
    keep("a", "mine", "600000", "renew");
    must_be_kept(true, 1);
    ck_assert_str_eq(living_at(0), "a");
    CALL(SK_SCRIPT_SESSION_END, 2, "session:{shared}:a", SESSIONS, "mine", "a", "no able one");
    redis_run("ZADD " SESSIONS " 9e15 forged");
    protocol = "other"; // which a forged session does not keep away
    keep("b", "other", "60000", "take");
    protocol = SK_PROTOCOL;
    must_be_kept(true, 1);
}

// ---- ... and a clock that steps ----

// Simulates that Redis's clock was set back by an hour (forward if `ms` is negative): stored times are that much ahead.
static void set_clock_back(int64_t ms)
{
    static const char *const ids[] = {"a", "b"};
    int64_t seen = redis_number("GET " SK_KEY_CLOCK);
    ck_assert_int_gt(seen, 1600000000000);
    redis_run("SET " SK_KEY_CLOCK " %lld", (long long)(seen + ms));
    for (size_t i = 0; i < 2; i++) {
        redis_run("ZINCRBY " SESSIONS " %lld %s", (long long)ms, ids[i]);
        redis_run("PEXPIRE session:{shared}:%s %lld", ids[i],
                  (long long)(redis_number("PTTL session:{shared}:%s", ids[i]) + ms));
    }
}

static bool is_judged_living(const char *id)
{
    CALL(SK_SCRIPT_SESSIONS_JUDGE, 1, SESSIONS, id);
    ck_assert_uint_eq(reply->elements, 1);
    return reply->element[0]->integer == 1;
}

TEST(a_session_lives_until_its_time_is_over)
{
    keep("a", "mine", "60000", "take");
    ck_assert(is_judged_living("a"));
    ck_assert(!is_judged_living("b"));
    redis_run("ZADD " SESSIONS " %lld a", (long long)now_ms());
    ck_assert(!is_judged_living("a"));
    keep("a", "mine", "60000", "renew");
    must_be_kept(false, 0); // others may have judged it dead
    keep("a", "mine", "60000", "take");
    must_be_kept(true, 1);
    redis_run("DEL " SESSIONS);
    keep("a", "mine", "60000", "renew");
    must_be_kept(false, 0);
}

TEST(a_clock_that_is_set_back_prolongs_no_session)
{
    keep("a", "mine", "60000", "take");
    keep("b", "other", "240000", "take");
    set_clock_back(HOUR_MS);
    keep("a", "mine", "60000", "renew"); // `b` died in the meantime
    must_be_kept(true, 2);
    int64_t left = redis_number("ZSCORE " SESSIONS " b") - now_ms();
    ck_assert_int_le(left, 240000);
    ck_assert_int_gt(left, 200000); // within its own TTL
    left = redis_number("ZSCORE " SESSIONS " a") - now_ms();
    ck_assert_int_le(left, 60000);
    ck_assert_int_gt(left, 50000);
    ck_assert_int_le(redis_number("PTTL session:{shared}:a"), 60000);
    keep("a", "mine", "60000", "renew"); // once
    ck_assert_int_gt(redis_number("ZSCORE " SESSIONS " b") - now_ms(), 200000);
}

// All sessions have died, and their stored expiry would keep a new version out for an hour.
TEST(a_clock_that_is_set_back_prolongs_no_protocol)
{
    keep("a", "mine", "60000", "take");
    keep("b", "other", "60000", "take");
    set_clock_back(HOUR_MS);
    protocol = "other";
    keep("c", "third", "60000", "take");
    ck_assert_int_eq(reply->element[0]->integer, 0); // they may still live
    redis_run("ZINCRBY " SESSIONS " -60000 a");
    redis_run("ZINCRBY " SESSIONS " -60000 b");
    keep("c", "third", "60000", "take");
    protocol = SK_PROTOCOL;
    must_be_kept(true, 1);
    ck_assert_str_eq(living_at(0), "c");
}

TEST(a_clock_that_is_set_forward_ends_all_sessions)
{
    keep("a", "mine", "60000", "take");
    keep("b", "other", "60000", "take");
    set_clock_back(-HOUR_MS);
    ck_assert_int_eq(redis_number("EXISTS session:{shared}:a session:{shared}:b"), 0);
    ck_assert(!is_judged_living("a"));
    keep("a", "mine", "60000", "renew");
    must_be_kept(false, 0);
    keep("a", "mine", "60000", "take");
    must_be_kept(true, 1);
    keep("b", "other", "60000", "take");
    must_be_kept(true, 2);
}

TEST(a_time_that_cannot_be_does_no_harm)
{
    static const char *const times[] = {"nan", "-1", "x", "99999999999999999999999999"};
    for (size_t i = 0; i < 4; i++) {
        keep("a", "mine", "60000", "take");
        redis_run("SET " SK_KEY_CLOCK " %s", times[i]);
        keep("a", "mine", "60000", "take");
        must_be_kept(true, 1);
        ck_assert_int_le(redis_number("GET " SK_KEY_CLOCK), now_ms());
        int64_t left = redis_number("ZSCORE " SESSIONS " a") - now_ms();
        ck_assert_int_gt(left, 50000);
    }
    redis_run("DEL " SK_KEY_CLOCK);
    redis_run("RPUSH " SK_KEY_CLOCK " x");
    keep("a", "mine", "60000", "renew");
    must_be_kept(true, 1);
}

// ---- ... and who can do background work ----

#define ABLE(shard) "seckill:{shared}:session:able:" #shard

// Of two shards; each has '1' or '0'.
static void keep_able(const char *id, const char *in_0, const char *in_1)
{
    char key[TEXT_SIZE], as_able[TEXT_SIZE];
    (void)snprintf(key, sizeof key, "session:{shared}:%s", id);
    (void)snprintf(as_able, sizeof as_able, "%s process", id);
    CALL(SK_SCRIPT_SESSION_KEEP, 6, key, SESSIONS, SK_KEY_PROTOCOL, SK_KEY_CLOCK, ABLE(0), ABLE(1), id, "60000", id,
         "take", protocol, as_able, "2", in_0, in_1);
    ck_assert_uint_eq(reply->elements, 4);
    ck_assert_int_eq(reply->element[0]->integer, 1);
}

static size_t able_in(size_t shard)
{
    return reply->element[2 + shard]->elements;
}

TEST(a_session_is_able_where_it_says_so)
{
    keep_able("a", "1", "0");
    ck_assert(able_in(0) == 1 && able_in(1) == 0);
    keep_able("b", "1", "1");
    ck_assert(able_in(0) == 2 && able_in(1) == 1);
    ck_assert_str_eq(reply->element[3]->element[0]->str, "b process");
    int64_t left = redis_number("ZSCORE " ABLE(1) " %s", "b process") - now_ms();
    ck_assert(left > 500 && left <= 1500);
    ck_assert(redis_number("PTTL " ABLE(1)) <= 1500); // it does not outlive its last entry
    keep_able("a", "0", "0");                         // not any more
    ck_assert(able_in(0) == 1 && able_in(1) == 1);
    redis_run("ZADD " ABLE(0) " %lld %s", (long long)now_ms(), "b process"); // it was not renewed
    keep_able("a", "0", "1");
    ck_assert(able_in(0) == 0 && able_in(1) == 2);
    CALL(SK_SCRIPT_SESSION_END, 4, "session:{shared}:a", SESSIONS, ABLE(0), ABLE(1), "a", "a", "a process");
    must_return(1);
    ck_assert_int_eq(redis_number("ZCARD " ABLE(1)), 1);
}

// Those would own work for as long as they say.
TEST(nobody_is_able_for_longer_than_a_renewal_lasts)
{
    redis_run("ZADD " ABLE(0) " 9e15 forged %lld ahead", (long long)now_ms() + HOUR_MS);
    redis_run("SET " ABLE(1) " x");
    keep_able("a", "1", "1");
    ck_assert(able_in(0) == 1 && able_in(1) == 1);
}

TEST(a_lock_is_cut_to_its_ttl)
{
    redis_run("SET lock:1 token-1/60000 PX 3600000"); // the clock was set back
    CALL(SK_SCRIPT_LOCK_CUT, 1, "lock:1", "1000");
    ck_assert_str_eq(reply->str, "token-1/60000");
    ck_assert_int_le(redis_number("PTTL lock:1"), 60000);
    ck_assert_int_gt(redis_number("PTTL lock:1"), 50000);
    redis_run("PEXPIRE lock:1 55000");
    CALL(SK_SCRIPT_LOCK_CUT, 1, "lock:1", "1000");
    ck_assert_str_eq(reply->str, "token-1/60000");
    ck_assert_int_le(redis_number("PTTL lock:1"), 55000);         // nothing was to be cut
    redis_run("SET lock:1 token-1/999999999999 PX 999999999999"); // no lock has such a TTL
    CALL(SK_SCRIPT_LOCK_CUT, 1, "lock:1", "1000");
    ck_assert_str_eq(reply->str, "token-1/999999999999");
    ck_assert_int_le(redis_number("PTTL lock:1"), 600000);
    redis_run("SET lock:2 hand"); // without a TTL
    CALL(SK_SCRIPT_LOCK_CUT, 1, "lock:2", "60000");
    ck_assert_str_eq(reply->str, "hand");
    ck_assert_int_gt(redis_number("PTTL lock:2"), 50000);
    redis_run("RPUSH lock:3 hand");
    CALL(SK_SCRIPT_LOCK_CUT, 1, "lock:3", "60000");
    ck_assert_int_eq(reply->type, REDIS_REPLY_NIL);
    CALL(SK_SCRIPT_LOCK_CUT, 1, "lock:3", "60000");
    ck_assert_int_eq(reply->type, REDIS_REPLY_NIL);
    ck_assert_int_eq(redis_number("EXISTS lock:3"), 0);
}

// Keys written by hand do not prevent a session from being taken.
TEST(keys_of_a_wrong_type_give_way_to_a_session)
{
    redis_run("RPUSH session:{shared}:a x");
    redis_run("SET " SESSIONS " x");
    keep("a", "mine", "60000", "renew");
    must_be_kept(false, 0);
    keep("a", "mine", "60000", "take");
    must_be_kept(true, 1);
}

// A reactor keeps its session when Redis is full.
TEST(a_session_is_renewed_though_memory_is_full)
{
    keep("a", "mine", "60000", "take");
    redis_run("CONFIG SET maxmemory 1");
    keep("a", "mine", "120000", "renew");
    must_be_kept(true, 1);
    redis_run("CONFIG SET maxmemory 0");
    ck_assert_int_gt(redis_number("PTTL session:{shared}:a"), 60000);
}

TEST(a_session_is_ended_by_its_owner_alone)
{
    keep("a", "mine", "60000", "take");
    CALL(SK_SCRIPT_SESSION_END, 2, "session:{shared}:a", SESSIONS, "other", "a", "no able one");
    must_return(0);
    ck_assert_int_eq(redis_number("EXISTS session:{shared}:a " SESSIONS), 2);
    CALL(SK_SCRIPT_SESSION_END, 2, "session:{shared}:a", SESSIONS, "mine", "a", "no able one");
    must_return(1);
    ck_assert_int_eq(redis_number("EXISTS session:{shared}:a " SESSIONS), 0);
    CALL(SK_SCRIPT_SESSION_END, 2, "session:{shared}:a", SESSIONS, "mine", "a", "no able one");
    must_return(0);
}

SUITE(.begin = scripts_start, .setup = setup, .teardown = scripts_teardown, .in_one_process = true);
