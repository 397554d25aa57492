// Queries for orders: each path through both stores, and that "not found" is answered only if no store and no instance
// can still have the order.
#include "fake_control.h"

#include "order_id.h"
#include "order_lookup.h"
#include "test.h"

enum { VOUCHER = 7, OTHER = 8, EPOCH = 3, IN_SLOT_MAX = 32, ANSWER_SIZE = 512, MADE_UP = 80 };

#define USER         "alice"
#define ORDER_B      "00000000-0000-7000-8000-00000000000b"
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static struct sk_uuid_gen gen;
static struct sk_voucher *voucher;
static char order[SK_UUID_SIZE];  // with the voucher's slot and epoch
static char pending[ANSWER_SIZE]; // its document while pending
static enum sk_lookup_for what;   // of the lookups
static const char *user;          // the same

// ---- fixture ----

static void setup(void)
{
    control_setup();
    voucher = a_voucher(sale.catalogue, VOUCHER);
    sk_order_id_make(&gen, voucher->slot, EPOCH, order);
    (void)snprintf(
        pending, sizeof pending,
        "{\"id\":\"%s\",\"voucher_id\":\"7\",\"user_id\":\"" USER "\",\"quantity\":1,\"status\":\"pending\"}", order);
    what = SK_LOOKUP_FOR_USER;
    user = USER;
}

// Another voucher in the same slot.
static struct sk_voucher *neighbour(int64_t voucher_id)
{
    struct sk_catalogue_row row = {.change = voucher_id, .voucher_id = voucher_id, .tag = "7"};
    ck_assert_int_eq(sk_catalogue_put(sale.catalogue, &row), SK_OK);
    return sk_catalogue_find(sale.catalogue, voucher_id);
}

// ---- answers ----

typedef const char *const rows_t[ROW_COLUMNS];

// slot, voucher, epoch, newest journal id, stock, buyers
static const rows_t account_rows[] = {{"0", "7", "3", "10", "5", "5", "2", "9", "open", "1000", "2000"},
                                      {"0", "8", "3", "0", "0", "5", "2", "9", "open", "1000", "2000"}};
static const struct sk_rows accounts = {2, account_rows};

#define SNAPSHOT(state, epoch, last, run, journal, id)                                                               \
    {                                                                                                                \
        TEXT(state), TEXT(epoch), TEXT(last), TEXT("5"), TEXT(run), NUMBER(2), NUMBER(journal), TEXT(id), TEXT("9"), \
            TEXT("1000"), TEXT("2000"), NUMBER(0), TEXT("0")                                                         \
    }
#define LOOK(state, epoch, last, run) SNAPSHOT(state, epoch, last, run, 1, "")

static void answer_look_at(size_t i, int64_t journal, const char *id)
{
    const struct sk_reply items[] = SNAPSHOT("open", "3", "10-5", "run-1", journal, id);
    const struct sk_reply reply = LIST_OF(items);
    ck_assert_int_eq(fake_redis.asked[i].what, SK_SCRIPT_READ_VOUCHER);
    redis_answers_at(i, &reply);
}

static bool a_claim_is_next(void)
{
    return fake_redis.answered < fake_redis.count && fake_redis.asked[fake_redis.answered].what == PLAIN_COMMAND;
}

static void answer_row(const char *document, size_t count)
{
    rows_t row[] = {{document}};
    (void)the_statement(user[0] == '\0'                ? SK_STATEMENT_FIND_ANY_ORDER
                        : what == SK_LOOKUP_FOR_REPEAT ? SK_STATEMENT_FIND_REPLICATED_ORDER
                                                       : SK_STATEMENT_FIND_ORDER);
    pg_answers(&(struct sk_rows){count, row});
}

static void answer_retired(const char *epoch, const char *archived)
{
    rows_t row[] = {{epoch, archived}};
    (void)the_statement(SK_STATEMENT_RETIRED_EPOCH);
    pg_answers(&(struct sk_rows){1, row});
}

// ---- conversations ----

// Answers the calls to the stores, one letter each:
//   -  PostgreSQL has no row            o  ... has the order      ?  ... has it, and it is another user's
//   n  no claim is this order           c  one is                 a  the vouchers' accounts
//   l  a snapshot, with no order        L  ... with this one      B  ... with another one      j  ... an empty journal
//   f  the catalogue was read           F  ... could not be       r  no retired voucher has the slot
//   x  PostgreSQL's answer is lost      0  Redis's is
static void play(const char *steps)
{
    const struct sk_reply nil = NIL, claim = TEXT(order);
    for (; *steps != '\0'; steps++) {
        switch (*steps) {
        case '-':
        case 'o':
        case '?':
            answer_row(*steps == 'o' ? "{\"id\":\"x\"}" : NULL, *steps != '-');
            break;
        case 'n':
            ck_assert(a_claim_is_next());
            while (a_claim_is_next())
                redis_answers(&nil);
            break;
        case 'c':
            ck_assert(a_claim_is_next());
            redis_answers(&claim);
            break;
        case 'a':
            (void)the_statement(SK_STATEMENT_VOUCHER_ACCOUNTS);
            pg_answers(&accounts);
            break;
        case 'f':
        case 'F':
            follow_ends(*steps == 'f');
            break;
        case 'r':
            answer_retired("0", "f");
            break;
        case 'x':
            pg_answers(NULL);
            break;
        case '0':
            redis_answers(NULL);
            break;
        default:
            answer_look_at(fake_redis.answered, *steps != 'j', *steps == 'L' ? order : *steps == 'B' ? ORDER_B : "");
        }
    }
}

static void look_up(uint64_t handle)
{
    sk_order_lookup(&control, what, order, user, handle);
}

// The steps are all: no store is asked more.
static void must_end_in(enum sk_verdict verdict, const char *steps)
{
    play(steps);
    must_be_told(1, verdict);
    ck_assert(!stores_wait());
    if (verdict == SK_VERDICT_FOUND)
        ck_assert_str_eq(told_document, steps[strlen(steps) - 1] == 'o' ? "{\"id\":\"x\"}" : pending);
}

static void must_end(enum sk_verdict verdict, const char *steps)
{
    look_up(1);
    must_end_in(verdict, steps);
}

// Up to Redis's check.
static void ask_up_to_the_look(void)
{
    look_up(1);
    play("-na");
    ck_assert_uint_gt(fake_redis.count, fake_redis.answered);
}

// Answers every call: the stores know no order but this one.
static void the_stores_answer(const char *id)
{
    while (stores_wait()) {
        if (fake_pg.answered < fake_pg.count)
            pg_answers(fake_pg.asked[fake_pg.answered].what == SK_STATEMENT_VOUCHER_ACCOUNTS ? &accounts : &no_rows);
        else if (a_claim_is_next())
            play("n");
        else
            answer_look_at(fake_redis.answered, 1, id);
    }
}

// ---- one order ----

TEST(what_postgres_has_is_shown)
{
    char slot[16];
    (void)snprintf(slot, sizeof slot, "%u", voucher->slot);
    look_up(1);
    const struct asked *asked = the_statement(SK_STATEMENT_FIND_ORDER);
    ck_assert_str_eq(asked->argv[0], slot);
    ck_assert_str_eq(asked->argv[1], order);
    ck_assert_str_eq(asked->argv[2], USER);
    must_end_in(SK_VERDICT_FOUND, "o");
    ck_assert_uint_eq(fake_pg.count, 1);
    ck_assert_uint_eq(fake_redis.count, 0);
}

// A read of the order at the same time proves nothing about the standbys, so the two share no answer.
TEST(a_first_answer_waits_for_the_standbys)
{
    look_up(1);
    sk_order_lookup(&control, SK_LOOKUP_FOR_REPEAT, order, USER, 2);
    play("o");
    must_be_shown(1, "{\"id\":\"x\"}");
    ck_assert_int_eq(told[2].count, 0);
    what = SK_LOOKUP_FOR_REPEAT;
    play("o");
    must_be_shown(2, "{\"id\":\"x\"}");
    must_end(SK_VERDICT_UNAVAILABLE, "x"); // the wait was cancelled
    must_end(SK_VERDICT_FOUND, "-nalo");
}

TEST(what_is_anothers_is_not_found)
{
    must_end(SK_VERDICT_NOT_FOUND, "?");
    must_end(SK_VERDICT_NOT_FOUND, "-nal?"); // it was settled meanwhile
}

// A caller without a user sees all orders. Redis finds orders by user, so without one a journal entry may contain it.
TEST(who_may_see_all_is_shown_all)
{
    user = "";
    look_up(1);
    const struct asked *asked = the_statement(SK_STATEMENT_FIND_ANY_ORDER);
    ck_assert_int_eq(asked->argc, 2);
    ck_assert_str_eq(asked->argv[1], order);
    must_end_in(SK_VERDICT_FOUND, "o");
    must_end(SK_VERDICT_FOUND, "-alo"); // meanwhile settled, or a dead letter
    must_end(SK_VERDICT_FOUND, "-ajo");
    must_end(SK_VERDICT_NOT_FOUND, "-aj-fr");
    must_end(SK_VERDICT_PENDING, "-al-");
}

// A single command finds it, which limits the cost of many polled pending orders.
TEST(what_only_redis_has_is_pending)
{
    must_end(SK_VERDICT_FOUND, "-c");
    ck_assert_uint_eq(fake_redis.count, 1);
    ck_assert_str_eq(fake_redis.asked[0].argv[0], "HGET");
    ck_assert_str_eq(fake_redis.asked[0].argv[1], "seckill:{7}:buyers");
    ck_assert_str_eq(fake_redis.asked[0].argv[2], USER);
}

// The order was granted again, after a rebuild.
TEST(what_redis_has_meanwhile_is_pending)
{
    ask_up_to_the_look();
    const struct asked *asked = &fake_redis.asked[1];
    ck_assert_int_eq(asked->keys, 3);
    ck_assert_str_eq(asked->argv[0], "seckill:{7}:voucher");
    ck_assert_str_eq(asked->argv[1], "seckill:{7}:buyers");
    ck_assert_str_eq(asked->argv[2], "seckill:{7}:journal");
    ck_assert_str_eq(asked->argv[3], "run-1"); // the Redis process connected to
    ck_assert_str_eq(asked->argv[4], USER);
    must_end_in(SK_VERDICT_FOUND, "L");
    ck_assert_uint_eq(fake_pg.count, 2);
}

// PostgreSQL is asked again, since it may have been settled; and the catalogue is read, since a new voucher may have
// the same slot.
TEST(what_no_store_has_is_not_found)
{
    must_end(SK_VERDICT_NOT_FOUND, "-nal-fr");
    must_end(SK_VERDICT_NOT_FOUND, "-naB-fr"); // the user has another order
    must_end(SK_VERDICT_FOUND, "-nalo");       // it was settled
}

// The order arrived after the move had looked for it. Another user's is not found for a move either.
TEST(what_a_move_finds_is_pending)
{
    what = SK_LOOKUP_FOR_MOVE;
    must_end(SK_VERDICT_PENDING, "o");
    must_end(SK_VERDICT_PENDING, "-c");
    must_end(SK_VERDICT_PENDING, "-naL");
    must_end(SK_VERDICT_PENDING, "-nalo");
    must_end(SK_VERDICT_NOT_FOUND, "?");
    must_end(SK_VERDICT_NOT_FOUND, "-nal-fr");
    ck_assert_str_eq(told_document, "");
}

// A store that has, or may have, lost data cannot prove that an order does not exist (P5).
TEST(not_found_needs_a_redis_that_can_be_relied_on)
{
    static const struct sk_reply looks[][13] = {
        LOOK("loading", "3", "10-5", "run-1"), // being rebuilt
        LOOK("", "3", "10-5", "run-1"),        // missing
        LOOK("open", "3", "10-5", ""),         // another process
        LOOK("open", "3", "10-4", "run-1"),    // behind PostgreSQL
        LOOK("open", "3", "epoch-3", "run-1"), // behind PostgreSQL, too
        LOOK("open", "2", "10-5", "run-1"),    // a past epoch
        LOOK("open", "x", "10-5", "run-1"),    // impossible
        LOOK("open", "3", "x", "run-1"),
    };
    for (size_t i = 0; i < COUNT(looks); i++) {
        struct sk_reply reply = {.kind = REPLY_LIST, .count = 13, .items = looks[i]}, with_order[13];
        ask_up_to_the_look();
        redis_answers(&reply);
        must_end_in(SK_VERDICT_UNAVAILABLE, "-");
        ask_up_to_the_look();
        redis_answers(&reply);
        must_end_in(SK_VERDICT_FOUND, "o");
        // An existing order is found anyway.
        memcpy(with_order, looks[i], sizeof with_order);
        with_order[7] = (struct sk_reply)TEXT(order);
        reply.items = with_order;
        ask_up_to_the_look();
        redis_answers(&reply);
        must_be_shown(1, pending);
    }
    static const struct sk_reply damage = ERROR("WRONGTYPE Operation against a key");
    ask_up_to_the_look();
    redis_answers(&damage);
    must_end_in(SK_VERDICT_UNAVAILABLE, "-");
}

// The slot may have another node by the time of the reply.
TEST_EACH(the_process_that_was_asked_is_judged, 2)
{
    const struct sk_reply items[2][13] = {LOOK("open", "3", "10-5", "run-1"), LOOK("open", "3", "10-5", "")};
    const struct sk_reply reply = LIST_OF(items[_i]);
    fake_redis.cluster = true;
    fake_redis.swapped = voucher->slot % 2 != 0;
    ask_up_to_the_look();
    ck_assert_str_eq(fake_redis.asked[fake_redis.answered].argv[3], "run-1");
    fake_redis.swapped = !fake_redis.swapped;
    redis_answers(&reply);
    fake_redis.cluster = false;
    must_end_in(_i == 0 ? SK_VERDICT_NOT_FOUND : SK_VERDICT_UNAVAILABLE, _i == 0 ? "-fr" : "-");
}

TEST(without_redis_it_is_not_known)
{
    static const struct sk_reply nil = NIL, error = ERROR("LOADING"), number = NUMBER(1);
    static const struct sk_reply *const answers[] = {NULL, &nil, &error, &number};
    for (size_t i = 0; i < COUNT(answers); i++) {
        ask_up_to_the_look();
        redis_answers(answers[i]);
        must_end_in(SK_VERDICT_UNAVAILABLE, "");
        // An unreadable claim may still be readable in the check.
        look_up(1);
        play("-");
        redis_answers(answers[i]);
        must_end_in(SK_VERDICT_FOUND, "aL");
    }
    look_up(1);
    play("-n");
    fake_redis.down = true;
    must_end_in(SK_VERDICT_UNAVAILABLE, "a");
    must_end(SK_VERDICT_UNAVAILABLE, "-"); // at once: Redis cannot be queried
}

// A paused or disconnected instance may hold an order granted under an earlier epoch.
TEST(not_found_needs_an_id_that_no_instance_can_hold)
{
    static const struct {
        int64_t epoch;
        bool may_be_away;
    } rows[] = {{EPOCH, false}, {EPOCH - 1, true}, {0, true}, {EPOCH + 1, false}, {1023, false}}; // two never were
    for (size_t i = 0; i < COUNT(rows); i++) {
        sk_order_id_make(&gen, voucher->slot, rows[i].epoch, order);
        must_end(rows[i].may_be_away ? SK_VERDICT_UNAVAILABLE : SK_VERDICT_NOT_FOUND,
                 rows[i].may_be_away ? "-nal-" : "-nal-fr");
    }
}

TEST(without_postgres_it_is_not_known)
{
    must_end(SK_VERDICT_UNAVAILABLE, "x");
    must_end(SK_VERDICT_UNAVAILABLE, "-nx");
    must_end(SK_VERDICT_UNAVAILABLE, "-nalx");
    ask_up_to_the_look();
    fake_pg.down = true;
    must_end_in(SK_VERDICT_UNAVAILABLE, "l");
    must_end(SK_VERDICT_UNAVAILABLE, "");
    fake_pg.down = false;
    look_up(1);
    play("-n");
    pg_answers(&no_rows); // no account of the voucher: Redis's data cannot be judged
    must_end_in(SK_VERDICT_UNAVAILABLE, "l-");
}

// Redis had lost it, and a paused instance may still record it as refused. One that may be archived is never "not
// found", whatever its epoch.
TEST(an_order_of_a_sale_that_was_retired_may_be_away)
{
    static const int64_t epochs[] = {0, 6, 7, 8};
    for (size_t i = 0; i < COUNT(epochs); i++) {
        sk_order_id_make(&gen, 11, epochs[i], order); // a slot without vouchers
        for (int archived = 0; archived < 2; archived++) {
            look_up(1);
            play("-f");
            const struct asked *asked = the_statement(SK_STATEMENT_RETIRED_EPOCH);
            ck_assert_str_eq(asked->argv[0], "11");
            ck_assert_str_eq(asked->argv[1], order);
            answer_retired("7", archived ? "t" : "f");
            must_be_told(1, archived        ? SK_VERDICT_ARCHIVED
                            : epochs[i] < 7 ? SK_VERDICT_UNAVAILABLE
                                            : SK_VERDICT_NOT_FOUND);
        }
    }
    must_end(SK_VERDICT_UNAVAILABLE, "-fx");
}

TEST(a_voucher_that_is_new_is_found_by_a_look)
{
    struct sk_catalogue_row row = {.change = 9, .voucher_id = 9, .tag = "9"};
    sk_order_id_make(&gen, 11, EPOCH, order); // a slot without vouchers
    must_end(SK_VERDICT_NOT_FOUND, "-fr");
    must_end(SK_VERDICT_UNAVAILABLE, "-F");
    ck_assert_uint_eq(fake_pg.count, 3);
    ck_assert_int_eq(sk_catalogue_put(sale.catalogue, &row), SK_OK);
    unsigned slot = sk_catalogue_find(sale.catalogue, 9)->slot;
    row.state = SK_VOUCHER_RETIRED;
    ck_assert_int_eq(sk_catalogue_put(sale.catalogue, &row), SK_OK);
    row.state = SK_VOUCHER_OPEN;
    sk_order_id_make(&gen, slot, EPOCH, order);
    look_up(1);
    play("-");
    ck_assert_int_eq(sk_catalogue_put(sale.catalogue, &row), SK_OK);
    play("faL");
    must_be_told(1, SK_VERDICT_FOUND);
    ck_assert_ptr_nonnull(strstr(told_document, "\"voucher_id\":\"9\""));
}

// An older voucher has the slot: it does not know the order, which proves nothing about the new voucher.
TEST(a_voucher_that_is_new_may_share_its_slot)
{
    must_end(SK_VERDICT_UNAVAILABLE, "-nal-F");
    look_up(1);
    play("-nal-");
    ck_assert_uint_eq(told[1].count, 0);
    (void)neighbour(OTHER);
    play("f");
    ck_assert_str_eq(the_statement(SK_STATEMENT_VOUCHER_ACCOUNTS)->argv[1], "{8,7}");
    play("aLl");
    must_be_told(1, SK_VERDICT_FOUND);
    ck_assert_ptr_nonnull(strstr(told_document, "\"voucher_id\":\"8\""));
    must_end(SK_VERDICT_NOT_FOUND, "-nall-fr"); // no new voucher: the stores are not queried again
}

// The replies arrive out of order, as after a script that Redis had lost.
TEST(each_voucher_of_the_slot_is_asked)
{
    (void)neighbour(OTHER);
    for (size_t where = 0; where < 3; where++) {
        fake_stores_forget();
        look_up(1);
        play("-n");
        ck_assert_str_eq(the_statement(SK_STATEMENT_VOUCHER_ACCOUNTS)->argv[1], "{8,7}");
        play("a");
        ck_assert_uint_eq(fake_redis.count, 4);
        answer_look_at(3, 1, where == 1 ? order : ORDER_B);
        ck_assert_int_eq(told[1].count, 0);
        answer_look_at(2, 1, where == 0 ? order : "");
        if (where == 2) {
            must_end_in(SK_VERDICT_NOT_FOUND, "-fr");
        } else {
            must_be_told(1, SK_VERDICT_FOUND);
            ck_assert_ptr_nonnull(strstr(told_document, where == 1 ? "\"7\"" : "\"8\""));
        }
    }
}

TEST(each_voucher_of_the_slot_must_be_relied_on)
{
    static const struct sk_reply bad[13] = LOOK("loading", "3", "10-5", "run-1");
    static const struct sk_reply loading = LIST_OF(bad);
    (void)neighbour(OTHER);
    ask_up_to_the_look();
    redis_answers(&loading);
    must_end_in(SK_VERDICT_UNAVAILABLE, "l-");
    must_end(SK_VERDICT_FOUND, "-na0L"); // one finding is enough
    must_end(SK_VERDICT_UNAVAILABLE, "-na0l");
    // Only the first call succeeds.
    fake_stores_forget();
    look_up(1);
    play("-n");
    allocations_left = 2;
    play("a");
    allocations_left = 0;
    ck_assert_uint_eq(fake_redis.count, 3);
    must_end_in(SK_VERDICT_UNAVAILABLE, "l");
}

TEST(a_slot_with_more_vouchers_than_are_asked)
{
    enum { FIRST = 100 };
    static char ids[IN_SLOT_MAX][8];
    static const char *rows[IN_SLOT_MAX][ROW_COLUMNS];
    for (int more = 0; more < 2; more++) {
        // At first there are IN_SLOT_MAX, with the existing one.
        for (int i = 0; i < IN_SLOT_MAX - 1 + more; i++)
            (void)neighbour(FIRST + i);
        fake_stores_forget();
        look_up(1);
        play("-n");
        struct sk_voucher *asked = sk_catalogue_at_slot(sale.catalogue, voucher->slot);
        for (int i = 0; i < IN_SLOT_MAX; i++, asked = asked->next_in_slot) {
            (void)snprintf(ids[i], sizeof ids[i], "%d", (int)asked->id);
            memcpy((void *)rows[i], (const void *)account_rows[0], sizeof rows[i]);
            rows[i][1] = ids[i];
        }
        pg_answers(&(const struct sk_rows){IN_SLOT_MAX, (const char *const(*)[ROW_COLUMNS])rows});
        ck_assert_uint_eq(fake_redis.count, 2 * IN_SLOT_MAX);
        play("llllllllllllllllllllllllllllllll");
        must_end_in(more == 0 ? SK_VERDICT_NOT_FOUND : SK_VERDICT_UNAVAILABLE, more == 0 ? "-fr" : "-");
    }
}

TEST(a_voucher_may_be_retired_while_it_is_asked_about)
{
    struct sk_catalogue_row row = {.change = 100, .voucher_id = VOUCHER, .state = SK_VOUCHER_RETIRED, .tag = "7"};
    ask_up_to_the_look();
    ck_assert_int_eq(sk_catalogue_put(sale.catalogue, &row), SK_OK);
    must_end_in(SK_VERDICT_FOUND, "L");
}

TEST(a_second_round_asks_all_again)
{
    ask_up_to_the_look();
    look_up(2);
    sk_order_lookup(&control, what, order, "bob", 3); // another query
    play("0");
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
    ck_assert_uint_eq(told_count, 1);
    play("o"); // for bob
    must_be_told(3, SK_VERDICT_FOUND);
    play("-nal-fr");
    must_be_told(2, SK_VERDICT_NOT_FOUND); // the first round's failure is not cached
}

// Anyone with write access to Redis could write there.
TEST(what_is_no_order_id_is_not_shown)
{
    static const char *const forged[] = {"\",\"status\":\"paid\",\"x\":\"0123456789abc",
                                         "00000000-0000-7000-8000-00000000000A", "x",
                                         "00000000-0000-7000-8000-0000000000000"};
    for (size_t i = 0; i < COUNT(forged); i++) {
        ask_up_to_the_look();
        answer_look_at(fake_redis.answered, 1, forged[i]);
        must_end_in(SK_VERDICT_NOT_FOUND, "-fr");
    }
}

// ---- made-up orders ----

static const char *const users[] = {"a", "b", "c", "d", "e", "f", "g", "h"};

// Queries n orders that no store has, for these users in turn, up to the point of further checks.
static void make_up(int n, const char *const *of, size_t user_count)
{
    for (int i = 0; i < n; i++) {
        char id[SK_UUID_SIZE];
        sk_order_id_make(&gen, voucher->slot, EPOCH, id);
        sk_order_lookup(&control, SK_LOOKUP_FOR_USER, id, of[(size_t)i % user_count], (uint64_t)i + 1);
    }
    for (int i = 0; i < n; i++)
        play("-");
    play("n");
}

static int told_overloaded(int n)
{
    int count = 0;
    for (int i = 1; i <= n; i++) {
        count += told[i].count == 1 && told[i].verdict == SK_VERDICT_OVERLOADED;
        told[i].count = 0;
    }
    return count;
}

// Answers the remaining calls of those that are checked further.
static void look_to_the_end(void)
{
    the_stores_answer("");
    follow_ends(true);
    while (stores_wait())
        play("r");
    (void)told_overloaded(MADE_UP);
}

// 80 queries: one statement and one command each, and the further cost of only four.
TEST(made_up_orders_cost_little)
{
    enum { OF_USER = 4, FURTHER = 3 };
    make_up(MADE_UP, &user, 1);
    ck_assert_uint_eq(fake_pg.count, MADE_UP + OF_USER);
    ck_assert_uint_eq(fake_redis.count, MADE_UP);
    ck_assert_int_eq(told_overloaded(MADE_UP), MADE_UP - OF_USER);
    look_to_the_end();
    ck_assert_uint_eq(fake_pg.count, MADE_UP + OF_USER * FURTHER);
    ck_assert_uint_eq(fake_redis.count, MADE_UP + OF_USER);
    for (size_t i = 0; i < fake_pg.count; i++)
        ck_assert_int_eq(fake_pg.asked[i].class, SK_PG_QUERIES);
    must_end(SK_VERDICT_FOUND, "-naL"); // the places are free again
}

// Operators and payments may query orders even when users have taken all places.
TEST(users_share_the_places_and_a_token_needs_none)
{
    enum { SEARCHES = 16, TICKET = 99 };
    make_up(MADE_UP, users, COUNT(users));
    ck_assert_int_eq(told_overloaded(MADE_UP), MADE_UP - SEARCHES);
    sk_order_lookup(&control, SK_LOOKUP_FOR_USER, order, "", TICKET);
    sk_order_lookup(&control, SK_LOOKUP_FOR_MOVE, order, "", TICKET + 1);
    ck_assert_int_eq(fake_pg.asked[fake_pg.count - 1].class, SK_PG_COMMANDS);
    ck_assert_int_eq(fake_pg.asked[fake_pg.count - 2].class, SK_PG_COMMANDS);
    sk_order_lookup(&control, SK_LOOKUP_FOR_MOVE, order, USER, TICKET + 2);
    ck_assert_int_eq(fake_pg.asked[fake_pg.count - 1].class, SK_PG_MOVES);
    the_stores_answer("");
    must_be_told(TICKET, SK_VERDICT_PENDING); // an order is pending: without a user it may be that one
    must_be_told(TICKET + 1, SK_VERDICT_PENDING);
    must_be_told(TICKET + 2, SK_VERDICT_OVERLOADED);
    look_to_the_end();
}

// ---- memory that is short ----

static void converse(void)
{
    look_up(1);
    the_stores_answer(order);
}

TEST(every_allocation_may_fail)
{
    must_survive_short_memory(converse, voucher);
}

SUITE(.setup = setup, .teardown = control_teardown);
