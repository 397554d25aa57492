// The journal of a voucher during a rebuild: pages, unreadable and rejected entries, and that no entry leaves the
// journal unless PostgreSQL has its orders. The stores are fakes.
#include "failing_memory.h"

#include <stdio.h>
#include <string.h>

#include "course.h"
#include "rebuild_journal.h"
#include "stage.h"
#include "test.h"

enum { VOUCHER = 7, PAGE = 64, ORDERS_MAX = SK_JOURNAL_ORDERS_MAX };

#define SLOT    "1716" // CRC16 of "7" modulo 16384
#define JOURNAL "seckill:{7}:journal"
#define A       "018bcfe5-6800-7000-8000-00000000000a"
#define B       "018bcfe5-6800-7000-8000-00000000000b"
#define C       "018bcfe5-6800-7000-8000-00000000000c"
#define SESSION "018bcfe5-6800-7000-8000-00000000005e"

static struct sk_voucher *voucher;
static struct sk_rebuild_journal *journal;

// ---- fixture ----

static int ends;
static enum sk_rebuild_journal_end end;

static void on_end(void *arg, enum sk_rebuild_journal_end how)
{
    ck_assert_ptr_eq(arg, &ends);
    ends++;
    end = how;
}

static void setup(void)
{
    stage_open((struct sk_sale_options){0}, 1, 0);
    course_links(&sale);
    voucher = a_voucher(sale.catalogue, VOUCHER);
}

static void forget(void)
{
    sk_rebuild_journal_free(journal);
    fake_stores_forget();
    fake_no_memory = NULL;
    calls_left = 0;
    ends = 0;
    journal = sk_rebuild_journal_new(&sale, voucher, on_end, &ends);
    ck_assert_ptr_nonnull(journal);
}

// A new one, with its first question.
static void begin(void)
{
    forget();
    sk_rebuild_journal_settle(journal, "4");
}

static void teardown(void)
{
    sk_rebuild_journal_free(journal);
    stage_close();
}

static void must_have_ended(enum sk_rebuild_journal_end how)
{
    ck_assert(!course_waits());
    ck_assert_int_eq(ends, 1);
    ck_assert_int_eq(end, how);
}

// ---- courses ----

enum { STEPS_MAX = 16 };

#define ENTRY(id, ...) REPLY_ITEMS(TEXT(id), REPLY_ITEMS(__VA_ARGS__))
#define ORDERS(id, orders) \
    ENTRY(id, TEXT("epoch"), TEXT("3"), TEXT("orders"), TEXT(orders), TEXT("session"), TEXT(SESSION))
#define READ(count, ...)                                                                   \
    {                                                                                      \
        "ask-redis XRANGE " JOURNAL " - + COUNT " count, .reply = REPLY_ITEMS(__VA_ARGS__) \
    }
#define READ_NOTHING(count)                                                  \
    {                                                                        \
        "ask-redis XRANGE " JOURNAL " - + COUNT " count, .reply = EMPTY_LIST \
    }
#define PLACE(ids, users) "ask-pg place_orders " SLOT " 7 4 {" ids "} {" users "} null null null 0"
#define PLACE_DETAILED(ids, users, quantities, keys) \
    "ask-pg place_orders " SLOT " 7 4 {" ids "} {" users "} null {" quantities "} {" keys "} 0"
#define KEY "0123456789abcdef"
#define RETURNS(id, ids, move, by, why)                                                                             \
    ENTRY(id, TEXT("epoch"), TEXT("3"), TEXT("returns"), TEXT(ids), TEXT("move"), TEXT(move), TEXT("by"), TEXT(by), \
          TEXT("why"), TEXT(why), TEXT("session"), TEXT(SESSION))
#define RETURN(ids, move, by, why) "ask-pg return_orders " SLOT " 7 4 {" ids "} " move " " by " " why " null"
#define PLACED(n)   \
    {               \
        n, "placed" \
    }
#define REMOVE(ids)                                           \
    {                                                         \
        "ask-redis XDEL " JOURNAL " " ids, .reply = NUMBER(1) \
    }
#define PLACES_ALICE   {PLACE(A, "\"alice\""), .rows = ROWS(1, PLACED("1"))}, REMOVE("1-0")
#define PLACES_BOB(id) {PLACE(B, "\"bob\""), .rows = ROWS(1, PLACED("1"))}, REMOVE(id)
#define SET_ASIDE(id, raw, orders, why)                                                    \
    {                                                                                      \
        "pg set_aside " SLOT " 7 " id " \\x" raw " " orders " " why, .rows = ROWS(1, {""}) \
    }
#define LETTER(id, raw) SET_ASIDE(id, raw, "null", "it cannot be read 0")

// A, alice, 3 and KEY
#define ALICE_HEX                                                                      \
    "30313862636665352d363830302d373030302d383030302d30303030303030303030306120616c69" \
    "636520332030313233343536373839616263646566"
#define LAST_ID "18446744073709551615-18446744073709551615"

static const struct course {
    const char *name;
    size_t settled;
    struct step steps[STEPS_MAX];
} courses[] = {
    {"nothing", 0, {READ_NOTHING("4")}},
    {"one entry", 1, {READ("4", ORDERS("1-0", A " alice")), PLACES_ALICE, READ_NOTHING("4")}},
    // Whatever the outcome, PostgreSQL knows the orders.
    {"orders that are live, ended or refused",
     3,
     {READ("4", ORDERS("1-0", A " alice," B " bob"), ORDERS("1-1", C " alice")),
      {PLACE(A "," B "," C, "\"alice\",\"bob\",\"alice\""),
       .rows = ROWS(3, {"1", "already_placed"}, {"2", "ended"}, {"3", "duplicate", A})},
      REMOVE("1-0 1-1"),
      READ_NOTHING("4")}},
    {"one answer for all",
     2,
     {READ("4", ORDERS("1-0", A " alice," B " bob")),
      {PLACE(A "," B, "\"alice\",\"bob\""), .rows = ROWS(1, {NULL, "placed"})},
      REMOVE("1-0"),
      READ_NOTHING("4")}},
    {"entries of two offers are two pages",
     2,
     {READ("4", ORDERS("1-0", A " alice"),
           ENTRY("2-0", TEXT("epoch"), TEXT("3"), TEXT("orders"), TEXT(B " bob"), TEXT("offer"), TEXT("5"))),
      PLACES_ALICE,
      READ("1", ENTRY("2-0", TEXT("epoch"), TEXT("3"), TEXT("orders"), TEXT(B " bob"), TEXT("offer"), TEXT("5"))),
      {"ask-pg place_orders " SLOT " 7 4 {" B "} {\"bob\"} null null null 5", .rows = ROWS(1, PLACED("1"))},
      REMOVE("2-0"),
      READ_NOTHING("2")}},
    // No order can be granted after it; opening starts a new journal once this one is empty (rebuild_open.lua).
    {"an id that is out of range",
     1,
     {READ("4", ORDERS(LAST_ID, A " alice")),
      {PLACE(A, "\"alice\""), .rows = ROWS(1, PLACED("1"))},
      REMOVE(LAST_ID),
      READ_NOTHING("4")}},
    {"an entry that cannot be read",
     0,
     {READ("4", ENTRY("1-0", TEXT("x"), TEXT("y"))), LETTER("1-0", "313a782c313a792c"), REMOVE("1-0"),
      READ_NOTHING("4")}},
    {"quantities and keys",
     3,
     {READ("4", ORDERS("1-0", A " alice 3"), ORDERS("2-0", B " bob," C " carol 1 " KEY)),
      {PLACE_DETAILED(A "," B "," C, "\"alice\",\"bob\",\"carol\"", "3,1,1", "NULL,NULL," KEY),
       .rows = ROWS(3, PLACED("1"), PLACED("2"), PLACED("3"))},
      REMOVE("1-0 2-0"),
      READ_NOTHING("4")}},
    {"orders that end",
     0,
     {READ("4", RETURNS("1-0", A "," B, "expired", "expiry", "")),
      {RETURN(A "," B, "expired", "expiry", "null"),
       .rows = ROWS(2, {"1", "returned", "alice", "1"}, {"2", "kept", "bob", "0"})},
      REMOVE("1-0"),
      READ_NOTHING("4")}},
    {"orders that end, one entry after the other",
     0,
     {READ("4", RETURNS("1-0", A, "refunded-kept", "boss", "it is broken"), RETURNS("2-0", B, "cancelled", "user", "")),
      {RETURN(A, "refunded-kept", "boss", "it is broken"), .rows = ROWS(1, {"1", "returned", "alice", "0"})},
      REMOVE("1-0"),
      READ("4", RETURNS("2-0", B, "cancelled", "user", "")),
      {RETURN(B, "cancelled", "user", "null"), .rows = ROWS(1, {"1", "unknown", NULL, "0"})},
      REMOVE("2-0"),
      READ_NOTHING("4")}},
    // In order: the purchase may be the one that the return ends.
    {"a purchase, its end, and the next purchase",
     2,
     {READ("4", ORDERS("1-0", A " alice 2"), RETURNS("2-0", A, "cancelled", "user", ""), ORDERS("3-0", B " alice")),
      {PLACE_DETAILED(A, "\"alice\"", "2", "NULL"), .rows = ROWS(1, PLACED("1"))},
      REMOVE("1-0"),
      READ("1", RETURNS("2-0", A, "cancelled", "user", "")),
      {RETURN(A, "cancelled", "user", "null"), .rows = ROWS(1, {"1", "returned", "alice", "2"})},
      REMOVE("2-0"),
      READ("1", ORDERS("3-0", B " alice")),
      {PLACE(B, "\"alice\""), .rows = ROWS(1, PLACED("1"))},
      REMOVE("3-0"),
      READ_NOTHING("2")}},
    {"an end before a purchase",
     1,
     {READ("4", RETURNS("1-0", A, "expired", "expiry", ""), ORDERS("2-0", B " bob")),
      {RETURN(A, "expired", "expiry", "null"), .rows = ROWS(1, {"1", "returned", "alice", "1"})},
      REMOVE("1-0"),
      READ("4", ORDERS("2-0", B " bob")),
      PLACES_BOB("2-0"),
      READ_NOTHING("4")}},
    {"an entry without fields",
     0,
     {READ("4", REPLY_ITEMS(TEXT("1-0"), NIL)), LETTER("1-0", ""), REMOVE("1-0"), READ_NOTHING("4")}},
    {"one between two that can be read",
     2,
     {READ("4", ORDERS("1-0", A " alice"), ENTRY("2-0", TEXT("x"), TEXT("y")), ORDERS("3-0", B " bob")), PLACES_ALICE,
      READ("1", ENTRY("2-0", TEXT("x"), TEXT("y"))), LETTER("2-0", "313a782c313a792c"), REMOVE("2-0"),
      READ("1", ORDERS("3-0", B " bob")), PLACES_BOB("3-0"), READ_NOTHING("2")}},
};
enum { COURSES = sizeof courses / sizeof courses[0] };

TEST_EACH(a_whole_course, COURSES)
{
    const struct course *course = &courses[_i];
    begin();
    course_answers(course->steps, course_steps(course->steps));
    must_have_ended(SK_REBUILD_JOURNAL_EMPTY);
    ck_assert_uint_eq(sk_rebuild_journal_settled(journal), course->settled);
}

// Redis was restarted, or was replaced and taken back under a newer epoch, while PostgreSQL settled a page.
TEST_EACH(in_another_redis_nothing_is_removed, 2 * COURSES)
{
    const struct step *steps = courses[_i / 2].steps;
    bool restarted = _i % 2 == 0;
    for (size_t step = 0; step + 1 < course_steps(steps); step++) {
        if (strncmp(steps[step + 1].question, "ask-redis XDEL", 14) != 0)
            continue;
        voucher->seen.epoch = 4;
        begin();
        course_answers(steps, step);
        fake_redis.run_number += restarted;
        voucher->seen.epoch += !restarted;
        course_answer(&steps[step]);
        must_have_ended(SK_REBUILD_JOURNAL_FAILED);
    }
}

static enum sk_rebuild_journal_end failure_at(const struct step *step)
{
    return strncmp(step->question, "pg set_aside", 12) == 0 ? SK_REBUILD_JOURNAL_NOT_KEPT : SK_REBUILD_JOURNAL_FAILED;
}

TEST_EACH(an_answer_that_is_lost_ends_it, COURSES)
{
    const struct step *steps = courses[_i].steps;
    for (size_t step = 0; step < course_steps(steps); step++) {
        for (int fault = FAULT_LOST; fault <= FAULT_NO_ROW; fault++) {
            struct step wrong = steps[step];
            bool places = strncmp(wrong.question, "ask-pg place", 12) == 0;
            bool returns = strncmp(wrong.question, "ask-pg return", 13) == 0;
            wrong.flags = places ? ONE_ROW | MAY_BE_REFUSED : returns ? ONE_ROW : 0;
            begin();
            course_answers(steps, step);
            if (!course_fail(&wrong, (enum fault)fault))
                course_lose();
            must_have_ended(failure_at(&wrong));
        }
    }
}

TEST_EACH(a_call_that_is_not_taken_ends_it, COURSES)
{
    const struct step *steps = courses[_i].steps;
    for (size_t step = 0; step < course_steps(steps); step++) {
        forget();
        calls_left = step + 1;
        fake_no_memory = course_call_fails;
        sk_rebuild_journal_settle(journal, "4"); // ends at once if its first call is rejected
        course_answers(steps, step);
        must_have_ended(failure_at(&steps[step]));
    }
}

// It fails, or continues unaffected: every removed entry was settled or set aside completely.
TEST_EACH(short_memory_loses_nothing, COURSES)
{
    const struct step *steps = courses[_i].steps;
    int failures = 0;
    memory_has_failed = true;
    for (int nth = 1; memory_has_failed; nth++) {
        size_t said = 0;
        forget();
        allocations_left = nth;
        memory_has_failed = false;
        sk_rebuild_journal_settle(journal, "4");
        while (ends == 0)
            course_answer(&steps[said++]);
        allocations_left = 0;
        ck_assert(!course_waits());
        if (end == SK_REBUILD_JOURNAL_EMPTY)
            ck_assert_uint_eq(said, course_steps(steps));
        failures += end != SK_REBUILD_JOURNAL_EMPTY;
    }
    ck_assert_int_ge(failures, course_steps(steps) > 1 ? 1 : 0);
}

TEST(it_needs_memory_to_begin)
{
    allocations_left = 1;
    ck_assert_ptr_null(sk_rebuild_journal_new(&sale, voucher, on_end, &ends));
    ck_assert_int_eq(ends, 0);
    sk_rebuild_journal_free(NULL);
}

// ---- unusable replies of PostgreSQL and Redis ----

static const struct {
    const char *name;
    struct sk_reply page;
    struct sk_rows rows;
} wrong_rows[] = {
#define PAGE_OF_TWO REPLY_ITEMS(ORDERS("1-0", A " alice," B " bob"))
    {"stale", PAGE_OF_TWO, ROWS(1, {NULL, "stale"})},
    {"a word that is not known", PAGE_OF_TWO, ROWS(1, {NULL, "place"})},
    {"one order", PAGE_OF_TWO, ROWS(1, PLACED("1"))},
    {"three orders", PAGE_OF_TWO, ROWS(3, PLACED("1"), PLACED("2"), PLACED("3"))},
    // Another rebuild has begun meanwhile.
    {"stale returns", REPLY_ITEMS(RETURNS("1-0", A "," B, "expired", "expiry", "")), ROWS(1, {NULL, "stale"})},
};

TEST_EACH(what_postgres_has_not_taken_stays, sizeof wrong_rows / sizeof wrong_rows[0])
{
    begin();
    redis_answers(&wrong_rows[_i].page);
    pg_answers(&wrong_rows[_i].rows);
    must_have_ended(SK_REBUILD_JOURNAL_FAILED);
    ck_assert_uint_eq(sk_rebuild_journal_settled(journal), 0);
}

static const struct sk_reply no_entries[] = {
    REPLY_ITEMS(NIL),
    REPLY_ITEMS(ORDERS("1-0", A " alice"), ORDERS("1", B " bob")),
};

TEST_EACH(what_has_no_journal_id_is_no_entry, sizeof no_entries / sizeof no_entries[0])
{
    begin();
    redis_answers(&no_entries[_i]);
    must_have_ended(SK_REBUILD_JOURNAL_FAILED);
}

TEST(it_may_be_run_again)
{
    forget();
    for (size_t run = 1; run <= 3; run++) {
        ends = 0;
        sk_rebuild_journal_settle(journal, "4");
        course_answers(courses[1].steps, course_steps(courses[1].steps));
        must_have_ended(SK_REBUILD_JOURNAL_EMPTY);
        ck_assert_uint_eq(sk_rebuild_journal_settled(journal), run); // over all runs
    }
}

// ---- a fake store with its own journal ----

enum { ENTRIES_MAX = 300, ORDERS_OF_STREAM_MAX = 8000, STATEMENTS_MAX = 300, USER_CHARS = 8 };

// The journal: entries[first] to entries[count - 1], each with its orders; order n is of user "u<n>".
static struct {
    size_t count, first;
    size_t orders[ENTRIES_MAX]; // 0: unreadable
    size_t from[ENTRIES_MAX];   // its first order
    char *text[ENTRIES_MAX];
    char ids[ENTRIES_MAX][24];
} stream;

// The fate of order n.
static struct fate {
    bool bad, placed, aside;
    int tried_alone; // attempts alone, all rejected, while its entry was split
} fates[ORDERS_OF_STREAM_MAX];
static size_t order_count, statements, sizes[STATEMENTS_MAX], largest, pages[ENTRIES_MAX], page_count;
static size_t letters, unreadable_letters;

static void make_stream(size_t count, const size_t *orders)
{
    stream.count = count;
    stream.first = 0;
    order_count = 0;
    for (size_t i = 0; i < count; i++) {
        size_t len = 0, room = orders[i] * (SK_UUID_SIZE + USER_CHARS + 1) + 1;
        stream.orders[i] = orders[i];
        stream.from[i] = order_count;
        stream.text[i] = calloc(1, room);
        (void)snprintf(stream.ids[i], sizeof stream.ids[i], "%zu-0", i + 1);
        for (size_t j = 0; j < orders[i]; j++, order_count++)
            len += (size_t)snprintf(stream.text[i] + len, room - len, "%s018bcfe5-6800-7000-8000-%012zu u%zu",
                                    j == 0 ? "" : ",", order_count, order_count);
    }
    ck_assert_uint_le(order_count, ORDERS_OF_STREAM_MAX);
    memset(fates, 0, sizeof fates);
    statements = largest = page_count = letters = unreadable_letters = 0;
}

static void drop_stream(void)
{
    for (size_t i = 0; i < stream.count; i++)
        free(stream.text[i]);
}

static void play_xrange(const struct asked *asked)
{
    static struct sk_reply fields[PAGE][4], parts[PAGE][2], elements[PAGE];
    size_t most = strtoul(asked->argv[5], NULL, 10), n = 0;
    ck_assert_uint_le(most, PAGE);
    pages[page_count++] = most;
    for (size_t i = stream.first; i < stream.count && n < most; i++, n++) {
        fields[n][0] = (struct sk_reply)TEXT("epoch");
        fields[n][1] = (struct sk_reply)TEXT("3");
        fields[n][2] = (struct sk_reply)TEXT("orders");
        fields[n][3] = (struct sk_reply)TEXT(stream.text[i]);
        parts[n][0] = (struct sk_reply)TEXT(stream.ids[i]);
        parts[n][1] = (struct sk_reply){.kind = REPLY_LIST, .count = 4, .items = fields[n]};
        elements[n] = (struct sk_reply){.kind = REPLY_LIST, .count = 2, .items = parts[n]};
    }
    const struct sk_reply reply = {.kind = REPLY_LIST, .count = n, .items = elements};
    redis_answers(&reply);
}

// Entries leave in order, and only with all orders placed or set aside.
static void play_xdel(const struct asked *asked)
{
    static const struct sk_reply one = NUMBER(1);
    for (int i = 2; i < asked->argc; i++, stream.first++) {
        ck_assert_str_eq(asked->argv[i], stream.ids[stream.first]);
        for (size_t j = 0; j < stream.orders[stream.first]; j++) {
            size_t n = stream.from[stream.first] + j;
            ck_assert_msg(fates[n].placed != fates[n].aside, "order %zu was removed", n);
        }
        ck_assert(stream.orders[stream.first] > 0 || unreadable_letters > 0);
    }
    redis_answers(&one);
}

// Rejects the whole statement if it contains a bad order, as PostgreSQL does.
static void play_place(const struct asked *asked)
{
    static const char *placed[ORDERS_MAX][ROW_COLUMNS];
    size_t count = 0;
    bool bad = false;
    for (const char *at = strchr(asked->argv[4], 'u'); at != NULL; at = strchr(at + 1, 'u'), count++)
        bad = bad || fates[strtoul(at + 1, NULL, 10)].bad;
    ck_assert_uint_gt(count, 0);
    ck_assert_uint_le(count, ORDERS_MAX);
    ck_assert_uint_lt(statements, STATEMENTS_MAX);
    sizes[statements++] = count;
    largest = count > largest ? count : largest;
    for (const char *at = strchr(asked->argv[4], 'u'); at != NULL; at = strchr(at + 1, 'u')) {
        size_t n = strtoul(at + 1, NULL, 10);
        fates[n].placed = fates[n].placed || !bad;
        fates[n].tried_alone += bad && count == 1 && pages[page_count - 1] == 1;
    }
    for (size_t i = 0; i < count; i++) {
        placed[i][0] = i == 0 ? "1" : "2";
        placed[i][1] = "placed";
    }
    const struct sk_rows rows = {count, placed};
    if (bad)
        pg_fails(SK_RESULT_REFUSED);
    else
        pg_answers(&rows);
}

static void play_set_aside(const struct asked *asked)
{
    static const char *const done[][ROW_COLUMNS] = {{""}};
    const struct sk_rows row = {1, done};
    ck_assert_str_eq(asked->argv[2], stream.ids[stream.first]);
    letters++;
    if (asked->argv[4] == NULL) {
        ck_assert_uint_eq(stream.orders[stream.first], 0);
        unreadable_letters++;
    } else {
        char order[96];
        size_t n = strtoul(strchr(asked->argv[4], 'u') + 1, NULL, 10);
        ck_assert_uint_lt(n, order_count);
        (void)snprintf(order, sizeof order, "018bcfe5-6800-7000-8000-%012zu u%zu", n, n);
        ck_assert_str_eq(asked->argv[4], order);
        fates[n].aside = true;
    }
    pg_answers(&row);
}

static void play(void)
{
    sk_rebuild_journal_settle(journal, "4");
    while (ends == 0) {
        const struct asked *asked = course_asked();
        if (asked->on_result != NULL && asked->what == SK_STATEMENT_PLACE_ORDERS)
            play_place(asked);
        else if (asked->on_result != NULL)
            play_set_aside(asked);
        else if (strcmp(asked->argv[0], "XRANGE") == 0)
            play_xrange(asked);
        else
            play_xdel(asked);
    }
}

static void play_to_the_end(void)
{
    forget();
    play();
    must_have_ended(SK_REBUILD_JOURNAL_EMPTY);
    ck_assert_uint_eq(stream.first, stream.count);
}

// ---- pages ----

static const struct {
    const char *name;
    size_t count, orders; // entries, and orders in each
    size_t pages[10];     // entries requested by each read
} streams[] = {
    {"one page", 4, 1, {4, 8}},
    {"small entries come in larger and larger pages", 200, 2, {4, 8, 16, 32, 64, 64, 64, 64}},
    {"as many orders as a statement may have", 3, ORDERS_MAX, {4, 1, 1, 1}},
    {"a page is cut where they are too many", 6, 1000, {4, 2, 2, 2}},
    {"a page that is half full does not grow", 8, 300, {4, 4, 4}},
};
enum { STREAMS = sizeof streams / sizeof streams[0] };

TEST_EACH(many_entries_are_settled_page_by_page, STREAMS)
{
    size_t orders[ENTRIES_MAX];
    for (size_t i = 0; i < streams[_i].count; i++)
        orders[i] = streams[_i].orders;
    make_stream(streams[_i].count, orders);
    play_to_the_end();
    ck_assert_uint_eq(sk_rebuild_journal_settled(journal), order_count);
    ck_assert_uint_le(largest, ORDERS_MAX);
    for (size_t i = 0; i < page_count; i++)
        ck_assert_uint_eq(pages[i], streams[_i].pages[i]);
    ck_assert_uint_eq(streams[_i].pages[page_count], 0);
    drop_stream();
}

// ---- orders that PostgreSQL rejects ----

enum { TRIES_MAX = 3 };

static const struct {
    const char *name;
    size_t count, orders[4]; // entries, and orders in each; 0: unreadable
    size_t bad_count, bad[6];
    size_t sizes[16]; // of the statements, the whole page first: it is halved, and then come growing parts. 0: any
} refusals[] = {
    {"the only one", 1, {1}, 1, {0}, {1, 1, 1, 1}},
    {"the first", 1, {8}, 1, {0}, {8, 8, 4, 2, 1, 1, 1, 1, 2, 4}},
    {"the last", 1, {8}, 1, {7}, {8, 8, 4, 4, 2, 2, 1, 1, 1, 1}},
    {"one in the middle of an odd number", 1, {7}, 1, {3}, {7, 7, 3, 4, 2, 1, 1, 1, 1, 2}},
    {"two side by side", 1, {8}, 2, {3, 4}, {0}},
    {"all", 1, {4}, 4, {0, 1, 2, 3}, {0}},
    {"in a second entry", 3, {4, 4, 4}, 1, {5}, {0}},
    {"in each entry", 3, {2, 3, 2}, 3, {1, 2, 6}, {0}},
    {"beside an entry that cannot be read", 3, {2, 0, 2}, 2, {0, 3}, {0}},
    {"in a full statement", 2, {ORDERS_MAX, 1}, 1, {1023}, {0}},
};
enum { REFUSALS = sizeof refusals / sizeof refusals[0] };

TEST_EACH(an_order_that_is_refused_is_found_and_set_aside, REFUSALS)
{
    size_t unreadable = 0;
    make_stream(refusals[_i].count, refusals[_i].orders);
    for (size_t i = 0; i < refusals[_i].count; i++)
        unreadable += refusals[_i].orders[i] == 0;
    for (size_t i = 0; i < refusals[_i].bad_count; i++)
        fates[refusals[_i].bad[i]].bad = true;
    play_to_the_end();
    for (size_t n = 0; n < order_count; n++) {
        ck_assert_msg(fates[n].aside == fates[n].bad && fates[n].placed != fates[n].bad, "order %zu", n);
        ck_assert_int_eq(fates[n].tried_alone, fates[n].bad ? TRIES_MAX : 0);
    }
    for (size_t i = 0; i <= statements && refusals[_i].sizes[0] > 0; i++)
        ck_assert_uint_eq(i < statements ? sizes[i] : 0, refusals[_i].sizes[i]);
    ck_assert_uint_eq(unreadable_letters, unreadable);
    ck_assert_uint_eq(letters, refusals[_i].bad_count + unreadable);
    ck_assert_uint_eq(sk_rebuild_journal_settled(journal), order_count - refusals[_i].bad_count);
    drop_stream();
}

TEST(short_memory_loses_nothing_of_what_is_refused)
{
    int failures = 0;
    memory_has_failed = true;
    for (int nth = 1; memory_has_failed; nth++) {
        make_stream(2, (const size_t[]){12, 12}); // longer than the first allocation of a buffer
        fates[13].bad = true;
        forget();
        allocations_left = nth;
        memory_has_failed = false;
        play();
        allocations_left = 0;
        ck_assert(!course_waits());
        ck_assert_uint_eq(end == SK_REBUILD_JOURNAL_EMPTY, stream.first == stream.count);
        failures += end != SK_REBUILD_JOURNAL_EMPTY;
        drop_stream();
    }
    ck_assert_int_ge(failures, 5);
}

static const struct sk_reply page_of_one = REPLY_ITEMS(ORDERS("1-0", A " alice 3 " KEY));

// Each call up to the dead letter is lost in turn. It keeps quantity and key: when it is settled later it has the same
// units, and a repeat finds it.
TEST(a_refusal_that_cannot_be_set_aside_ends_it)
{
    for (int lost = 1; lost <= TRIES_MAX + 2; lost++) {
        bool letter = lost == TRIES_MAX + 2;
        begin();
        redis_answers(&page_of_one);
        pg_fails(SK_RESULT_REFUSED);
        ck_assert_str_eq(course_question(), "ask-redis XRANGE " JOURNAL " - + COUNT 1");
        if (lost > 1)
            redis_answers(&page_of_one);
        for (int i = 2; i < lost; i++) {
            ck_assert_str_eq(course_question(), PLACE_DETAILED(A, "\"alice\"", "3", KEY));
            pg_fails(SK_RESULT_REFUSED);
        }
        if (letter)
            ck_assert_str_eq(course_question(), "pg set_aside " SLOT " 7 1-0 \\x" ALICE_HEX " " A " alice 3 " KEY
                                                " PostgreSQL refuses it 0");
        course_lose();
        must_have_ended(letter ? SK_REBUILD_JOURNAL_NOT_KEPT : SK_REBUILD_JOURNAL_FAILED);
        ck_assert_uint_eq(sk_rebuild_journal_settled(journal), 0);
    }
}

// Another session has settled the entry meanwhile.
TEST(a_refused_page_may_be_gone)
{
    begin();
    redis_answers(&page_of_one);
    pg_fails(SK_RESULT_REFUSED);
    REDIS_ANSWERS(EMPTY_LIST);
    must_have_ended(SK_REBUILD_JOURNAL_EMPTY);
}

SUITE(.setup = setup, .teardown = teardown);
