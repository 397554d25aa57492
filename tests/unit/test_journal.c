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

typedef int parser(const char *list, size_t len, sk_journal_each *each, void *arg);

// Parses twice, as recovery does: first only to count. The text is a copy of the exact size, without a NUL, so that
// reading past its end is detected.
static int parse_with(parser *with, const char *list, size_t len)
{
    char *copy = malloc(len == 0 ? 1 : len);
    if (len > 0)
        memcpy(copy, list, len);
    sk_buf_clear(&seen);
    int count = with(copy, len, NULL, NULL);
    if (count >= 0)
        ck_assert_int_eq(with(copy, len, note, &seen), count);
    free(copy);
    return count;
}

static int parse(const char *orders, size_t len)
{
    return parse_with(sk_journal_parse, orders, len);
}

// Each list ends with "|". "@" and "^" stand for A and B, "~" for NUL.
static void must_be_refused(parser *with, const char *lists)
{
    for (const char *end; (end = strchr(lists, '|')) != NULL; lists = end + 1) {
        struct sk_buf text = {0};
        for (const char *at = lists; at < end; at++) {
            if (*at == '@' || *at == '^')
                sk_buf_puts(&text, *at == '@' ? A : B);
            else
                sk_buf_add(&text, *at == '~' ? "" : at, 1);
        }
        ck_assert_msg(parse_with(with, text.data, text.len) == -1, "taken for a list: '%.*s'", (int)(end - lists),
                      lists);
        sk_buf_free(&text);
    }
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

TEST(anything_else_is_refused)
{
    static const char bad[] =
        "| |,|broken|@|@ |@ u 1|@ u 0|@ u 02|@ u 1001|@ u -2|@ u 2 |@ u 2x|@ u  2|"
        "@ u 99999999999999999999|@ u 2 0123|@ u 2 0000000000000000|@ u 2 0123456789ABCDEF|"
        "@ u 2 " KEY "0|@ u 2 " KEY " |@,|@  u|@ u |@\tu|@ u,|@ u,^|@ u,^ |@ u,,^ v|,@ u|@ u, ^ v|"
        "@ u;^ v|@ u\n|@ u~|@ ~|@ u~v|@~u|@ gr\xc3\xbc\xc3\x9f|@ " USER_64 "x|"
        "018BCFE5-6800-7000-8000-00000000000A u|018bcfe5-6800-7000-8000-00000000000 u|"
        "018bcfe5-6800-7000-8000-0000000000000 u|018bcfe5-6800-7000-8000-00000000000g u|"
        "018bcfe5-6800-7000-8000~000000000000a u|018bcfe5_6800_7000_8000_00000000000a u|"
        "\xff\xfe~\x01\x80|@ u,^ v,\xff|";
    must_be_refused(sk_journal_parse, bad);
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

// ---- orders that end ----

TEST(ids_of_returns_come_back)
{
    static const char ids[] = A "," B "," A;
    ck_assert_int_eq(parse_with(sk_journal_parse_returns, ids, strlen(A)), 1);
    ck_assert_str_eq(seen.data, A " ;");
    ck_assert_int_eq(parse_with(sk_journal_parse_returns, ids, strlen(ids)), 3);
    ck_assert_str_eq(seen.data, A " ;" B " ;" A " ;");
}

TEST(other_lists_of_returns_are_refused)
{
    static const char bad[] = "|,|@,|,@|@,,^|@ | @|@ u|@;^|@, ^|@~|@,^\n|@^|@,^0|018BCFE5-6800-7000-8000-00000000000A|"
                              "018bcfe5-6800-7000-8000-00000000000|";
    must_be_refused(sk_journal_parse_returns, bad);
}

// ---- entries ----

#define IDS_64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// Replaces one field of an entry, or adds it; without a value it leaves it out.
static const struct change {
    const char *field;
    struct sk_reply value;
    bool readable;
} changes[] = {
    // An entry of returns. Text that PostgreSQL would reject makes it unreadable, so that it becomes a dead letter:
    // retries would keep the voucher closed.
    {NULL, NIL, true},
    {"orders", TEXT(A " u"), true}, // it is of returns all the same
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
    {"by", TEXT("Ann.1"), true},
    {"by", TEXT("payment callback"), false},
    {"by", TEXT(IDS_64), true},
    {"by", TEXT(IDS_64 "0"), false},
    {"by", {.kind = REPLY_TEXT, .text = "us\0er", .len = 5}, false},
    {"by", TEXT("\xff"), false}, // PostgreSQL would reject it every time
    {"by", NIL, false},
    {"why", TEXT("no need"), true},
    {"why", TEXT("zu sp\xc3\xa4t \xe5\xae\xa2\xe6\x88\xb7 \xf0\x9f\x98\x80\n"), true},
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
    {"session", NIL, true}, // none holds it
    {"session", TEXT("somebody"), false},
};
enum { CHANGES = sizeof changes / sizeof changes[0] };

static const struct change changes_of_purchases[] = {
    {NULL, NIL, true},
    {"orders", TEXT(A " u 2," B " v"), true},
    {"orders", TEXT(A), false},
    {"orders", NUMBER(7), false},
    {"orders", NIL, false},
    {"returns", TEXT(A), false},     // then it lacks the rest
    {"move", TEXT("expired"), true}, // means nothing
    {"session", NIL, true},
    {"session", TEXT(""), false},
    {"session", TEXT("somebody"), false},
    {"session", TEXT(B " "), false},
    {"session", NUMBER(7), false},
    {"offer", NIL, true}, // older than offers
    {"offer", TEXT("2147483647"), true},
    {"offer", TEXT("2147483648"), false},
    {"offer", TEXT(""), false},
    {"offer", TEXT("-1"), false},
    {"offer", TEXT("x"), false},
    {"epoch", TEXT("8"), true},
    {"epoch", TEXT("-1"), false},
    {"epoch", NIL, false},
};

enum { FIELDS = 7 };
static const char *const names[FIELDS] = {"session", "why", "by", "move", "returns", "epoch"};
static const char *const names_of_purchases[FIELDS] = {"session", "offer", "orders", "epoch"};

// Reads an entry whose fields are in another order than they are written. `values`: by name.
static struct sk_journal_entry read_entry(bool of_purchases, const struct change *change,
                                          struct sk_reply values[FIELDS])
{
    static const struct sk_reply whole[FIELDS] = {TEXT(B),           TEXT(""), TEXT("user"),
                                                  TEXT("cancelled"), TEXT(A),  TEXT("7")};
    static const struct sk_reply whole_of_purchases[FIELDS] = {TEXT(B), TEXT("3"), TEXT(A " u"), TEXT("7")};
    const char *const *named = of_purchases ? names_of_purchases : names;
    struct sk_reply fields[2 * FIELDS];
    struct sk_journal_entry entry;
    size_t n = 0, at = 0;
    memcpy(values, of_purchases ? whole_of_purchases : whole, sizeof whole);
    for (; named[at] != NULL; at++) {
        if (change->field != NULL && strcmp(change->field, named[at]) == 0)
            values[at] = change->value;
        if (values[at].kind == REPLY_NIL)
            continue;
        fields[n++] = (struct sk_reply)TEXT(named[at]);
        fields[n++] = values[at];
    }
    for (at = 0; change->field != NULL && named[at] != NULL && strcmp(change->field, named[at]) != 0;)
        at++;
    if (change->field != NULL && named[at] == NULL) {
        fields[n++] = (struct sk_reply)TEXT(change->field);
        fields[n++] = change->value;
    }
    const struct sk_reply items[] = {TEXT("10-1"), {.kind = REPLY_LIST, .count = n, .items = fields}};
    const struct sk_reply element = LIST_OF(items);
    ck_assert(sk_journal_read(&element, &entry));
    return entry;
}

TEST_EACH(an_entry_is_read_whole_or_not_at_all, CHANGES + sizeof changes_of_purchases / sizeof changes[0])
{
    bool of_purchases = _i >= CHANGES;
    const struct change *change = of_purchases ? &changes_of_purchases[_i - CHANGES] : &changes[_i];
    struct sk_reply values[FIELDS];
    struct sk_journal_entry entry = read_entry(of_purchases, change, values);
    const struct sk_reply *list = &values[of_purchases ? 2 : 4];
    ck_assert_str_eq(entry.id, "10-1");
    ck_assert_int_eq(entry.orders != NULL, change->readable);
    if (!change->readable || of_purchases)
        ck_assert(entry.move == NULL && entry.by == NULL && entry.why == NULL);
    if (!change->readable)
        return;
    ck_assert_pstr_eq(entry.session, values[0].text);
    ck_assert_str_eq(entry.orders, list->text);
    ck_assert_uint_eq(entry.orders_len, strlen(list->text));
    ck_assert_int_eq(entry.count, strchr(list->text, ',') == NULL ? 1 : 2);
    ck_assert_int_eq(entry.epoch, strtoll(values[of_purchases ? 3 : 5].text, NULL, 10));
    if (of_purchases) {
        ck_assert_int_eq(entry.offer, values[1].text == NULL ? 0 : strtoll(values[1].text, NULL, 10));
    } else {
        ck_assert_str_eq(entry.why, values[1].text);
        ck_assert_str_eq(entry.by, values[2].text);
        ck_assert_str_eq(entry.move, values[3].text);
    }
}

// ... at most as many as one call can process.
TEST_EACH(an_entry_has_its_bound, 4)
{
    bool of_purchases = _i >= 2;
    int most = of_purchases ? SK_JOURNAL_ORDERS_MAX : SK_JOURNAL_RETURNS_MAX;
    struct sk_reply values[FIELDS];
    struct sk_buf ids = {0};
    for (int i = 0; i < most + _i % 2; i++)
        sk_buf_printf(&ids, "%s018bcfe5-6800-7000-8000-%012d%s", i == 0 ? "" : ",", i, of_purchases ? " u" : "");
    const struct change change = {of_purchases ? "orders" : "returns", TEXT(ids.data), true};
    ck_assert_int_eq(read_entry(of_purchases, &change, values).count, _i % 2 == 0 ? most : -1);
    sk_buf_free(&ids);
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
