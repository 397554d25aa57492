// The list of a user's orders: pending ones from Redis, the others from PostgreSQL, and whether it is complete.
#include "fake_control.h"

#include "admin_lists.h"
#include "audit.h"
#include "test.h"
#include "user_orders.h"

enum { VOUCHER = 7, OTHER = 8, BUSY_MAX = 64, TEXT_SIZE = 512 };

#define USER         "alice"
#define ORDER_B      "00000000-0000-7000-8000-00000000000b"
#define ORDER_C      "00000000-0000-7000-8000-00000000000c"
#define ORDER_D      "00000000-0000-7000-8000-00000000000d"
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

// ---- fake audit ----

static struct sk_voucher *busy[BUSY_MAX];
static size_t busy_count;
static bool busy_are_all;

size_t sk_audit_busy(const struct sk_audit *audit, struct sk_voucher **out, size_t most, bool *complete)
{
    (void)audit;
    ck_assert_uint_eq(most, BUSY_MAX);
    memcpy((void *)out, (void *)busy, busy_count * sizeof(struct sk_voucher *));
    *complete = busy_are_all;
    return busy_count;
}

// ---- fixture ----

static void setup(void)
{
    control_setup();
    busy[0] = a_voucher(sale.catalogue, VOUCHER);
    busy_count = 1;
    busy_are_all = true;
    fake_catalogue_sync.newest_id = OTHER;
}

static void ask_orders(uint64_t handle)
{
    sk_user_orders(&control, SK_PG_QUERIES, USER, &(struct sk_page_asked){.limit = SK_PAGE_MOST}, handle);
}

typedef const char *const rows_t[ROW_COLUMNS];

// A shard without orders, whose newest voucher has this id.
static const rows_t none[] = {{NULL, NULL, NULL, "8"}}, none_newer[] = {{NULL, NULL, NULL, "9"}};
static const struct sk_rows no_orders = {1, none}, no_orders_newer = {1, none_newer};

static void answer_buyer(size_t i, const char *id)
{
    const struct sk_reply nil = NIL, text = TEXT(id);
    ck_assert_str_eq(fake_redis.asked[i].argv[0], "HGET");
    ck_assert_str_eq(fake_redis.asked[i].argv[2], USER);
    redis_answers_at(i, id == NULL ? &nil : &text);
}

// A page of one busy voucher, of which the user has this order in Redis; NULL: none.
static void must_list(const char *id, const struct sk_rows *rows, const char *document)
{
    ask_orders(1);
    answer_buyer(fake_redis.answered, id);
    pg_answers(rows);
    must_be_shown(1, document);
}

TEST(a_list_has_what_is_settled_and_what_is_pending)
{
    static const rows_t rows[] = {{ORDER_C, "{\"id\":\"c\"}", "9"}, {ORDER_B, NULL, "8"}};
    busy[1] = a_voucher(sale.catalogue, OTHER);
    busy_count = 2;
    ask_orders(1);
    ck_assert_uint_eq(fake_pg.count, 0); // Redis first: orders that it has dropped by then are in PostgreSQL
    ck_assert_str_eq(fake_redis.asked[0].argv[1], "seckill:{7}:buyers");
    answer_buyer(1, ORDER_B); // out of order
    answer_buyer(0, ORDER_C);
    const struct asked *asked = the_statement(SK_STATEMENT_LIST_ORDERS);
    ck_assert_str_eq(asked->argv[0], USER);
    ck_assert_ptr_null(asked->argv[1]);
    ck_assert_str_eq(asked->argv[2], "101");
    ck_assert_str_eq(asked->argv[3], "{" ORDER_C "," ORDER_B "}");
    ck_assert_str_eq(asked->argv[4], "{7,8}");
    pg_answers(&(const struct sk_rows){2, rows});
    must_be_shown(1, "{\"orders\":[{\"id\":\"c\"},{\"id\":\"" ORDER_B "\",\"voucher_id\":\"8\",\"user_id\":\"" USER
                     "\",\"quantity\":1,\"status\":\"pending\"}],\"complete\":true}");
}

TEST(only_what_is_a_users_is_asked_about)
{
    busy[1] = a_voucher(sale.catalogue, OTHER);
    busy_count = 2;
    ask_orders(1);
    answer_buyer(0, NULL);
    answer_buyer(1, ORDER_B);
    const struct asked *asked = the_statement(SK_STATEMENT_LIST_ORDERS);
    ck_assert_str_eq(asked->argv[3], "{" ORDER_B "}");
    ck_assert_str_eq(asked->argv[4], "{8}");
    pg_answers(&no_orders);
    must_be_shown(1, "{\"orders\":[],\"complete\":true}");
    busy_count = 0; // no voucher is busy
    ask_orders(1);
    ck_assert_str_eq(the_statement(SK_STATEMENT_LIST_ORDERS)->argv[3], "{}");
    pg_answers(&no_orders);
    must_be_shown(1, "{\"orders\":[],\"complete\":true}");
    ck_assert_uint_eq(fake_redis.count, 2);
}

TEST(a_list_that_may_lack_something_says_so)
{
    static const struct sk_reply damage = ERROR("WRONGTYPE Operation against a key");
    busy_are_all = false;
    for (busy_count = 1; busy_count < BUSY_MAX; busy_count++)
        busy[busy_count] = a_voucher(sale.catalogue, 100 + (int64_t)busy_count);
    ask_orders(1);
    ck_assert_uint_eq(fake_redis.count, BUSY_MAX);
    for (size_t i = 0; i < BUSY_MAX; i++)
        answer_buyer(i, i == BUSY_MAX - 1 ? ORDER_B : NULL);
    ck_assert_str_eq(the_statement(SK_STATEMENT_LIST_ORDERS)->argv[4], "{163}");
    pg_answers(&no_orders);
    must_be_shown(1, "{\"orders\":[],\"complete\":false}");
    busy_are_all = true;
    busy_count = 1;
    ask_orders(1);
    redis_answers(&damage);
    pg_answers(&no_orders);
    must_be_shown(1, "{\"orders\":[],\"complete\":false}");
    must_list(NULL, &no_orders, "{\"orders\":[],\"complete\":true}");
}

// The user may have a pending order of a voucher that was made since the catalogue was read.
TEST(a_list_knows_of_vouchers_that_it_does_not_know)
{
    static const rows_t rows[] = {{ORDER_C, "{\"id\":\"c\"}", "7", "9"}};
    static const struct sk_rows newer = {1, rows};
    ask_orders(1);
    answer_buyer(fake_redis.answered, NULL);
    fake_catalogue_sync.newest_id = OTHER + 1; // too late: Redis has been asked
    pg_answers(&no_orders_newer);
    must_be_shown(1, "{\"orders\":[],\"complete\":false}");
    must_list(NULL, &no_orders_newer, "{\"orders\":[],\"complete\":true}");
    fake_catalogue_sync.newest_id = OTHER;
    must_list(NULL, &newer, "{\"orders\":[{\"id\":\"c\"}],\"complete\":false}");
}

TEST(half_a_list_is_none)
{
    busy[1] = a_voucher(sale.catalogue, OTHER);
    busy_count = 2;
    ask_orders(1);
    answer_buyer(0, ORDER_B);
    redis_answers_at(1, NULL);
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
    ck_assert_uint_eq(fake_pg.count, 0);
    fake_redis.down = true;
    ask_orders(1);
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
    fake_redis.down = false;
    fake_stores_forget();
    ask_orders(1);
    ask_orders(2);
    answer_buyer(0, NULL);
    redis_answers_at(1, NULL);
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
    answer_buyer(2, NULL); // the second round
    answer_buyer(3, NULL);
    pg_answers(&no_orders);
    must_be_shown(2, "{\"orders\":[],\"complete\":true}");
    busy_count = 0;
    ask_orders(1);
    pg_answers(NULL);
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
    fake_pg.down = true;
    ask_orders(1);
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
}

// Anyone with write access to Redis could write there.
TEST(what_is_no_order_id_is_not_asked_about)
{
    static const char *const forged[] = {"\",\"status\":\"paid\",\"x\":\"0123456789abc",
                                         "00000000-0000-7000-8000-00000000000A", "x",
                                         "00000000-0000-7000-8000-0000000000000"};
    for (size_t i = 0; i < COUNT(forged); i++) {
        const struct sk_reply field = TEXT(forged[i]);
        ask_orders(1);
        redis_answers(&field);
        ck_assert_str_eq(the_statement(SK_STATEMENT_LIST_ORDERS)->argv[3], "{}");
        pg_answers(&no_orders);
        must_be_shown(1, "{\"orders\":[],\"complete\":true}");
    }
}

// ---- pages ----

static void ask_page(unsigned limit, const char *cursor, uint64_t handle)
{
    sk_user_orders(&control, SK_PG_QUERIES, USER, &(struct sk_page_asked){.limit = limit, .cursor = cursor}, handle);
}

// The first page has the pending orders, whatever its limit; the others need no Redis.
TEST(a_list_goes_on_where_it_ended)
{
    static const rows_t first[] = {
        {ORDER_C, "{\"id\":\"c\"}", "9"}, {ORDER_B, "{\"id\":\"b\"}", "8"}, {ORDER_D, NULL, "8"}};
    static const rows_t second[] = {{ORDER_B, "{\"id\":\"b\"}", "8", "9"}}; // it has settled orders only
    char cursor[SK_CURSOR_SIZE], expected[TEXT_SIZE];
    ask_page(1, NULL, 1);
    answer_buyer(0, ORDER_D);
    ck_assert_str_eq(the_statement(SK_STATEMENT_LIST_ORDERS)->argv[2], "2");
    pg_answers(&(const struct sk_rows){3, first});
    (void)snprintf(expected, sizeof expected,
                   "{\"orders\":[{\"id\":\"c\"},{\"id\":\"" ORDER_D "\",\"voucher_id\":\"8\",\"user_id\":\"" USER
                   "\",\"quantity\":1,\"status\":\"pending\"}],\"complete\":true,\"next\":\"%s\"}",
                   told_next);
    must_be_shown(1, expected);
    (void)snprintf(cursor, sizeof cursor, "%s", told_next);
    fake_redis.down = true;
    ask_page(1, cursor, 1);
    const struct asked *asked = the_statement(SK_STATEMENT_LIST_ORDERS);
    ck_assert_str_eq(asked->argv[1], ORDER_C);
    ck_assert_str_eq(asked->argv[2], "2");
    ck_assert_str_eq(asked->argv[3], "{}");
    pg_answers(&(const struct sk_rows){1, second});
    must_be_shown(1, "{\"orders\":[{\"id\":\"b\"}],\"complete\":true}");
    ck_assert_str_eq(told_next, "");
}

TEST(the_same_page_is_asked_for_once)
{
    char cursor[SK_CURSOR_SIZE], other[SK_CURSOR_SIZE];
    struct sk_position position = sk_position_of_uuid(ORDER_C);
    sk_cursor_put(cursor, SK_CURSOR_ORDERS, USER, &position, 1);
    position = sk_position_of_uuid(ORDER_B);
    sk_cursor_put(other, SK_CURSOR_ORDERS, USER, &position, 1);
    ask_page(1, cursor, 1);
    ask_page(1, cursor, 2); // shares a second round
    ask_page(1, cursor, 3);
    ask_page(2, cursor, 4);
    ask_page(1, other, 5);
    ck_assert_uint_eq(fake_pg.count, 3);
    for (int i = 0; i < 4; i++)
        pg_answers(&no_orders);
    for (uint64_t handle = 1; handle <= 5; handle++)
        must_be_told(handle, SK_VERDICT_FOUND);
    ck_assert_uint_eq(fake_pg.count, 4);
}

// What was asked meanwhile gets a page of its own, not the rest of the one before.
TEST(a_second_round_begins_anew)
{
    static const rows_t rows[] = {{ORDER_C, "{\"id\":\"c\"}", "8"}, {ORDER_B, "{\"id\":\"b\"}", "8"}};
    busy_count = 0;
    ask_page(1, NULL, 1);
    ask_page(1, NULL, 2);
    pg_answers(&(const struct sk_rows){2, rows});
    must_be_told(1, SK_VERDICT_FOUND);
    ck_assert_str_ne(told_next, "");
    pg_answers(&(const struct sk_rows){1, rows});
    must_be_shown(2, "{\"orders\":[{\"id\":\"c\"}],\"complete\":true}");
    ck_assert_str_eq(told_next, "");
}

TEST(a_cursor_of_another_list_is_refused)
{
    char cursor[SK_CURSOR_SIZE];
    struct sk_position position = sk_position_of_uuid(ORDER_C);
    sk_cursor_put(cursor, SK_CURSOR_ORDERS, "mallory", &position, 1);
    ask_page(1, cursor, 1);
    must_be_told(1, SK_VERDICT_BAD_PARAMETER);
    ask_page(1, "", 1);
    must_be_told(1, SK_VERDICT_BAD_PARAMETER);
    ck_assert_uint_eq(fake_pg.count + fake_redis.count, 0);
}

// ---- who asks ----

const char *sk_request_query(const struct sk_request *request, const char *name, unsigned *count)
{
    bool sent = strcmp(name, "user") == 0;
    (void)request;
    if (count != NULL)
        *count = sent;
    return sent ? USER : NULL;
}

// An operator's list waits for no user's, not even for the same one.
TEST(an_operators_list_goes_first)
{
    const struct sk_context context = {.control = &control};
    ask_orders(1);
    sk_handle_find_orders(&context, &(struct sk_request){.handle = 2});
    ck_assert_uint_eq(fake_redis.count, 2);
    answer_buyer(0, NULL);
    answer_buyer(1, NULL);
    ck_assert_uint_eq(fake_pg.count, 2);
    ck_assert_int_eq(fake_pg.asked[0].class, SK_PG_QUERIES);
    ck_assert_int_eq(fake_pg.asked[1].class, SK_PG_COMMANDS);
    for (int i = 0; i < 2; i++)
        pg_answers(&no_orders);
    must_be_told(1, SK_VERDICT_FOUND);
    must_be_told(2, SK_VERDICT_FOUND);
}

// ---- memory that is short ----

// Sends a query, and answers every call.
static void converse(void)
{
    static const rows_t list[] = {{ORDER_C, "{\"id\":\"c\"}", "9"}, {ORDER_B, NULL, "8"}};
    ask_orders(1);
    while (stores_wait()) {
        if (fake_pg.answered < fake_pg.count)
            pg_answers(&(const struct sk_rows){2, list});
        else
            answer_buyer(fake_redis.answered, ORDER_B);
    }
}

TEST(every_allocation_may_fail)
{
    must_survive_short_memory(converse, busy[0]);
}

SUITE(.setup = setup, .teardown = control_teardown);
