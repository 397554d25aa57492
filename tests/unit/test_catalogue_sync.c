// The catalogue sync: how the catalogue is read and kept up to date, and which poll answers which caller. PostgreSQL is
// a fake, and the test controls the time.
#include "failing_memory.h"

#include <inttypes.h>
#include <stdio.h>

#include "catalogue.h"
#include "catalogue_sync.h"
#include "fake_stores.h"
#include "still_clock.h"
#include "test.h"

enum { PAGE = 500, SHARED_MS = 100, POLL_MS = 1000, WAITERS = 50, COLUMNS = 17, TEXT_SIZE = 24 };

static uv_loop_t loop;
static struct sk_shard shards[SK_SHARDS_MAX];
static struct sk_sale sale;
static struct sk_catalogue_sync *syncing;

static void pass(uint64_t ms)
{
    while ((void)uv_run(&loop, UV_RUN_NOWAIT), ms-- > 0)
        still_at_ms++;
}

// ---- fixture ----

static size_t changed_count;
static int64_t changed_id;

static void on_changed(void *arg, struct sk_voucher *voucher)
{
    ck_assert_ptr_eq(arg, &changed_count);
    changed_count++;
    changed_id = voucher->id;
}

static void open_follow(void)
{
    sale.catalogue = sk_catalogue_new(1);
    syncing = sk_catalogue_sync_open(&sale, 0, on_changed, &changed_count);
    ck_assert_ptr_nonnull(syncing);
}

static void setup(void)
{
    sale = (struct sk_sale){.loop = &loop, .shards = shards, .shard_count = 1};
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    fake_no_memory = memory_fails;
    open_follow();
}

static void teardown(void)
{
    allocations_left = 0;
    sk_catalogue_sync_close(syncing);
    sk_catalogue_free(sale.catalogue);
    pass(0); // lets the timer close
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    fake_stores_forget();
}

// ---- replies of PostgreSQL ----

static char texts[PAGE + 2][COLUMNS][TEXT_SIZE];
static const char *page[PAGE + 2][ROW_COLUMNS];
static size_t page_len;
static int64_t newest_change, newest_id;

static void put_number(size_t row, int column, int64_t number)
{
    (void)snprintf(texts[row][column], TEXT_SIZE, "%" PRId64, number);
    page[row][column] = texts[row][column];
}

static void add(int64_t change, int64_t id, const char *state)
{
    ck_assert_uint_lt(page_len, PAGE + 2);
    size_t row = page_len++;
    newest_change = change > newest_change ? change : newest_change;
    put_number(row, 0, newest_change);
    put_number(row, 1, newest_id);
    put_number(row, 2, change);
    put_number(row, 3, id);
    page[row][4] = state;
    put_number(row, 5, 1000 + id);
    put_number(row, 6, 2000 + id);
    (void)snprintf(texts[row][7], TEXT_SIZE, "t%" PRId64, id); // the tag
    page[row][7] = texts[row][7];
    put_number(row, 9, 3);
    put_number(row, 10, 60);
    put_number(row, 11, id % 2 == 0);
    put_number(row, 12, 18);
    put_number(row, 13, change * 2);
    put_number(row, 16, 5);
}

// Of so many vouchers, from these numbers on.
static void add_many(int64_t change, int64_t id, int count)
{
    for (int i = 0; i < count; i++)
        add(change + i, id + i, "open");
}

// Nothing has changed: one row with the newest numbers.
static void add_none(void)
{
    put_number(page_len, 0, newest_change);
    put_number(page_len, 1, newest_id);
    page_len++;
}

// Sends the page.
static void answer_read(void)
{
    if (page_len == 0)
        add_none();
    pg_answers(&(const struct sk_rows){page_len, (const char *const(*)[ROW_COLUMNS])page});
    page_len = 0;
    memset((void *)page, 0, sizeof page);
}

// A read that has ended asks for documents. NULL: none is asked for.
static const struct asked *asks_for_documents(void)
{
    const struct asked *asked = &fake_pg.asked[fake_pg.answered];
    bool asks = fake_pg.answered < fake_pg.count && asked->what == SK_STATEMENT_CATALOGUE_DOCUMENTS;
    return asks ? asked : NULL;
}

static void answer(void)
{
    answer_read();
    if (asks_for_documents() != NULL)
        pg_answers(&(const struct sk_rows){0});
}

// The next read comes, and is answered.
static void poll(void)
{
    pass(POLL_MS);
    answer();
}

static size_t reads_begun(void)
{
    size_t count = 0;
    for (size_t i = 0; i < fake_pg.count; i++)
        count += fake_pg.asked[i].what == SK_STATEMENT_CATALOGUE_CHANGES;
    return count;
}

// No read begins for so long, and then the n-th one does.
static void must_read_in(uint64_t ms, size_t n)
{
    pass(ms - 1);
    ck_assert_uint_eq(reads_begun(), n - 1);
    pass(1);
    ck_assert_uint_eq(reads_begun(), n);
}

static void must_ask(size_t n, const char *after, const char *first)
{
    ck_assert_uint_eq(reads_begun(), n);
    const struct asked *asked = &fake_pg.asked[fake_pg.count - 1];
    ck_assert_int_eq(asked->what, SK_STATEMENT_CATALOGUE_CHANGES);
    ck_assert_str_eq(asked->argv[0], after);
    ck_assert_str_eq(asked->argv[1], "500");
    ck_assert_str_eq(asked->argv[2], first);
}

// The first poll, of an empty catalogue.
static void read_all(void)
{
    pass(0);
    answer();
    ck_assert(sk_catalogue_sync_complete(syncing));
}

// ---- those who wait ----

static struct sk_catalogue_sync_waiter waiters[WAITERS];
static int answered[WAITERS], good[WAITERS];
static bool wait_again;

static void on_done(struct sk_catalogue_sync_waiter *waiter, bool ok)
{
    answered[waiter - waiters]++;
    good[waiter - waiters] += ok;
    if (wait_again)
        sk_catalogue_sync_wait(syncing, waiter);
}

static void wait_for_read(int i)
{
    waiters[i].done = on_done;
    sk_catalogue_sync_wait(syncing, &waiters[i]);
    ck_assert_int_eq(answered[i], 0); // never from within the call
}

static void must_be_answered(int i, bool ok)
{
    ck_assert_int_eq(answered[i], 1);
    ck_assert_int_eq(good[i], ok);
    answered[i] = good[i] = 0;
}

// ---- reading ----

static const struct sk_voucher *found(int64_t id)
{
    return sk_catalogue_find(sale.catalogue, id);
}

TEST(the_whole_is_read_at_start)
{
    ck_assert_uint_eq(reads_begun(), 0); // only in the loop's next turn
    fake_pg.down = true;
    pass(3 * POLL_MS);
    ck_assert(!sk_catalogue_sync_complete(syncing));
    fake_pg.down = false;
    sk_catalogue_sync_hurry(syncing); // it is back
    must_ask(1, "0", "0");
    ck_assert_int_eq(sk_catalogue_sync_newest_id(syncing), 0);
    newest_change = 12;
    newest_id = 9;
    add(3, 7, "open");
    add(11, 4, "paused");
    answer();
    ck_assert(sk_catalogue_sync_complete(syncing));
    ck_assert_int_eq(sk_catalogue_sync_newest_id(syncing), 9);
    ck_assert_uint_eq(sk_catalogue_count(sale.catalogue), 2);
    const struct sk_voucher *voucher = found(4);
    ck_assert_int_eq(voucher->change, 11);
    ck_assert_int_eq(voucher->state, SK_VOUCHER_PAUSED);
    ck_assert_int_eq(voucher->begin_ms, 1004);
    ck_assert_int_eq(voucher->end_ms, 2004);
    ck_assert_uint_eq(voucher->user_limit, 3);
    ck_assert_uint_eq(voucher->orders_per_user, 5);
    ck_assert_int_eq(voucher->pay_within_s, 60);
    ck_assert(voucher->ticket && !found(7)->ticket);
    ck_assert_uint_eq(voucher->work_bits, 18);
    ck_assert_int_eq(voucher->offer, 22);
    ck_assert_str_eq(voucher->tag, "t4");
    must_read_in(POLL_MS, 2);
    must_ask(2, "11", "12"); // only later changes
}

TEST(it_is_read_in_pages)
{
    pass(0);
    newest_change = 2000;
    newest_id = 3000;
    add_many(1, 1, PAGE);
    answer();
    ck_assert(!sk_catalogue_sync_complete(syncing)); // half a catalogue would make the other half look unknown
    must_ask(2, "500", "2000");
    newest_change = 2001; // the first page decides: vouchers retired since then are reported
    add_many(PAGE + 1, PAGE + 1, PAGE);
    answer();
    must_ask(3, "1000", "2000");
    add(2001, 1, "retired");
    answer();
    ck_assert(sk_catalogue_sync_complete(syncing));
    ck_assert_uint_eq(sk_catalogue_count(sale.catalogue), 2 * PAGE - 1);
    ck_assert_ptr_null(found(1));
}

// Maintenance is notified once of each changed voucher, with its new terms; not of new vouchers, nor of removed ones.
TEST(what_has_changed_is_told)
{
    pass(0);
    add_many(1, 7, 2);
    answer();
    ck_assert_uint_eq(changed_count, 0);
    add(3, 9, "open");
    add(4, 8, "paused");
    add(5, 7, "retired");
    poll();
    ck_assert_uint_eq(changed_count, 1);
    ck_assert_int_eq(changed_id, 8);
    ck_assert_int_eq(found(8)->state, SK_VOUCHER_PAUSED);
}

TEST(changes_are_taken_over)
{
    static const char *const states[] = {"open", "paused", "closed"};
    read_all();
    for (int i = 0; i < 3; i++) {
        add(i + 1, 7, states[i]);
        poll();
        ck_assert_int_eq(found(7)->state, (enum sk_voucher_state)i);
    }
    poll(); // nothing has changed
    ck_assert_int_eq(found(7)->change, 3);
    pass(POLL_MS);
    must_ask(6, "3", "1");
    add(4, 7, "retired");
    answer();
    ck_assert_ptr_null(found(7));
    newest_id = 8;
    poll();
    newest_id = 7; // a poll of an older snapshot changes nothing
    poll();
    ck_assert_int_eq(sk_catalogue_sync_newest_id(syncing), 8);
}

// A copy that its owner has accepted: its new changes have numbers that were read before.
TEST(a_database_that_lacks_changes_is_followed_no_further)
{
    pass(0);
    add(40, 7, "open");
    answer();
    ck_assert(!sk_catalogue_sync_went_back(syncing));
    pass(POLL_MS);
    newest_change = 39;
    wait_for_read(0);
    answer();
    ck_assert(sk_catalogue_sync_went_back(syncing));
    pass(SHARED_MS);
    add(41, 8, "open"); // nor once it has as many
    answer();
    must_be_answered(0, false);
    ck_assert(sk_catalogue_sync_went_back(syncing));
    ck_assert_ptr_null(found(8));
}

TEST(a_row_that_cannot_be_stops_no_other)
{
    pass(0);
    add(1, -7, "open");
    add(2, 8, "open");
    page[page_len - 1][7] = ""; // no tag
    add(3, 9, "open");
    answer();
    ck_assert(sk_catalogue_sync_complete(syncing));
    ck_assert_uint_eq(sk_catalogue_count(sale.catalogue), 1);
    pass(POLL_MS);
    must_ask(2, "3", "1");
}

// Rows read so far stay, and the next poll continues after them.
TEST(memory_that_is_short)
{
    pass(0);
    add(1, 7, "open");
    add(2, 8, "open");
    allocations_left = 7; // three for the table, two for the first voucher, one for the second: the next one fails
    answer();
    ck_assert(memory_has_failed);
    ck_assert(!sk_catalogue_sync_complete(syncing));
    ck_assert_ptr_nonnull(found(7));
    ck_assert_ptr_null(found(8));
    pass(POLL_MS);
    must_ask(2, "1", "1");
    add(2, 8, "open");
    answer();
    ck_assert(sk_catalogue_sync_complete(syncing));
    ck_assert_ptr_nonnull(found(8));
    for (int n = 1; n <= 2; n++) {
        allocations_left = n;
        ck_assert_ptr_null(sk_catalogue_sync_open(&sale, 0, on_changed, &changed_count));
    }
}

// ---- documents ----

enum { DOCUMENTS = 100 };

static void must_ask_documents(const char *after, const char *first)
{
    const struct asked *asked = asks_for_documents();
    ck_assert_ptr_nonnull(asked);
    ck_assert_int_eq(asked->class, SK_PG_QUERIES);
    ck_assert_str_eq(asked->argv[0], after);
    ck_assert_str_eq(asked->argv[1], "100");
    ck_assert_str_eq(asked->argv[2], first);
}

// Of the vouchers from..to: each has its own number as its change.
static void answer_documents(int64_t from, int64_t to)
{
    ck_assert_ptr_nonnull(asks_for_documents());
    for (int64_t id = from; id <= to; id++) {
        size_t row = page_len++;
        put_number(row, 0, id);
        put_number(row, 1, id);
        (void)snprintf(texts[row][2], TEXT_SIZE, "{\"id\":\"%" PRId64 "\"}", id);
        page[row][2] = texts[row][2];
    }
    answer_read();
}

static void must_have_document(int64_t id, bool has)
{
    char document[TEXT_SIZE];
    (void)snprintf(document, sizeof document, "{\"id\":\"%" PRId64 "\"}", id);
    ck_assert_int_eq(found(id)->document != NULL, has);
    if (has)
        ck_assert_str_eq(found(id)->document, document);
}

// The next read comes and is answered, without what it asks for then.
static void poll_only(void)
{
    pass(POLL_MS);
    answer_read();
}

// A page after each read: a large catalogue takes PostgreSQL no more at a time.
TEST(documents_follow_the_changes)
{
    enum { MANY = DOCUMENTS + 5 };
    pass(0);
    newest_change = 200; // retired ones have the later numbers
    add_many(1, 1, MANY);
    answer_read();
    ck_assert(sk_catalogue_sync_complete(syncing)); // sales do not wait for documents
    must_ask_documents("0", "200");
    answer_documents(1, DOCUMENTS);
    must_have_document(DOCUMENTS, true);
    must_have_document(DOCUMENTS + 1, false);
    ck_assert_ptr_null(asks_for_documents());
    poll_only();
    must_ask_documents("100", "200");
    pass(POLL_MS); // a page takes longer than the time between two reads: there is one at a time
    ck_assert_uint_eq(fake_pg.count - fake_pg.answered, 2);
    answer_documents(DOCUMENTS + 1, MANY);
    must_have_document(MANY, true);
    answer_read();
    ck_assert_ptr_null(asks_for_documents()); // all are known
    add(MANY + 1, 7, "paused");
    poll_only();
    must_ask_documents("105", "200");
}

// What was not read, or not kept, is read again; what is not in the catalogue yet comes after it.
TEST(documents_that_failed_are_read_again)
{
    pass(0);
    add_many(1, 1, 3);
    answer_read();
    pg_answers(NULL);
    poll_only();
    must_ask_documents("0", "1");
    allocations_left = 2;
    answer_documents(1, 3);
    allocations_left = 0;
    must_have_document(1, true);
    must_have_document(2, false);
    poll_only();
    must_ask_documents("1", "1");
    answer_documents(2, 4); // 4 was created meanwhile
    must_have_document(3, true);
    add(4, 4, "open");
    poll_only();
    must_ask_documents("3", "1");
    answer_documents(4, 4);
    must_have_document(4, true);
    pass(POLL_MS);
    fake_pg.down = true;
    pass(POLL_MS);
    ck_assert_ptr_null(asks_for_documents());
}

// ---- waiting ----

TEST(only_a_read_that_begins_later_answers)
{
    pass(0);
    wait_for_read(0); // this read has begun
    answer();
    ck_assert_int_eq(answered[0], 0);
    must_read_in(SHARED_MS, 2);
    wait_for_read(1);
    answer();
    must_be_answered(0, true);
    ck_assert_int_eq(answered[1], 0);
    pass(SHARED_MS);
    answer();
    must_be_answered(1, true);
}

TEST(all_who_wait_share_a_read_each_100_ms)
{
    read_all();
    pass(POLL_MS / 2);
    for (size_t reads = 2; reads <= 4; reads++) {
        for (int i = 0; i < WAITERS; i++)
            wait_for_read(i);
        if (reads > 2)
            must_read_in(SHARED_MS, reads);
        else
            pass(0); // at first the last read is long ago
        ck_assert_uint_eq(reads_begun(), reads);
        answer();
        for (int i = 0; i < WAITERS; i++)
            must_be_answered(i, true);
    }
}

TEST(an_answer_counts_when_its_last_page_is_read)
{
    read_all();
    pass(POLL_MS);
    add_many(1, 1, PAGE);
    wait_for_read(1);
    answer();
    answer();
    ck_assert_int_eq(answered[1], 0);
    pass(SHARED_MS);
    add_many(PAGE + 1, 1, PAGE);
    answer();
    ck_assert_int_eq(answered[1], 0);
    answer();
    must_be_answered(1, true);
}

TEST(who_waits_again_waits_for_another_read)
{
    read_all();
    pass(SHARED_MS);
    wait_for_read(0);
    wait_again = true;
    pass(0);
    answer();
    must_be_answered(0, true);
    wait_again = false;
    ck_assert_uint_eq(reads_begun(), 2);
    pass(SHARED_MS);
    ck_assert_uint_eq(reads_begun(), 3);
    answer();
    must_be_answered(0, true);
}

TEST(without_postgres_they_are_told_so)
{
    read_all();
    pass(SHARED_MS);
    wait_for_read(0);
    pass(0);
    pg_answers(NULL);
    must_be_answered(0, false);
    fake_pg.down = true;
    wait_for_read(0);
    pass(SHARED_MS);
    must_be_answered(0, false);
    ck_assert(sk_catalogue_sync_complete(syncing)); // the known vouchers stay
    fake_pg.down = false;
    pass(POLL_MS);
    ck_assert_uint_eq(reads_begun(), 3); // it continues by itself
    wait_for_read(0);
    answer();
    pass(SHARED_MS);
    answer();
    must_be_answered(0, true);
}

TEST(closing_tells_all_who_wait)
{
    pass(0);
    wait_for_read(0);
    answer();
    pass(SHARED_MS);
    wait_for_read(1); // one waits for this read, one for the next
    sk_catalogue_sync_close(syncing);
    must_be_answered(0, false);
    must_be_answered(1, false);
    sk_catalogue_sync_close(NULL);
    sk_catalogue_free(sale.catalogue);
    open_follow(); // for the teardown
}

// ---- hurrying ----

TEST(a_notification_hurries)
{
    read_all();
    wait_for_read(0);
    sk_catalogue_sync_hurry(syncing);
    ck_assert_uint_eq(reads_begun(), 2);
    answer();
    must_be_answered(0, true);
    must_read_in(POLL_MS, 3);         // the poll's interval starts there
    sk_catalogue_sync_hurry(syncing); // the poll in progress may be older than the change
    sk_catalogue_sync_hurry(syncing);
    ck_assert_uint_eq(reads_begun(), 3);
    answer();
    pass(0);
    ck_assert_uint_eq(reads_begun(), 4);
    answer();
    pass(POLL_MS - 1);
    ck_assert_uint_eq(reads_begun(), 4); // it serves both
}

// A store that fails at once must not be queried in a busy loop.
TEST(a_hurry_that_fails_waits_for_the_poll)
{
    read_all();
    sk_catalogue_sync_hurry(syncing);
    sk_catalogue_sync_hurry(syncing);
    pg_answers(NULL);
    must_read_in(POLL_MS, 3);
}

SUITE(.setup = setup, .teardown = teardown);
