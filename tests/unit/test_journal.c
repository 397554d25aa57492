// A journal entry is parsed completely or not at all, whatever it contains.
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "fake_stores.h"
#include "journal.h"
#include "params.h"
#include "test.h"

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

// Parses twice, as recovery does: first only to count. The text is a copy of the exact size, without a NUL, so that
// reading past its end is detected.
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

TEST(orders_come_back_as_they_were_written)
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

TEST(a_full_batch_is_read)
{
    enum { BATCH = 2048 };
    struct sk_buf orders = {0};
    for (int i = 0; i < BATCH; i++)
        sk_buf_printf(&orders, "%s018bcfe5-6800-7000-8000-%012d user-%d", i == 0 ? "" : ",", i, i);
    ck_assert_int_eq(parse(orders.data, orders.len), BATCH);
    sk_buf_free(&orders);
}

#define BYTES(text) text, sizeof(text) - 1

TEST(anything_else_is_refused)
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

// A cut within a user's name cannot be detected; all other cuts are.
TEST(truncated_entries_are_refused)
{
    static const char orders[] = A " alice," B " bob";
    for (size_t len = 0; len < sizeof orders - 1; len++) {
        bool whole = (len > strlen(A " ") && len <= strlen(A " alice")) || len > strlen(A " alice," B " ");
        ck_assert_msg((parse(orders, len) > 0) == whole, "cut after %zu bytes", len);
    }
}

// Replaces each byte by every value: it never crashes, and an accepted entry has the same number of orders.
TEST(a_flipped_byte_never_makes_more_of_an_entry)
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

// The entry's holder. An entry without a session has none; an entry with an invalid session is unreadable.
TEST(an_entry_names_its_holder)
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

// An entry older than offers names none.
TEST(an_entry_names_the_offer_of_its_orders)
{
    static const struct {
        struct sk_reply offer;
        size_t fields;
        bool readable;
        int32_t named;
    } rows[] = {
        {TEXT("3"), 6, true, 3}, {NIL, 4, true, 0},         {TEXT("2147483647"), 6, true, INT32_MAX},
        {TEXT(""), 6, false, 0}, {TEXT("-1"), 6, false, 0}, {TEXT("2147483648"), 6, false, 0},
        {NIL, 6, false, 0},      {TEXT("x"), 6, false, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct sk_reply fields[] = {TEXT("epoch"), TEXT("7"),     TEXT("orders"),
                                          TEXT(A " u"),  TEXT("offer"), rows[i].offer};
        const struct sk_reply list = {.kind = REPLY_LIST, .count = rows[i].fields, .items = fields};
        const struct sk_reply items[] = {TEXT("10-1"), list};
        const struct sk_reply element = LIST_OF(items);
        struct sk_journal_entry entry;
        ck_assert(sk_journal_read(&element, &entry));
        ck_assert_msg((entry.orders != NULL) == rows[i].readable, "row %zu", i);
        if (rows[i].readable)
            ck_assert_int_eq(entry.offer, rows[i].named);
    }
}

// An entry of returns. Text that PostgreSQL would reject makes it unreadable, so that it becomes a dead letter: retries
// would keep the voucher closed.
TEST(an_entry_of_returns_says_which_move_by_whom_and_why)
{
    static const struct {
        const char *ids, *move, *by, *why;
        int count; // 0: unreadable
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

// ---- orders that end ----

// As `parse`.
static int parse_returns(const char *returns, size_t len)
{
    char *copy = malloc(len == 0 ? 1 : len);
    memcpy(copy, returns, len);
    sk_buf_clear(&seen);
    int count = sk_journal_parse_returns(copy, len, NULL, NULL);
    if (count >= 0)
        ck_assert_int_eq(sk_journal_parse_returns(copy, len, note, &seen), count);
    free(copy);
    return count;
}

TEST(ids_of_returns_come_back)
{
    ck_assert_int_eq(parse_returns(BYTES(A)), 1);
    ck_assert_str_eq(seen.data, A " ;");
    ck_assert_int_eq(parse_returns(BYTES(A "," B "," A)), 3);
    ck_assert_str_eq(seen.data, A " ;" B " ;" A " ;");
}

TEST(other_lists_of_returns_are_refused)
{
    static const struct {
        const char *returns;
        size_t len;
    } bad[] = {
        {BYTES("")},
        {BYTES(",")},
        {BYTES(A ",")},
        {BYTES("," A)},
        {BYTES(A ",," B)},
        {BYTES(A " ")},
        {BYTES(" " A)},
        {BYTES(A " u")},
        {BYTES(A ";" B)},
        {BYTES(A ", " B)},
        {BYTES(A "\0")},
        {BYTES(A "," B "\n")},
        {BYTES(A B)},
        {BYTES(A "," B "0")},
        {BYTES("018BCFE5-6800-7000-8000-00000000000A")},
        {BYTES("018bcfe5-6800-7000-8000-00000000000")},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(parse_returns(bad[i].returns, bad[i].len) == -1, "row %zu: '%s'", i, bad[i].returns);
}

#define IDS_64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// Replaces one field of an entry or, without a text, leaves it out.
static const struct change {
    const char *field;
    struct sk_reply value;
    bool readable;
} changes[] = {
    {NULL, NIL, true},
    {"returns", TEXT(A "," B), true},
    {"returns", TEXT(A " user"), false},
    {"returns", TEXT(""), false},
    {"returns", NUMBER(7), false},
    {"returns", {.kind = REPLY_TEXT, .text = A "\0" A, .len = 73}, false},
    {"returns", NIL, false},
    {"move", TEXT("expired"), true},
    {"move", TEXT("refunded"), true},
    {"move", TEXT("refunded-kept"), true},
    {"move", TEXT("paid"), false},
    {"move", TEXT("unpaid"), false},
    {"move", TEXT("refunded-"), false},
    {"move", TEXT("Cancelled"), false},
    {"move", TEXT("cancelled "), false},
    {"move", {.kind = REPLY_TEXT, .text = "cancelled\0x", .len = 11}, false},
    {"move", TEXT(""), false},
    {"move", NUMBER(1), false},
    {"move", NIL, false},
    {"by", TEXT(""), false},
    {"by", TEXT("payment callback"), false},
    {"by", TEXT(IDS_64), true},
    {"by", TEXT(IDS_64 "0"), false},
    {"by", {.kind = REPLY_TEXT, .text = "us\0er", .len = 5}, false},
    {"by", TEXT("\xff"), false}, // PostgreSQL would reject it every time
    {"by", NIL, false},
    {"why", TEXT("no need"), true},
    {"why",
     TEXT("gr\xc3\xb6\xc3\x9f"
          "er \xe5\xae\xa2\xe6\x88\xb7 \xf0\x9f\x98\x80"),
     true},
    {"why", TEXT(IDS_64 IDS_64 IDS_64 "01234567"), true},
    {"why", TEXT(IDS_64 IDS_64 IDS_64 "012345678"), false},
    {"why", {.kind = REPLY_TEXT, .text = "\0", .len = 1}, false},
    {"why", TEXT("cut \xe5\xae"), false},
    {"why", TEXT("\xc0\x80"), false},
    {"why", NIL, false},
    {"epoch", TEXT("0"), true},
    {"epoch", TEXT("-1"), false},
    {"epoch", TEXT("x"), false},
    {"epoch", NIL, false},
    {"session", NIL, true}, // it has no holder
    {"session", TEXT("somebody"), false},
};

// The fields in another order than they are written.
static size_t return_fields(const struct change *change, struct sk_reply out[12])
{
    static const struct {
        const char *name, *value;
    } whole[] = {{"session", B}, {"why", ""}, {"by", "user"}, {"move", "cancelled"}, {"returns", A}, {"epoch", "7"}};
    size_t n = 0;
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++) {
        bool changed = change->field != NULL && strcmp(change->field, whole[i].name) == 0;
        if (changed && change->value.kind == REPLY_NIL)
            continue;
        out[n++] = (struct sk_reply)TEXT(whole[i].name);
        out[n++] = changed ? change->value : (struct sk_reply)TEXT(whole[i].value);
    }
    return n;
}

TEST_EACH(an_entry_of_returns_is_read_whole_or_not_at_all, sizeof changes / sizeof changes[0])
{
    struct sk_reply fields[12];
    struct sk_journal_entry entry;
    const struct sk_reply list = {.kind = REPLY_LIST, .count = return_fields(&changes[_i], fields), .items = fields};
    const struct sk_reply items[] = {TEXT("10-1"), list};
    const struct sk_reply element = LIST_OF(items);
    ck_assert(sk_journal_read(&element, &entry));
    ck_assert_str_eq(entry.id, "10-1");
    ck_assert_int_eq(entry.orders != NULL, changes[_i].readable);
    if (_i == 0) {
        ck_assert_int_eq(entry.count, 1);
        ck_assert_int_eq(entry.epoch, 7);
        ck_assert_str_eq(entry.session, B);
        ck_assert_uint_eq(entry.orders_len, strlen(A));
        ck_assert_str_eq(entry.orders, A);
        ck_assert_str_eq(entry.move, "cancelled");
        ck_assert_str_eq(entry.by, "user");
        ck_assert_str_eq(entry.why, "");
    }
}

// An entry with both fields is of returns; an entry of purchases has no move, whatever other fields it has.
TEST(a_field_says_what_an_entry_is_of)
{
    const struct sk_reply both[] = {TEXT("epoch"),   TEXT("7"), TEXT("orders"), TEXT(A " u"),
                                    TEXT("returns"), TEXT(B),   TEXT("move"),   TEXT("expired"),
                                    TEXT("by"),      TEXT("x"), TEXT("why"),    TEXT("")};
    const struct sk_reply purchase[] = {TEXT("epoch"), TEXT("7"),    TEXT("orders"),
                                        TEXT(A " u"),  TEXT("move"), TEXT("expired")};
    const struct sk_reply lists[] = {LIST_OF(both), LIST_OF(purchase)};
    struct sk_journal_entry entry;
    for (size_t i = 0; i < 2; i++) {
        const struct sk_reply items[] = {TEXT("10-1"), lists[i]};
        const struct sk_reply element = LIST_OF(items);
        ck_assert(sk_journal_read(&element, &entry));
        ck_assert_int_eq(entry.count, 1);
        ck_assert_str_eq(entry.orders, i == 0 ? B : A " u");
        ck_assert_pstr_eq(entry.move, i == 0 ? "expired" : NULL);
    }
}

TEST(an_entry_is_newer_by_its_epoch_and_then_its_id)
{
    static const struct {
        const char *id;
        int64_t epoch;
        const char *name;
        bool newer;
    } rows[] = {
        {"10-2", 7, "10-1@7", true}, {"10-1", 7, "10-1@7", false}, {"10-1", 7, "10-2@7", false},
        {"10-1", 7, "99-1@6", true}, {"99-1", 7, "10-1@8", false}, {"10-1", 10, "10-1@9", true},
        {"10-2", 7, "10-1", true},   {"10-1", 7, "10-2", false}, // as old versions wrote it
        {"", 7, "10-1@7", false},    {"", 8, "10-1@7", true},    // of an entry that has no id
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        ck_assert_msg(sk_journal_is_newer(rows[i].id, rows[i].epoch, rows[i].name) == rows[i].newer, "row %zu", i);
}

// ... at most as many as one call can process.
TEST(an_entry_of_returns_has_its_bound)
{
    for (int count = SK_JOURNAL_RETURNS_MAX; count <= SK_JOURNAL_RETURNS_MAX + 1; count++) {
        struct sk_buf ids = {0};
        for (int i = 0; i < count; i++)
            sk_buf_printf(&ids, "%s018bcfe5-6800-7000-8000-%012d", i == 0 ? "" : ",", i);
        const struct change change = {"returns", TEXT(ids.data), false};
        struct sk_reply fields[12];
        struct sk_journal_entry entry;
        const struct sk_reply list = {.kind = REPLY_LIST, .count = return_fields(&change, fields), .items = fields};
        const struct sk_reply items[] = {TEXT("10-1"), list};
        const struct sk_reply element = LIST_OF(items);
        ck_assert(sk_journal_read(&element, &entry));
        ck_assert_int_eq(entry.orders != NULL, count == SK_JOURNAL_RETURNS_MAX);
        sk_buf_free(&ids);
    }
}

// ---- what follows the user ----

TEST(quantity_and_key_are_written_only_where_they_say_something)
{
    static const struct {
        unsigned quantity;
        uint64_t key;
        const char *more;
    } rows[] = {
        {1, 0, ""},
        {2, 0, " 2"},
        {1000, 0, " 1000"},
        {1, 1, " 1 0000000000000001"},
        {3, UINT64_MAX, " 3 ffffffffffffffff"},
        {1000, UINT64_C(0x0123456789abcdef), " 1000 " KEY},
    };
    char more[SK_JOURNAL_MORE_SIZE];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        ck_assert_str_eq(sk_journal_more(rows[i].quantity, rows[i].key, more), rows[i].more);
}

static void teardown(void)
{
    fake_stores_forget();
    sk_buf_free(&seen);
}

SUITE(.teardown = teardown);
