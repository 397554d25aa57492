// The parameters of the calls that write orders, for one voucher and for several.
#include "order_calls.h"

#include "params.h"
#include "stage.h"
#include "test.h"

static struct sk_place_call call;
static struct sk_call_part parts[2];

static void setup(void)
{
    stage_open((struct sk_sale_options){0}, 1, 10);
    for (int i = 0; i < 2; i++)
        parts[i] = (struct sk_call_part){a_voucher(sale.catalogue, i + 1), 4 + i, 2 - (size_t)i, 7 + i, NULL};
    parts[1].journal_id = "5-1";
    sk_place_call_begin(&call);
}

static void teardown(void)
{
    sk_place_call_free(&call);
    call = (struct sk_place_call){0};
    stage_close();
}

static void on_result(void *arg, const struct sk_result *result)
{
    (void)arg;
    (void)result;
}

// The parameters as one text, by blanks; "-" for NULL.
static const char *sent(enum sk_statement statement)
{
    static struct sk_buf text;
    const struct asked *asked = &fake_pg.asked[fake_pg.count - 1];
    ck_assert_int_eq(asked->what, statement);
    sk_buf_clear(&text);
    for (int i = 0; i < asked->argc; i++)
        sk_buf_printf(&text, "%s%s", i == 0 ? "" : " ", asked->argv[i] == NULL ? "-" : asked->argv[i]);
    return text.data;
}

static const char *place(size_t n)
{
    ck_assert_int_eq(sk_place_call_send(&call, NULL, n, parts, on_result, NULL), SK_OK);
    return sent(n == 1 ? SK_STATEMENT_PLACE_ORDERS : SK_STATEMENT_PLACE_BATCHES);
}

static char expected[200];

// One parameter is the slot of the voucher, which its id decides.
#define IS(text, ...)                                           \
    do {                                                        \
        (void)snprintf(expected, sizeof expected, __VA_ARGS__); \
        ck_assert_str_eq(text, expected);                       \
    } while (0)

TEST(plain_orders_are_sent_without_details)
{
    sk_place_call_add(&call, "a", "ann", 1, 0);
    sk_place_call_add(&call, "b", "null", 1, 0);
    IS(place(1), "%u 1 4 {a,b} {\"ann\",\"null\"} - - - 7", parts[0].voucher->slot);
}

TEST_EACH(one_that_is_not_plain_gives_details_of_all, 3)
{
    static const struct {
        unsigned quantity;
        uint64_t key;
        const char *details;
    } rows[] = {
        {2, 0, "{1,2,1} {NULL,NULL,NULL}"},
        {1, 0xabc, "{1,1,1} {NULL,0000000000000abc,NULL}"},
        {1000, UINT64_MAX, "{1,1000,1} {NULL,ffffffffffffffff,NULL}"},
    };
    sk_place_call_add(&call, "a", "u", 1, 0);
    sk_place_call_add(&call, "b", "v", rows[_i].quantity, rows[_i].key);
    sk_place_call_add(&call, "c", "w", 1, 0);
    IS(place(1), "%u 1 4 {a,b,c} {\"u\",\"v\",\"w\"} - %s 7", parts[0].voucher->slot, rows[_i].details);
}

TEST(several_vouchers_have_an_element_each)
{
    sk_place_call_add(&call, "a", "u", 1, 0);
    sk_place_call_add(&call, "b", "v", 1, 0);
    sk_place_call_add(&call, "c", "w", 3, 0);
    IS(place(2), "{%u,%u} {1,2} {4,5} {2,1} {a,b,c} {\"u\",\"v\",\"w\"} {NULL,5-1} {1,1,3} {NULL,NULL,NULL} {7,8}",
       parts[0].voucher->slot, parts[1].voucher->slot);
}

// The arrays are used again.
TEST(a_plain_call_after_one_with_details_is_plain)
{
    sk_place_call_add(&call, "a", "u", 5, 9);
    IS(place(1), "%u 1 4 {a} {\"u\"} - {5} {0000000000000009} 7", parts[0].voucher->slot);
    sk_place_call_begin(&call);
    sk_place_call_add(&call, "b", "v", 1, 0);
    IS(place(1), "%u 1 4 {b} {\"v\"} - - - 7", parts[0].voucher->slot);
}

TEST_EACH(orders_that_end_name_their_move, 2)
{
    const struct sk_return_by by = {"cancelled", "buyer", _i == 0 ? "" : "late"};
    const char *why = _i == 0 ? "-" : "late";
    struct sk_buf ids = {0};
    for (size_t n = 1; n <= 2; n++) {
        sk_params_begin(&ids);
        sk_params_add(&ids, "a");
        ck_assert_int_eq(sk_return_call_send(&ids, &by, NULL, n, n == 1 ? &parts[1] : parts, on_result, NULL), SK_OK);
        if (n == 1)
            IS(sent(SK_STATEMENT_RETURN_ORDERS), "%u 2 5 {a} cancelled buyer %s 5-1", parts[1].voucher->slot, why);
        else
            IS(sent(SK_STATEMENT_RETURN_BATCHES), "{%u,%u} {1,2} {4,5} {2,1} {a} cancelled buyer %s {NULL,5-1}",
               parts[0].voucher->slot, parts[1].voucher->slot, why);
    }
    sk_buf_free(&ids);
}

SUITE(.setup = setup, .teardown = teardown);
