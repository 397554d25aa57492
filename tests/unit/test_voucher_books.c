// What the audit concludes from both stores' data on a voucher.
#include <string.h>

#include "fake_stores.h"
#include "test.h"
#include "voucher_books.h"

#define RUN "run-1"

#define TERMS                               \
    {                                       \
        9, 1000, 2000, 3, SK_VOUCHER_PAUSED \
    }

static const struct sk_account account = {.epoch = 7, .newest = "100-5", .stock = 4, .buyers = 6, .terms = TERMS};
static const struct sk_snapshot at_rest = {
    .present = true, .same_run = true, .epoch = 7, .stock = 4, .buyers = 6, .last = "100-5", .terms = TERMS};

static const struct sk_reply good[] = {TEXT("paused"), TEXT("7"), TEXT("100-5"), TEXT("4"), TEXT(RUN),
                                       NUMBER(6),      NUMBER(0), TEXT(""),      TEXT("9"), TEXT("1000"),
                                       TEXT("2000"),   NUMBER(0), TEXT("3")};

// Reads a good reply, but for this element.
static bool read_with(size_t at, struct sk_reply instead, struct sk_snapshot *snapshot)
{
    struct sk_reply items[sizeof good / sizeof good[0]];
    const struct sk_reply reply = LIST_OF(items);
    memcpy(items, good, sizeof good);
    items[at] = instead;
    return sk_snapshot_read(&reply, snapshot);
}

TEST(a_snapshot_is_read)
{
    struct sk_snapshot snapshot;
    ck_assert(read_with(0, good[0], &snapshot));
    ck_assert(snapshot.present && snapshot.same_run && !snapshot.loading);
    ck_assert_int_eq(snapshot.epoch, 7);
    ck_assert_int_eq(snapshot.stock, 4);
    ck_assert_int_eq(snapshot.buyers, 6);
    ck_assert_str_eq(snapshot.last, "100-5");
    ck_assert_int_eq(snapshot.terms.state, SK_VOUCHER_PAUSED);
    ck_assert_int_eq(snapshot.terms.change, 9);
    ck_assert_int_eq(snapshot.terms.begin_ms, 1000);
    ck_assert_int_eq(snapshot.terms.end_ms, 2000);
    ck_assert_int_eq(snapshot.terms.offer, 3);
    // What another process of Redis opened has an epoch, too.
    ck_assert(read_with(4, (struct sk_reply)TEXT(""), &snapshot) && !snapshot.same_run);
    ck_assert_int_eq(snapshot.epoch, 7);
}

TEST(what_cannot_be_read_is_not_relied_on)
{
    static const struct {
        size_t at;
        struct sk_reply instead;
        bool read, same_run, loading, present;
    } rows[] = {
        {0, TEXT(""), true, true, true, false},
        {0, TEXT("loading"), true, true, true, true},
        {0, TEXT("closed"), true, true, false, true},
        {0, TEXT("open"), true, true, false, true},
        {0, TEXT("retired"), true, true, true, true},
        {8, TEXT(""), true, false, false, true},
        {9, TEXT("x"), true, false, false, true},
        {10, NIL, true, false, false, true},
        {12, TEXT(""), true, false, false, true},
        {12, TEXT("2147483648"), true, false, false, true},
        {0, TEXT("odd"), true, true, true, true},
        {4, TEXT(""), true, false, false, true},
        {1, TEXT("x"), true, false, false, true},
        {3, TEXT(""), true, false, false, true},
        {0, NIL, false, false, false, false},
        {2, NIL, false, false, false, false},
        {4, NUMBER(1), false, false, false, false},
        {5, TEXT("x"), false, false, false, false},
        {6, NIL, false, false, false, false},
        {2, TEXT("9999999999999999999-1"), true, false, false, true},
        {2, TEXT("1-1\nlevel=error"), true, false, false, true},
        {2, TEXT("epoch-7"), true, true, false, true},
        {1, TEXT("9223372036854775807"), true, false, false, true},
        {3, TEXT("9223372036854775807"), true, false, false, true},
        {5, NUMBER(-1), false, false, false, false},
        {5, NUMBER(INT64_MAX), false, false, false, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct sk_snapshot snapshot;
        ck_assert_msg(read_with(rows[i].at, rows[i].instead, &snapshot) == rows[i].read, "row %zu", i);
        ck_assert_msg(!rows[i].read || (snapshot.same_run == rows[i].same_run && snapshot.loading == rows[i].loading &&
                                        snapshot.present == rows[i].present),
                      "row %zu", i);
    }
    struct sk_snapshot snapshot;
    const struct sk_reply error = ERROR("ERR"), nothing = {.kind = REPLY_LIST};
    const struct sk_reply damage = ERROR("WRONGTYPE Operation against a key holding the wrong kind of value");
    ck_assert(!sk_snapshot_read(&error, &snapshot));
    ck_assert(!sk_snapshot_read(&nothing, &snapshot));
    ck_assert(sk_snapshot_read(&damage, &snapshot)); // a rebuild repairs it
    ck_assert_int_eq(sk_books_compare(&account, &at_rest, &snapshot), SK_BOOKS_UNSURE);
}

// Each row changes one thing of a sound voucher.
TEST(each_finding_has_its_cause)
{
    static const struct {
        struct sk_snapshot before, now;
        enum sk_books finding;
    } rows[] = {
#define SNAPSHOT(epoch, stock, buyers, journal, last) {true, false, true, epoch, stock, buyers, journal, last, TERMS}
#define WITH(...)                               \
    {                                           \
        true, false, true, 7, 4, 6, 0, "100-5", \
        {                                       \
            __VA_ARGS__                         \
        }                                       \
    }
#define WELL SNAPSHOT(7, 4, 6, 0, "100-5")
        {WELL, WELL, SK_BOOKS_AGREE},
        {WELL, {false, true, false, 0, 0, 0, 0, "", TERMS}, SK_BOOKS_MISSING},
        {WELL, {true, true, true, 7, 4, 6, 0, "100-5", TERMS}, SK_BOOKS_LOADING},
        {WELL, {true, false, false, 7, 4, 6, 0, "100-5", TERMS}, SK_BOOKS_UNSURE},
        {WELL, SNAPSHOT(6, 4, 6, 0, "100-5"), SK_BOOKS_BEHIND},
        {WELL, SNAPSHOT(7, 4, 6, 0, "100-4"), SK_BOOKS_BEHIND},
        {WELL, SNAPSHOT(7, 4, 6, 0, "99-9"), SK_BOOKS_BEHIND},
        {WELL, SNAPSHOT(7, 4, 6, 0, "epoch-7"), SK_BOOKS_BEHIND},
        {WELL, SNAPSHOT(7, 4, 6, 0, "100-6"), SK_BOOKS_AGREE},                   // Redis is ahead: pending orders
        {WELL, SNAPSHOT(8, 4, 6, 0, "epoch-8"), SK_BOOKS_AGREE},                 // it was rebuilt by another in between
        {SNAPSHOT(8, 4, 6, 0, "x"), SNAPSHOT(8, 4, 6, 0, "x"), SK_BOOKS_DIFFER}, // no: PostgreSQL has lost its epoch
        {SNAPSHOT(7, 9, 6, 0, "100-5"), SNAPSHOT(7, 9, 6, 0, "100-5"), SK_BOOKS_DIFFER}, // stock
        {SNAPSHOT(7, 4, 5, 0, "100-5"), SNAPSHOT(7, 4, 5, 0, "100-5"), SK_BOOKS_DIFFER}, // buyers
        // While data changes nothing can be concluded.
        {SNAPSHOT(7, 5, 6, 0, "100-5"), SNAPSHOT(7, 9, 6, 0, "100-5"), SK_BOOKS_AGREE},
        {SNAPSHOT(7, 4, 4, 0, "100-5"), SNAPSHOT(7, 4, 5, 0, "100-5"), SK_BOOKS_AGREE},
        {SNAPSHOT(7, 9, 6, 0, "100-5"), SNAPSHOT(7, 9, 6, 0, "100-6"), SK_BOOKS_AGREE},
        {SNAPSHOT(7, 9, 6, 1, "100-5"), SNAPSHOT(7, 9, 6, 0, "100-5"), SK_BOOKS_AGREE},
        {SNAPSHOT(7, 9, 6, 0, "100-5"), SNAPSHOT(7, 9, 6, 1, "100-5"), SK_BOOKS_AGREE},
        {SNAPSHOT(6, 9, 6, 0, "100-5"), SNAPSHOT(7, 9, 6, 0, "100-5"), SK_BOOKS_AGREE},
        {{true, true, true, 7, 9, 6, 0, "100-5", TERMS}, SNAPSHOT(7, 9, 6, 0, "100-5"), SK_BOOKS_AGREE},
        {{false, false, false, 0, 0, 0, 0, "", TERMS},
         SNAPSHOT(7, 9, 6, 0, "100-5"),
         SK_BOOKS_AGREE}, // the first check
        // Changes by operators.
        {WELL, WITH(8, 1000, 2000, 3, SK_VOUCHER_OPEN), SK_BOOKS_OLD},
        {WITH(8, 1000, 2000, 3, SK_VOUCHER_OPEN), WITH(8, 1000, 2000, 3, SK_VOUCHER_OPEN), SK_BOOKS_OLD},
        {WITH(8, 500, 900, 3, SK_VOUCHER_OPEN), WELL, SK_BOOKS_AGREE},
        {WELL, WITH(10, 1000, 3000, 3, SK_VOUCHER_OPEN), SK_BOOKS_AGREE}, // the change has arrived since
        {WITH(10, 1, 2, 3, SK_VOUCHER_OPEN), WITH(10, 1, 2, 3, SK_VOUCHER_OPEN),
         SK_BOOKS_DIFFER},                                                // PostgreSQL has lost it
        {WELL, WITH(9, 1000, 2000, 3, SK_VOUCHER_OPEN), SK_BOOKS_DIFFER}, // changed by hand
        {WELL, WITH(9, 1000, 2001, 3, SK_VOUCHER_PAUSED), SK_BOOKS_DIFFER},
        {WELL, WITH(9, 999, 2000, 3, SK_VOUCHER_PAUSED), SK_BOOKS_DIFFER},
        {WELL, WITH(9, 1000, 2000, 2, SK_VOUCHER_PAUSED), SK_BOOKS_DIFFER},
        // Units arrived between the checks: the data is changing.
        {{true, false, true, 7, 9, 6, 0, "100-5", {8, 1000, 2000, 3, SK_VOUCHER_PAUSED}},
         SNAPSHOT(7, 9, 6, 0, "100-5"),
         SK_BOOKS_AGREE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        enum sk_books finding = sk_books_compare(&account, &rows[i].before, &rows[i].now);
        ck_assert_msg(finding == rows[i].finding, "row %zu: %s, should be %s", i, sk_books_name(finding),
                      sk_books_name(rows[i].finding));
    }
}

TEST(a_new_voucher_has_no_newest_entry)
{
    struct sk_account fresh = {.epoch = 1, .newest = "0-0", .stock = 10, .terms = TERMS};
    struct sk_snapshot snapshot = at_rest;
    snapshot.epoch = 1;
    snapshot.stock = 10;
    snapshot.buyers = 0;
    (void)strcpy(snapshot.last, "epoch-1");
    ck_assert_int_eq(sk_books_compare(&fresh, &snapshot, &snapshot), SK_BOOKS_AGREE);
}

TEST(a_snapshot_is_behind_what_was_heard)
{
    static const struct {
        struct sk_snapshot snapshot;
        int64_t epoch;
        const char *last;
        bool behind;
    } rows[] = {
        {SNAPSHOT(7, 4, 6, 0, "100-5"), 7, "100-5", false},
        {SNAPSHOT(7, 4, 6, 0, "100-5"), 7, "100-6", true}, // since then an order of our own
        {SNAPSHOT(7, 4, 6, 0, "100-5"), 7, "99-9", false}, // since then orders of others
        {SNAPSHOT(7, 4, 6, 0, "100-5"), 7, "epoch-7", false},
        {SNAPSHOT(7, 4, 6, 0, "100-5"), 7, "", false}, // rebuilt here, and not queried since
        {SNAPSHOT(7, 4, 6, 0, "epoch-7"), 7, "100-5", true},
        {SNAPSHOT(7, 4, 6, 0, "100-5"), 6, "100-9", false}, // from an earlier epoch
        {SNAPSHOT(7, 4, 6, 0, "100-5"), 8, "", true},
        {SNAPSHOT(7, 4, 6, 0, "100-5"), 0, "", false}, // never queried
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        ck_assert_msg(sk_snapshot_is_behind(&rows[i].snapshot, rows[i].epoch, rows[i].last) == rows[i].behind,
                      "row %zu", i);
}

SUITE(.teardown = fake_stores_forget);
