// Tickets: what is found of the one that a purchase carries, and what is answered to those who ask for one.
#include "fake_control.h"

#include <jansson.h>

#include "call.h"
#include "clock.h"
#include "purchase.h"
#include "test.h"
#include "ticket.h"
#include "ticket_calls.h"

enum { VOUCHER = 7, OLD = 5, NEWEST = 8, NEW = 9, TICKET = 3, OTHER = 4 };
enum { OFFER = 5, TTL_S = 60, BITS = 8, SLOW_S = 30, WORK_SIZE = 256 };

static char secret[] = "the-secret-of-tickets";
static struct sk_identity_options identity;
static const struct sk_routes_options routes_options = {.identity = &identity};
static struct sk_tickets *tickets;
static struct sk_context the_context;
static struct sk_request asked;
static struct sk_voucher *voucher;
static const char *header; // X-Seckill-Ticket; NULL: not sent
static unsigned headers;
static int fields_read;
static enum sk_verdict refused;
static char answered[512]; // as it was answered; empty: none

// ---- stand-ins ----

const char *sk_request_header(const struct sk_request *request, const char *name, unsigned *count)
{
    ck_assert_ptr_eq(request, &asked);
    ck_assert_str_eq(name, "x-seckill-ticket");
    fields_read++;
    *count = header == NULL ? 0 : headers;
    return header;
}

bool sk_request_is_json(const struct sk_request *request)
{
    (void)request;
    return true;
}

void sk_answer_refusal(const struct sk_answers *answers, struct sk_request *request, enum sk_verdict verdict)
{
    (void)answers;
    ck_assert_ptr_eq(request, &asked);
    refused = verdict;
}

void sk_answer_errors(const struct sk_answers *answers, struct sk_request *request, enum sk_verdict verdict,
                      struct json_t *errors)
{
    ck_assert_uint_gt(json_array_size(errors), 0);
    sk_answer_refusal(answers, request, verdict);
}

void sk_answer_send(const struct sk_answers *answers, struct sk_request *request, const struct sk_answer *answer)
{
    (void)answers;
    ck_assert_ptr_eq(request, &asked);
    ck_assert_int_eq(answer->verdict, SK_VERDICT_FOUND);
    ck_assert_ptr_null(answer->type);
    (void)snprintf(answered, sizeof answered, "%s", answer->body);
}

// The rest of the answers is not needed here.
bool sk_request_hold(struct sk_request *request)
{
    (void)request;
    return true;
}

// ---- fixture ----

static void open_with(char *lines)
{
    sk_tickets_close(tickets);
    identity = (struct sk_identity_options){.ticket_ttl_s = TTL_S};
    identity.ticket_secret = lines;
    tickets = sk_tickets_open(&identity, stderr);
    ck_assert_ptr_nonnull(tickets);
    the_context = (struct sk_context){.options = &routes_options, .control = &control, .tickets = tickets};
}

static void setup(void)
{
    control_setup();
    open_with(secret);
    asked = (struct sk_request){.method = SK_METHOD_POST, .handle = TICKET};
    sk_call_of(&asked)->voucher_id = VOUCHER;
    (void)snprintf(sk_call_of(&asked)->user, SK_USER_SIZE, "alice");
    voucher = a_voucher(sale.catalogue, VOUCHER);
    voucher->ticket = true;
    voucher->offer = OFFER;
    fake_catalogue_sync.newest_id = NEWEST;
    header = NULL;
    headers = 1;
    refused = SK_VERDICT_FOUND;
    answered[0] = '\0';
    fields_read = 0;
}

static void teardown(void)
{
    sk_tickets_close(tickets);
    tickets = NULL;
    sk_buf_free(&asked.body);
    control_teardown();
}

// The catalogue has the voucher, so the answer comes at once.
static void ask_for_it(void)
{
    sk_handle_ticket(&the_context, &asked);
    must_be_told(TICKET, SK_VERDICT_FOUND);
    sk_call_of(&asked)->on_answer(&the_context, &asked, &(struct sk_answer){.verdict = SK_VERDICT_FOUND});
}

static struct sk_wish found(void)
{
    struct sk_wish ask = {.voucher_id = VOUCHER, .user = "alice"};
    sk_ticket_read(&the_context, &asked, sk_call_of(&asked), &ask);
    return ask;
}

// A member of what was answered, which is a text.
static void take(const char *name, char out[64])
{
    json_t *json = json_loads(answered, 0, NULL);
    const char *value = json_string_value(json_object_get(json, name));
    ck_assert_msg(value != NULL && strlen(value) < 64, "%s", answered);
    (void)snprintf(out, 64, "%s", value);
    json_decref(json);
}

static void say(const char *body)
{
    sk_buf_clear(&asked.body);
    sk_buf_puts(&asked.body, body);
    refused = SK_VERDICT_FOUND;
    answered[0] = '\0';
    ask_for_it();
}

// ---- sent with a purchase ----

TEST(without_a_secret_nothing_is_checked)
{
    header = "x";
    open_with(NULL);
    ck_assert_int_eq(found().ticket, SK_ASK_TICKETS_OFF);
    ck_assert_int_eq(fields_read, 0);
    sk_handle_ticket(&the_context, &asked);
    ck_assert_int_eq(refused, SK_VERDICT_TICKETS_OFF);
    ck_assert_uint_eq(told_count, 0);
}

// ... also if it is taken away while the voucher is looked for.
TEST(a_secret_may_go_meanwhile)
{
    sk_handle_ticket(&the_context, &asked);
    open_with(NULL);
    sk_call_of(&asked)->on_answer(&the_context, &asked, &(struct sk_answer){.verdict = SK_VERDICT_FOUND});
    ck_assert_int_eq(refused, SK_VERDICT_TICKETS_OFF);
    ck_assert_str_eq(answered, "");
}

TEST(what_a_purchase_carries)
{
    char ticket[64];
    ck_assert_int_eq(found().ticket, SK_ASK_NO_TICKET);
    header = "";
    ck_assert_int_eq(found().ticket, SK_ASK_BAD_TICKET);
    ask_for_it();
    take("ticket", ticket);
    header = ticket;
    struct sk_wish ask = found();
    ck_assert_int_eq(ask.ticket, SK_ASK_GOOD_TICKET);
    ck_assert_int_eq(ask.offer, OFFER);
    headers = 2; // the last of two
    ask = found();
    ck_assert_int_eq(ask.ticket, SK_ASK_BAD_TICKET);
    ck_assert_int_eq(ask.offer, 0);
    headers = 1;
    sk_call_of(&asked)->voucher_id = VOUCHER + 1;
    ck_assert_int_eq(found().ticket, SK_ASK_BAD_TICKET);
}

// Only what has the form of this voucher's ticket can say that it has expired.
TEST(a_ticket_that_has_expired_is_told_apart)
{
    static char text[SK_TICKET_SIZE];
    struct sk_ticket ticket = {SK_TICKET_PURCHASE, VOUCHER, sk_call_of(&asked)->user, OFFER, 1};
    header = text;
    ck_assert(sk_tickets_make(the_context.tickets, &ticket, text));
    ck_assert_int_eq(found().ticket, SK_ASK_EXPIRED_TICKET);
    ck_assert_int_eq(found().offer, 0);
    sk_call_of(&asked)->voucher_id = VOUCHER + 1;
    ck_assert_int_eq(found().ticket, SK_ASK_BAD_TICKET);
    sk_call_of(&asked)->voucher_id = VOUCHER;
    ticket.kind = SK_TICKET_CHALLENGE;
    ck_assert(sk_tickets_make(the_context.tickets, &ticket, text));
    ck_assert_int_eq(found().ticket, SK_ASK_BAD_TICKET);
}

TEST(a_ticket_lives_as_long_as_is_set)
{
    char expires_at[64];
    int64_t expires_ms, before_ms = (int64_t)sk_wall_ms();
    ask_for_it();
    take("expires_at", expires_at);
    ck_assert(sk_text_time(expires_at, &expires_ms));
    ck_assert_int_ge(expires_ms, before_ms - 1000 + TTL_S * 1000);
    ck_assert_int_le(expires_ms, before_ms + (TTL_S + SLOW_S) * 1000);
}

// ---- the work ----

TEST(a_challenge_is_given_where_there_is_work)
{
    char challenge[64];
    asked.method = SK_METHOD_GET;
    ask_for_it();
    ck_assert_str_eq(answered, "{\"work_bits\":0}\n");
    voucher->work_bits = BITS;
    ask_for_it();
    take("challenge", challenge);
    ck_assert_ptr_nonnull(strstr(answered, "\"work_bits\":8,"));
    header = challenge;
    ck_assert_int_eq(found().ticket, SK_ASK_BAD_TICKET); // it buys nothing
}

// With the first number that is a solution, or that is none.
static void put_work(const char *challenge, bool solves, char body[WORK_SIZE])
{
    char nonce[16];
    unsigned number = 0;
    do
        (void)snprintf(nonce, sizeof nonce, "%u", number++);
    while (sk_work_done(challenge, nonce, BITS) != solves);
    (void)snprintf(body, WORK_SIZE, "{\"challenge\":\"%s\",\"nonce\":\"%s\"}", challenge, nonce);
}

TEST(a_ticket_takes_its_work)
{
    char challenge[64], body[WORK_SIZE];
    voucher->work_bits = BITS;
    asked.method = SK_METHOD_GET;
    ask_for_it();
    take("challenge", challenge);
    asked.method = SK_METHOD_POST;
    ask_for_it();
    ck_assert_int_eq(refused, SK_VERDICT_WORK_REQUIRED);
    put_work(challenge, false, body);
    say(body);
    ck_assert_int_eq(refused, SK_VERDICT_WORK_INVALID);
    put_work(challenge, true, body);
    voucher->offer = OFFER + 1; // another price: other work
    say(body);
    ck_assert_int_eq(refused, SK_VERDICT_WORK_INVALID);
    voucher->offer = OFFER;
    say(body);
    ck_assert_int_eq(refused, SK_VERDICT_FOUND);
    take("ticket", challenge);
    say("{\"challenge\":\"x\"}");
    ck_assert_int_eq(refused, SK_VERDICT_BAD_JSON);
    say("{\"challenge\":\"x\",\"nonce\":7}");
    ck_assert_int_eq(refused, SK_VERDICT_INVALID);
    ck_assert_str_eq(answered, "");
    voucher->work_bits = 0; // of what comes only the form counts
    say("{");
    ck_assert_int_eq(refused, SK_VERDICT_BAD_JSON);
    say("{\"challenge\":\"x\",\"nonce\":\"y\"}");
    ck_assert_int_eq(refused, SK_VERDICT_FOUND);
    say("{}");
    ck_assert_int_eq(refused, SK_VERDICT_FOUND);
}

// ---- whether the voucher is on offer ----

static void must_be_told_of(uint64_t handle, int64_t voucher_id)
{
    must_be_told(handle, SK_VERDICT_FOUND);
    ck_assert_ptr_nonnull(sk_catalogue_find(sale.catalogue, voucher_id));
}

TEST(a_new_voucher_is_found_by_the_next_read)
{
    sk_check_offer(&control, NEW, TICKET);
    sk_check_offer(&control, NEW, OTHER);
    ck_assert_uint_eq(told_count, 0);
    (void)a_voucher(sale.catalogue, NEW);
    follow_ends(true);
    must_be_told_of(TICKET, NEW);
    must_be_told_of(OTHER, NEW);
    ck_assert_uint_eq(fake_pg.count, 0);
    sk_check_offer(&control, NEW + 1, TICKET);
    follow_ends(true);
    must_be_told(TICKET, SK_VERDICT_UNKNOWN_VOUCHER);
    sk_check_offer(&control, NEW + 1, TICKET);
    follow_ends(false);
    must_be_told(TICKET, SK_VERDICT_UNAVAILABLE);
}

// ... which costs a statement, and memory. The catalogue's own vouchers cost neither.
TEST(of_a_retired_voucher_there_are_no_tickets)
{
    static const char *const row[1][ROW_COLUMNS] = {{"5", "1000", "2000", "{}", "9"}};
    const struct sk_rows one = {1, row};
    static const enum sk_verdict verdicts[] = {SK_VERDICT_ENDED, SK_VERDICT_UNKNOWN_VOUCHER, SK_VERDICT_UNAVAILABLE};
    for (size_t i = 0; i < 3; i++) {
        sk_check_offer(&control, OLD, TICKET);
        ck_assert_str_eq(the_statement(SK_STATEMENT_FIND_VOUCHER)->argv[0], "5");
        pg_answers(i == 0 ? &one : i == 1 ? &no_rows : NULL);
        must_be_told(TICKET, verdicts[i]);
    }
    allocations_left = 1;
    sk_check_offer(&control, OLD, TICKET);
    must_be_told(TICKET, SK_VERDICT_OVERLOADED);
    allocations_left = 1;
    sk_check_offer(&control, VOUCHER, TICKET);
    must_be_told_of(TICKET, VOUCHER);
    ck_assert_uint_eq(fake_pg.count, 3);
    ck_assert_uint_eq(fake_catalogue_sync.waits, 0);
}

SUITE(.setup = setup, .teardown = teardown);
