// Reading a journal entry back: all of it or nothing, whatever somebody has written there.
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "fake_stores.h"
#include "journal.h"
#include "stack.h"

#define A "018bcfe5-6800-7000-8000-00000000000a"
#define B "018bcfe5-6800-7000-8000-00000000000b"

#define KEY "0123456789abcdef"

#define USER_64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789ABCDE_"

static struct sk_buf seen; // "id user[ quantity[ key]];" for each order

static void note(void *arg, const struct sk_journal_order *order)
{
    char more[SK_JOURNAL_MORE_SIZE];
    ck_assert_ptr_eq(arg, &seen);
    sk_buf_printf(&seen, "%s %s%s;", order->id, order->user, sk_journal_more(order->quantity, order->key, more));
}

// Twice, as recovery does: first only counting. The text is a copy of its very size, not terminated:
// reading past its end would be seen.
static int parse(const char *orders, size_t len)
{
    char *copy = malloc(len == 0 ? 1 : len);
    memcpy(copy, orders, len);
    sk_buf_clear(&seen);
    int count = sk_journal_parse(copy, len, NULL, NULL);
    if (count >= 0)
        ck_assert_int_eq(sk_journal_parse(copy, len, note, &seen), count);
    free(copy);
    return count;
}

START_TEST(orders_come_back_as_they_were_written)
{
    static const struct {
        const char *orders;
        int count;
        const char *seen;
    } rows[] = {
        {A " u", 1, A " u;"},
        {A " alice," B " bob", 2, A " alice;" B " bob;"},
        {A " " USER_64 "," B " .-_9", 2, A " " USER_64 ";" B " .-_9;"},
        {A " u," A " u," A " u", 3, A " u;" A " u;" A " u;"},
        {A " u 2," B " v," B " w 1 " KEY, 3, A " u 2;" B " v;" B " w 1 " KEY ";"},
        {A " u 1000 " KEY, 1, A " u 1000 " KEY ";"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ck_assert_int_eq(parse(rows[i].orders, strlen(rows[i].orders)), rows[i].count);
        ck_assert_str_eq(seen.data, rows[i].seen);
    }
}
END_TEST

START_TEST(a_full_batch_is_read)
{
    enum { BATCH = 2048 };
    struct sk_buf orders = {0};
    for (int i = 0; i < BATCH; i++)
        sk_buf_printf(&orders, "%s018bcfe5-6800-7000-8000-%012d user-%d", i == 0 ? "" : ",", i, i);
    ck_assert_int_eq(parse(orders.data, orders.len), BATCH);
    sk_buf_free(&orders);
}
END_TEST

#define BYTES(text) text, sizeof(text) - 1

START_TEST(anything_else_is_refused)
{
    static const struct {
        const char *orders;
        size_t len;
    } bad[] = {
        {BYTES("")},
        {BYTES(" ")},
        {BYTES(",")},
        {BYTES("broken")},
        {BYTES(A)},
        {BYTES(A " ")},
        {BYTES(A " u 1")},
        {BYTES(A " u 0")},
        {BYTES(A " u 02")},
        {BYTES(A " u 1001")},
        {BYTES(A " u -2")},
        {BYTES(A " u 2 ")},
        {BYTES(A " u 2x")},
        {BYTES(A " u  2")},
        {BYTES(A " u 99999999999999999999")},
        {BYTES(A " u 2 0123")},
        {BYTES(A " u 2 0000000000000000")},
        {BYTES(A " u 2 0123456789ABCDEF")},
        {BYTES(A " u 2 " KEY "0")},
        {BYTES(A " u 2 " KEY " ")},
        {BYTES(A ",")},
        {BYTES(A "  u")},
        {BYTES(A " u ")},
        {BYTES(A "\tu")},
        {BYTES(A " u,")}, // a trailing comma
        {BYTES(A " u," B)},
        {BYTES(A " u," B " ")},
        {BYTES(A " u,," B " v")},
        {BYTES("," A " u")},
        {BYTES(A " u, " B " v")},
        {BYTES(A " u;" B " v")},
        {BYTES(A " u\n")},
        {BYTES(A " u\0")},
        {BYTES(A " \0")},
        {BYTES(A " u\0v")},
        {BYTES(A "\0u")},
        {BYTES(A " gr\xc3\xbc\xc3\x9f")},
        {BYTES(A " " USER_64 "x")},
        {BYTES("018BCFE5-6800-7000-8000-00000000000A u")},
        {BYTES("018bcfe5-6800-7000-8000-00000000000 u")},
        {BYTES("018bcfe5-6800-7000-8000-0000000000000 u")},
        {BYTES("018bcfe5-6800-7000-8000-00000000000g u")},
        {BYTES("018bcfe5-6800-7000-8000\0000000000000a u")},
        {BYTES("018bcfe5_6800_7000_8000_00000000000a u")},
        {BYTES("\xff\xfe\0\x01\x80")},
        {BYTES(A " u," B " v,\xff")},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(parse(bad[i].orders, bad[i].len) == -1, "taken for a journal entry: row %zu '%s'", i,
                      bad[i].orders);
}
END_TEST

// A cut in the user's name cannot be seen; every other one is.
START_TEST(truncated_entries_are_refused)
{
    static const char orders[] = A " alice," B " bob";
    for (size_t len = 0; len < sizeof orders - 1; len++) {
        bool whole = (len > strlen(A " ") && len <= strlen(A " alice")) || len > strlen(A " alice," B " ");
        ck_assert_msg((parse(orders, len) > 0) == whole, "cut after %zu bytes", len);
    }
}
END_TEST

// Every single byte replaced by every value: never a crash, and what is accepted is an order.
START_TEST(a_flipped_byte_never_makes_more_of_an_entry)
{
    static const char orders[] = A " alice," B " bob";
    char bent[sizeof orders];
    for (size_t at = 0; at < sizeof orders - 1; at++) {
        for (int value = 0; value < 256; value++) {
            memcpy(bent, orders, sizeof orders);
            bent[at] = (char)value;
            int count = parse(bent, sizeof orders - 1);
            ck_assert_msg(count == -1 || count == 2, "%d orders with byte %zu = %d", count, at, value);
        }
    }
}
END_TEST

// Who holds it. An entry that names no session is held by none; one whose session cannot be one cannot be read.
START_TEST(an_entry_names_its_holder)
{
    static const struct {
        struct sk_reply session;
        size_t fields;
        bool readable;
        const char *named;
    } rows[] = {
        {TEXT(B), 6, true, B},         {NIL, 4, true, NULL},
        {TEXT(""), 6, false, NULL},    {TEXT("somebody"), 6, false, NULL},
        {NUMBER(7), 6, false, NULL},   {NIL, 6, false, NULL},
        {TEXT(B " "), 6, false, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct sk_reply fields[] = {TEXT("epoch"), TEXT("7"),       TEXT("orders"),
                                          TEXT(A " u"),  TEXT("session"), rows[i].session};
        const struct sk_reply list = {.kind = REPLY_LIST, .count = rows[i].fields, .items = fields};
        const struct sk_reply items[] = {TEXT("10-1"), list};
        const struct sk_reply element = LIST_OF(items);
        struct sk_journal_entry entry;
        ck_assert(sk_journal_read(&element, &entry));
        ck_assert_msg((entry.orders != NULL) == rows[i].readable, "row %zu", i);
        if (rows[i].readable)
            ck_assert_pstr_eq(entry.session, rows[i].named);
    }
}
END_TEST

// Of orders that end. What PostgreSQL would refuse cannot be read, so that it becomes a dead letter: written again and
// again it would keep the voucher closed.
START_TEST(an_entry_of_returns_says_which_move_by_whom_and_why)
{
    static const struct {
        const char *ids, *move, *by, *why;
        int count; // 0: it cannot be read
    } rows[] = {
        {A, "cancelled", "user", "", 1},
        {A "," B, "expired", "expiry", "", 2},
        {A, "refunded", "Ann.1", "zu sp\xc3\xa4t", 1},
        {A, "refunded-kept", "ann", "\xe5\x9d\x8f \xf0\x9f\x93\xa6\n", 1},
        {A, "paid", "user", "", 0},
        {A, "", "user", "", 0},
        {A " u", "expired", "expiry", "", 0},
        {A, "expired", "", "", 0},
        {A, "expired", "\xff", "", 0},
        {A, "expired", "a b", "", 0},
        {A, "refunded", "ann", "\xff", 0},
        {A, "refunded", "ann", "cut \xe5\x9d", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct sk_reply fields[] = {TEXT("epoch"), TEXT("7"),          TEXT("returns"), TEXT(rows[i].ids),
                                          TEXT("move"),  TEXT(rows[i].move), TEXT("by"),      TEXT(rows[i].by),
                                          TEXT("why"),   TEXT(rows[i].why),  TEXT("session"), TEXT(B)};
        const struct sk_reply list = LIST_OF(fields);
        const struct sk_reply items[] = {TEXT("10-1"), list};
        const struct sk_reply element = LIST_OF(items);
        struct sk_journal_entry entry;
        ck_assert(sk_journal_read(&element, &entry));
        ck_assert_msg((entry.orders != NULL) == (rows[i].count > 0), "row %zu", i);
        ck_assert_msg((entry.move != NULL) == (rows[i].count > 0), "row %zu", i);
        if (rows[i].count == 0)
            continue;
        ck_assert_int_eq(entry.count, rows[i].count);
        ck_assert_str_eq(entry.move, rows[i].move);
        ck_assert_str_eq(entry.by, rows[i].by);
        ck_assert_str_eq(entry.why, rows[i].why);
    }
}
END_TEST

static void teardown(void)
{
    fake_stores_forget();
    sk_buf_free(&seen);
}

int main(void)
{
    TCase *tcase = tcase_create("journal");
    tcase_add_checked_fixture(tcase, NULL, teardown);
    tcase_add_test(tcase, orders_come_back_as_they_were_written);
    tcase_add_test(tcase, a_full_batch_is_read);
    tcase_add_test(tcase, anything_else_is_refused);
    tcase_add_test(tcase, truncated_entries_are_refused);
    tcase_add_test(tcase, an_entry_names_its_holder);
    tcase_add_test(tcase, an_entry_of_returns_says_which_move_by_whom_and_why);
    tcase_add_test(tcase, a_flipped_byte_never_makes_more_of_an_entry);
    return harness_main(tcase, CK_FORK);
}
