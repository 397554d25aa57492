// The life of an order over HTTP, as one table: its status x the move x the caller x the store that is away. Each
// combination is sent to a real service. The answer that it must get follows from three small tables: what a permitted
// caller gets (`rows`), who may call (`may`), and which answers need Redis (`answers`). The first of these decides:
//
//   1. who calls: no token, a wrong one, or one without the role, is refused before any store is asked
//   2. the order's status is PostgreSQL's: without PostgreSQL all is 503
//   3. another user's order is not found
//   4. the status and the move. An answer that needs Redis is 503 without it
//
// Each caller's turn is a repetition of those before it, at the other instance. What must be the same afterwards: the
// order in the answer, the one in PostgreSQL with its payments and events, and the units in both stores.
//
// The tests below the table are about what has no place in it: bodies, references of several payments, and races.
#include <ctype.h>
#include <inttypes.h>
#include <jansson.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "books.h"
#include "clock.h"
#include "sales.h"
#include "stores.h"
#include "test.h"
#include "wait.h"
#include "webhook_keys.h"

enum { STOCK = 400, PATH_SIZE = 96, BODY_SIZE = 512, FIELDS_SIZE = 512, TEXT_SIZE = 1024, RACES = 40, MAC_BYTES = 32 };

#define WHY          "asked by phone"
#define MADE_UP      "01a1fbe1-0c46-72f8-bdd2-587980274994"
#define OLD_SECRET   "a-secret-of-the-tests"
#define NEW_SECRET   "the-next-secret-of-tests"
#define SECRETS      "SECKILL_PAYMENT_SECRET=" NEW_SECRET "\n" OLD_SECRET // while it changes, either is good
#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define TOKENS                                                                           \
    "SECKILL_ADMIN_TOKENS=reader read reader-token-0001\nshop payments shop-token-00001" \
    "\ndesk refunds desk-token-00001\nolga operate olga-token-00001\nprom metrics prom-token-00001"
#define SOON "SECKILL_RETIRE_AFTER_MS=0"

static struct http_reply reply;
static struct service *service, *other;
static char voucher[VOUCHER_ID_SIZE];
static int buyers, references;

static void setup(void)
{
    stack_start(STACK_ALL);
}

static void teardown(void)
{
    service_stop_all();
}

static void start(void)
{
    service = service_start(ENV(HASTY, SOON, SECRETS, TOKENS));
    other = service_start(ENV(HASTY, SOON, SECRETS, TOKENS));
}

// ---- the answers ----

enum answer {
    SAME, // 200, and nothing changes
    PAID, // 200, and it is paid
    OWES, // 200: the money came too late
    CANCELLED,
    KEPT,      // it is refunded; its units are not sold again
    RESTOCKED, // it is refunded; they are
    SETTLES,   // late payments are refunded
    WRONG_STATE,
    ALREADY_PAID, // and the money is owed
    LETTER,       // it is pending, as PostgreSQL alone tells
    PENDING,      // it is pending, as both stores together tell
    UNKNOWN,      // it is not found, as both stores together tell
    NOT_FOUND,    // PostgreSQL has it for another user, or no sale is in the slot of its id
    UNAVAILABLE,
    UNAUTHENTICATED,
    FORBIDDEN,
    BAD_SIGNATURE,
    ANSWERS
};

static const struct {
    int status;
    const char *code; // of a problem
    bool needs_redis; // units of a live voucher return there; and what PostgreSQL does not know may be there
    const char *becomes, *payment; // the order; a new payment's state. NULL: as it was, none
    const char *why;               // of its event
    int units;                     // that can be bought again
} answers[ANSWERS] = {
    [SAME] = {.status = 200},
    [PAID] = {.status = 200, .becomes = "paid", .payment = "accepted"},
    [OWES] = {.status = 200, .payment = "to_refund", .why = "PAYMENT_TO_REFUND"},
    [CANCELLED] = {.status = 200, .becomes = "cancelled", .units = 1, .needs_redis = true},
    [KEPT] = {.status = 200, .becomes = "refunded KEPT", .why = WHY, .needs_redis = true},
    [RESTOCKED] = {.status = 200, .becomes = "refunded RESTOCKED", .why = WHY, .units = 1, .needs_redis = true},
    [SETTLES] = {.status = 200, .why = WHY},
    [WRONG_STATE] = {409, "WRONG_STATE"},
    [ALREADY_PAID] = {409, "ALREADY_PAID", .payment = "to_refund", .why = "PAYMENT_TO_REFUND"},
    [LETTER] = {409, "PENDING"},
    [PENDING] = {409, "PENDING", .needs_redis = true},
    [UNKNOWN] = {404, "NOT_FOUND", .needs_redis = true},
    [NOT_FOUND] = {404, "NOT_FOUND"},
    [UNAVAILABLE] = {503, "UNAVAILABLE"},
    [UNAUTHENTICATED] = {401, "UNAUTHENTICATED"},
    [FORBIDDEN] = {403, "FORBIDDEN"},
    [BAD_SIGNATURE] = {401, "BAD_SIGNATURE"},
};

// ---- status x move: what a permitted caller gets ----

enum move { PAY, CANCEL, REFUND, RESTOCK, MOVES };            // a refund keeps its units unless it restocks them
enum place { ON_SALE, EXPIRING, RETIRED, NO_ORDER, NO_SALE }; // which voucher it is of

// clang-format off
static const struct row {
    const char *name, *status; // the status that WRONG_STATE names; NULL: PostgreSQL does not know the order
    enum place place;
    const char *done; // the moves that led there: pay, cancel, refund and keep, refund and restock
    enum answer life[MOVES];
} rows[] = {
    //                                                        pay           cancel       refund       ... and restock
    {"unpaid", "unpaid", ON_SALE, "",                        {PAID,         CANCELLED,   WRONG_STATE, WRONG_STATE}},
    {"paid", "paid", ON_SALE, "p",                           {ALREADY_PAID, WRONG_STATE, KEPT,        RESTOCKED}},
    {"cancelled", "cancelled", ON_SALE, "c",                 {OWES,         SAME,        WRONG_STATE, WRONG_STATE}},
    {"cancelled, then paid", "cancelled", ON_SALE, "cpp",    {OWES,         SAME,        SETTLES,     SETTLES}},
    {"... then settled", "cancelled", ON_SALE, "cpk",        {OWES,         SAME,        SAME,        SAME}},
    {"... then paid", "cancelled", ON_SALE, "cpkp",          {OWES,         SAME,        SAME,        SAME}},
    {"refunded, kept", "refunded", ON_SALE, "pk",            {OWES,         WRONG_STATE, SAME,        SAME}},
    {"refunded, restocked", "refunded", ON_SALE, "pr",       {OWES,         WRONG_STATE, SAME,        SAME}},
    {"refunded, then paid", "refunded", ON_SALE, "prp",      {OWES,         WRONG_STATE, SAME,        SAME}},
    {"expired", "expired", EXPIRING, "",                     {OWES,         WRONG_STATE, WRONG_STATE, WRONG_STATE}},
    {"expired, then paid", "expired", EXPIRING, "p",         {OWES,         WRONG_STATE, SETTLES,     SETTLES}},
    {"unpaid, retired", "unpaid", RETIRED, "",               {PAID,         CANCELLED,   WRONG_STATE, WRONG_STATE}},
    {"paid, retired", "paid", RETIRED, "p",                  {ALREADY_PAID, WRONG_STATE, KEPT,        RESTOCKED}},
    {"cancelled, retired", "cancelled", RETIRED, "c",        {OWES,         SAME,        WRONG_STATE, WRONG_STATE}},
    {"made up", NULL, NO_ORDER, "",                          {UNKNOWN,      UNKNOWN,     UNKNOWN,     UNKNOWN}},
    {"made up, of no sale", NULL, NO_SALE, "",               {NOT_FOUND,    NOT_FOUND,   NOT_FOUND,   NOT_FOUND}},
};

// These come about in other ways: PostgreSQL is held up, or rejects the order, or an operator writes it off.
static const struct row
    pending = {"pending", NULL, NO_ORDER, "",                 {PENDING,      PENDING,     PENDING,     PENDING}},
    letter = {"in a dead letter", NULL, NO_ORDER, "",         {LETTER,       PENDING,     LETTER,      LETTER}},
    refused = {"refused", "refused", ON_SALE, "",            {OWES,         WRONG_STATE, WRONG_STATE, WRONG_STATE}};
// clang-format on

// ---- move x caller: who may ----

enum caller {
    OWNER,
    ANOTHER, // user
    ADMIN,
    OPERATOR,
    SHOP, // has the role payments
    DESK, // has the role refunds
    READER,
    SCRAPER,
    SIGNED,
    SIGNED_BEFORE, // with the previous secret
    FORGED,
    TOO_OLD,
    COPIED,  // the signature is of another order's payment
    GUESSED, // a token
    NOBODY,
    CALLERS
};

static const struct {
    const char *by, *field; // as events name it; of the request
    const char *secret;     // with which it is signed
    int ago_s;
    bool copied;
} callers[CALLERS] = {
    [OWNER] = {"user", NULL},
    [ANOTHER] = {"user", "X-User-Id: mallory\r\n"},
    [ADMIN] = {"admin", "Authorization: Bearer admin-token-of-the-tests\r\n"},
    [OPERATOR] = {"olga", "Authorization: Bearer olga-token-00001\r\n"},
    [SHOP] = {"shop", "Authorization: Bearer shop-token-00001\r\n"},
    [DESK] = {"desk", "Authorization: Bearer desk-token-00001\r\n"},
    [READER] = {"reader", "Authorization: Bearer reader-token-0001\r\n"},
    [SCRAPER] = {"prom", "Authorization: Bearer prom-token-00001\r\n"},
    [SIGNED] = {"payment callback", "", NEW_SECRET, 250},
    [SIGNED_BEFORE] = {"payment callback", "", OLD_SECRET, -250},
    [FORGED] = {"", "Authorization: Bearer shop-token-00001\r\n", "a-secret-of-the-testz", 0},
    [TOO_OLD] = {"", "", NEW_SECRET, 400},
    [COPIED] = {"", "", NEW_SECRET, 0, true},
    [GUESSED] = {"", "Authorization: Bearer shop-token-00002\r\n"},
    [NOBODY] = {"", ""},
};

#define U UNAUTHENTICATED
#define F FORBIDDEN
#define B BAD_SIGNATURE
#define Y SAME

// Only payments are signed: elsewhere a signature is no token.
// clang-format off
static const enum answer may[MOVES][CALLERS] = {
    // owner, another, admin, operator, shop, desk, reader, scraper, signed, before, forged, old, copied, guessed, nobody
    [PAY] =     {U, U, Y, F, Y, F, F, F, Y, Y, B, B, B, U, U},
    [CANCEL] =  {Y, Y, U, U, U, U, U, U, U, U, U, U, U, U, U},
    [REFUND] =  {U, U, Y, Y, F, Y, F, F, U, U, F, U, U, U, U},
    [RESTOCK] = {U, U, Y, Y, F, Y, F, F, U, U, F, U, U, U, U},
};
// clang-format on
#undef U
#undef F
#undef B
#undef Y

// ---- orders ----

struct order {
    char id[ORDER_ID_SIZE], user[24];
    const char *voucher;
};

// What the stores have: the order, its payments "reference state,...", its events "status by why,...", and its units.
struct facts {
    char status[64], payments[TEXT_SIZE], events[TEXT_SIZE];
    int64_t left, left_in_redis;
};

enum store { NONE, REDIS, POSTGRES };

static void read_facts(const struct order *order, enum store away, struct facts *facts)
{
    db_text(facts->status, sizeof facts->status,
            "SELECT coalesce((SELECT concat_ws(' ', status, reason) FROM voucher_order WHERE id = '%s'), '')",
            order->id);
    db_text(facts->payments, sizeof facts->payments,
            "SELECT coalesce(string_agg(concat_ws(' ', reference, state), ',' ORDER BY at), '') FROM payment"
            " WHERE order_id = '%s'",
            order->id);
    db_text(facts->events, sizeof facts->events,
            "SELECT coalesce(string_agg(concat_ws(' ', status, by_whom, why), ',' ORDER BY tx, seq), '')"
            " FROM order_event WHERE order_id = '%s'",
            order->id);
    facts->left = db_number("SELECT stock FROM voucher_stock WHERE voucher_id = %s", order->voucher);
    facts->left_in_redis = away == REDIS ? -1 : redis_number("HGET seckill:{%s}:voucher stock", order->voucher);
}

static void must_have(const struct order *order, enum store away, const struct facts *expected)
{
    struct facts facts;
    WAIT_FOR((read_facts(order, away, &facts), facts.left_in_redis) == expected->left_in_redis || away == REDIS);
    ck_assert_str_eq(facts.status, expected->status);
    ck_assert_str_eq(facts.payments, expected->payments);
    ck_assert_str_eq(facts.events, expected->events);
    ck_assert_int_eq(facts.left, expected->left);
}

// The members of each object of this list, in the form of facts.
static void put_list(const json_t *order, const char *list, const char *const names[3], char out[TEXT_SIZE])
{
    size_t i, n = 0;
    json_t *one;
    out[0] = '\0';
    json_array_foreach(json_object_get(order, list), i, one)
    {
        for (int name = 0; name < 3 && names[name] != NULL; name++) {
            const char *value = json_string_value(json_object_get(one, names[name]));
            if (value != NULL)
                n += (size_t)snprintf(out + n, TEXT_SIZE - n, "%s%s", n == 0 ? "" : name == 0 ? "," : " ", value);
        }
    }
}

// Checks the order in the last answer.
static void must_be_order(const char *status, const char *payments, const char *events)
{
    static const char *const of_payment[3] = {"reference", "state"}, *const of_event[3] = {"status", "by", "why"};
    char found[TEXT_SIZE];
    json_t *order = json_loads(reply.body, JSON_REJECT_DUPLICATES, NULL), *reason = json_object_get(order, "reason");
    ck_assert_msg(reply.status == 200 && order != NULL, "%s %s", reply.text, reply.body);
    (void)snprintf(found, sizeof found, "%s%s%s", json_string_value(json_object_get(order, "status")),
                   reason == NULL ? "" : " ", reason == NULL ? "" : json_string_value(reason));
    ck_assert_str_eq(found, status);
    put_list(order, "payments", of_payment, found);
    ck_assert_str_eq(found, payments);
    put_list(order, "events", of_event, found);
    ck_assert_str_eq(found, events);
    ck_assert_int_eq(json_object_get(order, "payments") == NULL, payments[0] == '\0'); // no empty lists
    ck_assert_int_eq(json_object_get(order, "events") == NULL, events[0] == '\0');
    json_decref(order);
}

static void must_show(struct service *asked, const struct order *order, const char *status, const char *payments,
                      const char *events)
{
    char path[PATH_SIZE];
    (void)snprintf(path, sizeof path, "/orders/%s", order->id);
    ck_assert_int_eq(http_get(asked, path, order->user, &reply), 200);
    must_be_order(status, payments, events);
}

// ---- requests ----

// The fields of a payment that is signed with this secret.
static void sign(const char *secret, int ago_s, const char *path, const char *body, char out[FIELDS_SIZE])
{
    unsigned char mac[EVP_MAX_MD_SIZE];
    char text[TEXT_SIZE];
    long long stamp_s = (long long)(sk_wall_ms() / 1000) - ago_s;
    int len = snprintf(text, sizeof text, "%lld.%s.%s", stamp_s, path, body);
    ck_assert_ptr_nonnull(
        HMAC(EVP_sha256(), secret, (int)strlen(secret), (const unsigned char *)text, (size_t)len, mac, NULL));
    int n = snprintf(out, FIELDS_SIZE, "X-Seckill-Timestamp: %lld\r\nX-Seckill-Signature: ", stamp_s);
    for (int i = 0; i < MAC_BYTES; i++)
        n += snprintf(out + n, FIELDS_SIZE - (size_t)n, "%02x", mac[i]);
    (void)snprintf(out + n, FIELDS_SIZE - (size_t)n, "\r\n");
}

// `body` NULL: none.
static int ask(struct service *asked, const struct order *order, const char *what, enum caller caller, const char *body)
{
    char path[PATH_SIZE], signature[FIELDS_SIZE] = "", fields[2 * FIELDS_SIZE];
    (void)snprintf(path, sizeof path, "/orders/%s/%s", order->id, what);
    if (callers[caller].secret != NULL)
        sign(callers[caller].secret, callers[caller].ago_s,
             callers[caller].copied ? "/orders/01a1fbe1-0c46-72f8-bdd2-587980274995/pay" : path,
             body == NULL ? "" : body, signature);
    (void)snprintf(fields, sizeof fields, "%s%s%s%s%s", caller == OWNER ? "X-User-Id: " : "",
                   caller == OWNER ? order->user : "", caller == OWNER ? "\r\n" : callers[caller].field,
                   body == NULL ? "" : "Content-Type: application/json\r\n", signature);
    return http_ask(asked, "POST", path, fields, body, &reply);
}

// `reference`: of a payment.
static int make_move(struct service *asked, const struct order *order, enum move move, enum caller caller,
                     const char *reference)
{
    char payment[BODY_SIZE];
    (void)snprintf(payment, sizeof payment, "{\"reference\":\"%s\",\"amount_cents\":100,\"currency\":\"CNY\"}",
                   reference == NULL ? "" : reference);
    switch (move) {
    case PAY:
        return ask(asked, order, "pay", caller, payment);
    case CANCEL:
        return ask(asked, order, "cancel", caller, NULL);
    case REFUND:
        return ask(asked, order, "refund", caller, "{\"why\":\"" WHY "\"}");
    default:
        return ask(asked, order, "refund", caller, "{\"restock\":true,\"why\":\"" WHY "\"}");
    }
}

static void must_make(const struct order *order, enum move move, const char *reference)
{
    WAIT_FOR(make_move(service, order, move, move == CANCEL ? OWNER : ADMIN, reference) != 503);
    ck_assert_msg(reply.status == 200, "%s", reply.body);
}

static void buy(const char *of, struct order *order)
{
    char id[HTTP_FIELD_SIZE];
    order->voucher = of;
    (void)snprintf(order->user, sizeof order->user, "user-%d", ++buyers);
    WAIT_FOR(http_buy(service, of, order->user, &reply) != 503);
    ck_assert_msg(reply.status == 201 && http_member(&reply, "id", id), "%s", reply.body);
    (void)snprintf(order->id, sizeof order->id, "%.*s", ORDER_ID_SIZE - 1, id);
}

// An order that is accepted and not committed.
static void accept(const char *of, struct order *order)
{
    order->voucher = of;
    (void)snprintf(order->user, sizeof order->user, "user-%d", ++buyers);
    sales_accept(service, of, order->user, order->id);
}

// PostgreSQL rejects the order, so it exists only in a dead letter.
static void set_aside(const char *of, struct order *order)
{
    (void)snprintf(order->user, sizeof order->user, "user-%d", buyers + 1);
    sales_refuse_user(order->user);
    accept(of, order);
    WAIT_FOR(db_number("SELECT count(*) FROM held_order WHERE id = '%s'", order->id) == 1 &&
             redis_number("XLEN seckill:{%s}:journal", of) == 0);
    sales_refuse_none();
}

static void write_off(const struct order *order)
{
    char what[PATH_SIZE];
    (void)snprintf(what, sizeof what, "/dead-letters/%" PRId64 "/write-off",
                   db_number("SELECT letter FROM held_order WHERE id = '%s'", order->id));
    WAIT_FOR(sales_admin(service, "POST", order->voucher, what, &reply) != 503);
    ck_assert_msg(reply.status == 200, "%s", reply.body);
}

// ---- the table ----

static char vouchers[NO_ORDER][VOUCHER_ID_SIZE];
static struct order orders[COUNT(rows)][MOVES]; // each cell has one of its own

static void make_orders(void)
{
    char reference[32];
    for (int place = 0; place < NO_ORDER; place++) {
        voucher_on_sale(service, STOCK, vouchers[place]);
        if (place != ON_SALE)
            db_run("UPDATE seckill_voucher SET pay_within_s = %d WHERE id = %s", place == EXPIRING, vouchers[place]);
    }
    for (size_t i = 0; i < COUNT(rows) * MOVES; i++) {
        struct order *order = &orders[i / MOVES][i % MOVES];
        *order = (struct order){MADE_UP, "alice", vouchers[ON_SALE]};
        if (rows[i / MOVES].place == NO_ORDER) // in the slot of that voucher, and of an epoch that has not been
            db_text(order->id, sizeof order->id,
                    "SELECT left('" MADE_UP "', 30) || lpad(to_hex(slot::int << 10 | 1023), 6, '0')"
                    " FROM voucher_stock WHERE voucher_id = %s",
                    order->voucher);
        else if (rows[i / MOVES].place < NO_ORDER)
            buy(vouchers[rows[i / MOVES].place], order);
    }
    sales_end(vouchers[RETIRED]);
    WAIT_FOR(sales_redis_has(vouchers[RETIRED], "retired"));
    WAIT_FOR(db_number("SELECT count(*) FROM voucher_order WHERE voucher_id = %s AND status <> 'expired'",
                       vouchers[EXPIRING]) == 0);
    for (size_t i = 0; i < COUNT(rows) * MOVES; i++) {
        for (const char *done = rows[i / MOVES].done; *done != '\0'; done++) {
            (void)snprintf(reference, sizeof reference, "before-%d", ++references);
            must_make(&orders[i / MOVES][i % MOVES], (enum move)(strchr("pckr", *done) - "pckr"), reference);
        }
    }
}

// `again`: the move was made before.
static enum answer expect(const struct row *row, enum move move, enum caller caller, enum store away, bool again)
{
    enum answer answer = may[move][caller];
    if (answer != SAME)
        return answer;
    if (away == POSTGRES)
        return UNAVAILABLE;
    answer = row->life[move];
    if (caller == ANOTHER)
        answer = row->status != NULL || answer == NOT_FOUND ? NOT_FOUND : UNKNOWN;
    if (away == REDIS && answers[answer].needs_redis && row->place != RETIRED)
        return UNAVAILABLE;
    return again && answers[answer].status == 200 ? SAME : answer;
}

static void replace(char text[TEXT_SIZE], const char *old, const char *new)
{
    char rest[TEXT_SIZE];
    for (char *at; (at = strstr(text, old)) != NULL;) {
        (void)snprintf(rest, sizeof rest, "%s", at + strlen(old));
        (void)snprintf(at, TEXT_SIZE - (size_t)(at - text), "%s%s", new, rest);
    }
}

static void add(char *text, const char *first, const char *second, const char *third)
{
    size_t len = strlen(text);
    (void)snprintf(text + len, TEXT_SIZE - len, "%s%s %s%s%s", len == 0 ? "" : ",", first, second,
                   third == NULL ? "" : " ", third == NULL ? "" : third);
}

static bool is_recorded(enum answer answer)
{
    return answers[answer].status == 200 || answer == ALREADY_PAID;
}

// What the stores have after this answer.
static void change(struct facts *facts, const struct row *row, enum answer answer, const char *by,
                   const char *reference)
{
    char status[sizeof facts->status];
    int events = 1;
    if (answer == SAME || !is_recorded(answer))
        return;
    if (answers[answer].becomes != NULL)
        (void)snprintf(facts->status, sizeof facts->status, "%s", answers[answer].becomes);
    if (answers[answer].payment != NULL)
        add(facts->payments, reference, answers[answer].payment, NULL);
    if (answer == KEPT || answer == RESTOCKED)
        replace(facts->payments, "accepted", "refunded");
    if (answer == SETTLES) { // each payment has an event of its own
        events = 0;
        for (const char *at = facts->payments; (at = strstr(at, "to_refund")) != NULL; at++)
            events++;
        replace(facts->payments, "to_refund", "refunded");
    }
    (void)snprintf(status, sizeof status, "%.*s", (int)strcspn(facts->status, " "), facts->status);
    for (; events > 0; events--)
        add(facts->events, status, by, answers[answer].why);
    facts->left += answers[answer].units;
    facts->left_in_redis += row->place == RETIRED ? 0 : answers[answer].units;
}

static void must_answer(const struct row *row, enum answer answer, const struct facts *facts)
{
    char value[HTTP_FIELD_SIZE];
    if (answers[answer].status == 200)
        must_be_order(facts->status, facts->payments, facts->events);
    else
        http_must_be_problem(&reply, answers[answer].status, answers[answer].code);
    if (answer == WRONG_STATE)
        ck_assert_msg(http_member(&reply, "state", value) && strcmp(value, row->status) == 0, "%s", reply.body);
    if (answer == PENDING || answer == LETTER)
        ck_assert(http_header(&reply, "Retry-After", value) && strcmp(value, "1") == 0);
}

// Every caller makes the move, in an order that differs from cell to cell.
static void try_cell(const struct row *row, enum move move, const struct order *order, enum store away)
{
    static int cells;
    struct facts facts = {0};
    char reference[32];
    bool again = false;
    int first = cells++;
    (void)snprintf(reference, sizeof reference, "cell-%d", ++references);
    if (away != POSTGRES)
        read_facts(order, away, &facts);
    for (int i = 0; i < CALLERS; i++) {
        enum caller caller = (enum caller)((first + i) % CALLERS);
        enum answer answer = expect(row, move, caller, away, again);
        struct service *asked = i % 2 == 0 ? service : other;
        WAIT_FOR(make_move(asked, order, move, caller, reference) != 503 || answer == UNAVAILABLE);
        if (!again)
            change(&facts, row, answer, callers[caller].by, reference);
        ck_assert_msg(reply.status == answers[answer].status, "%s, move %d, caller %d, without %d: %s", row->name,
                      (int)move, (int)caller, (int)away, reply.body);
        must_answer(row, answer, &facts);
        again = again || is_recorded(answer);
        if (away != POSTGRES && (is_recorded(answer) || i == CALLERS - 1))
            must_have(order, away, &facts);
    }
}

// `one` NULL: an order for each move.
static void try_row(const struct row *row, const struct order *one, enum store away)
{
    for (int move = MOVES - 1; move >= 0; move--)
        try_cell(row, (enum move)move, one != NULL ? one : &orders[row - rows][move], away);
}

TEST(every_status_allows_its_moves_to_those_who_may)
{
    struct order one;
    double forged = 0;
    start();
    make_orders();
    for (size_t row = 0; row < COUNT(rows); row++)
        try_row(&rows[row], NULL, NONE);
    set_aside(vouchers[ON_SALE], &one);
    try_row(&letter, &one, NONE);
    write_off(&one);
    try_row(&refused, &one, NONE);
    db_hold_orders();
    accept(vouchers[ON_SALE], &one);
    try_row(&pending, &one, NONE);
    db_let_orders_go();
    WAIT_FOR(make_move(other, &one, CANCEL, OWNER, NULL) == 200);
    books_must_balance(vouchers[ON_SALE]);
    books_must_balance(vouchers[EXPIRING]);
    for (int caller = 0; caller < CALLERS; caller++)
        forged += may[PAY][caller] == BAD_SIGNATURE ? COUNT(rows) + 3 : 0;
    ck_assert(http_sample(service, "seckill_auth_failures_total{kind=\"signature\"}") +
                  http_sample(other, "seckill_auth_failures_total{kind=\"signature\"}") ==
              forged);
}

// What is refused for want of a store changes nothing: the same orders are tried without the other one, then with both.
TEST(no_move_is_made_without_the_stores_that_it_needs)
{
    struct order held, aside, ended;
    start();
    make_orders();
    set_aside(vouchers[ON_SALE], &aside);
    set_aside(vouchers[ON_SALE], &ended);
    write_off(&ended);
    postgres_stop();
    accept(vouchers[ON_SALE], &held);
    for (size_t row = 0; row < COUNT(rows); row++)
        try_row(&rows[row], NULL, POSTGRES);
    try_row(&letter, &aside, POSTGRES);
    try_row(&refused, &ended, POSTGRES);
    try_row(&pending, &held, POSTGRES);
    postgres_start();
    books_must_balance(vouchers[ON_SALE]);
    db_hold_orders();
    accept(vouchers[ON_SALE], &held);
    redis_kill();
    try_row(&pending, &held, REDIS);
    db_let_orders_go();
    WAIT_FOR(db_number("SELECT count(*) FROM voucher_order WHERE id = '%s'", held.id) == 1); // it takes a unit
    for (size_t row = 0; row < COUNT(rows); row++)
        try_row(&rows[row], NULL, REDIS);
    try_row(&letter, &aside, REDIS);
    try_row(&refused, &ended, REDIS);
    redis_start();
    books_must_balance(vouchers[ON_SALE]);
    for (size_t row = 0; row < COUNT(rows); row++) { // what needed Redis
        for (int move = 0; move < MOVES; move++) {
            if (answers[rows[row].life[move]].needs_redis && rows[row].place != RETIRED)
                try_cell(&rows[row], (enum move)move, &orders[row][move], NONE);
        }
    }
    books_must_balance(vouchers[ON_SALE]);
    books_must_balance(vouchers[EXPIRING]);
}

// ---- payments and their references ----

// The refusal names the member that differs from what is due.
static void must_name_what_is_due(const char *due, const char *currency)
{
    char error[BODY_SIZE];
    bool amount = strcmp(due + strlen(due) - strlen(currency), currency) == 0;
    (void)snprintf(error, sizeof error, "{\"pointer\":\"/%s\",\"detail\":\"must be %s,",
                   amount ? "amount_cents" : "currency", due);
    ck_assert_msg(strstr(reply.body, error) != NULL, "%s", reply.body);
}

TEST(a_payment_that_does_not_fit_changes_nothing)
{
    enum { ALICES, BOBS, ENDED, NOBODYS };
    static const struct {
        int order;
        const char *reference, *cents, *currency, *code;
        int status;
    } payments[] = {
        {BOBS, "ref-1", "100", "CNY", "REFERENCE_USED", 409},
        {BOBS, "ref-2", "99", "CNY", "WRONG_AMOUNT", 422},
        {BOBS, "ref-2", "101", "CNY", "WRONG_AMOUNT", 422},
        {BOBS, "ref-2", "200", "CNY", "WRONG_AMOUNT", 422},
        {BOBS, "ref-2", "0", "CNY", "WRONG_AMOUNT", 422},
        {BOBS, "ref-2", "100000000000000", "CNY", "WRONG_AMOUNT", 422},
        {BOBS, "ref-2", "100", "USD", "WRONG_AMOUNT", 422},
        {BOBS, "ref-2", "-100", "CNY", "INVALID", 422},
        {BOBS, "ref-2", "100,\"x\":1", "CNY", "BAD_JSON", 400},
        {ALICES, "ref-1", "99", "CNY", "WRONG_AMOUNT", 422}, // not the recorded amount
        {ALICES, "ref-1", "100", "USD", "WRONG_AMOUNT", 422},
        {ENDED, "ref-1", "100", "CNY", "REFERENCE_USED", 409},
        {ENDED, "late", "7", "USD", NULL, 200}, // whatever comes is given back
        {ENDED, "late", "8", "USD", "WRONG_AMOUNT", 422},
        {BOBS, "late", "100", "CNY", "REFERENCE_USED", 409},
        {NOBODYS, "ref-1", "100", "CNY", "NOT_FOUND", 404},
    };
    struct order orders_of[] = {[NOBODYS] = {MADE_UP, "alice", voucher}};
    start();
    voucher_on_sale(service, STOCK, voucher);
    buy(voucher, &orders_of[ALICES]);
    buy(voucher, &orders_of[BOBS]);
    buy(voucher, &orders_of[ENDED]);
    must_make(&orders_of[ENDED], CANCEL, NULL);
    must_make(&orders_of[ALICES], PAY, "ref-1");
    for (size_t i = 0; i < COUNT(payments); i++) {
        char body[BODY_SIZE];
        (void)snprintf(body, sizeof body, "{\"reference\":\"%s\",\"amount_cents\":%s,\"currency\":\"%s\"}",
                       payments[i].reference, payments[i].cents, payments[i].currency);
        WAIT_FOR(ask(service, &orders_of[payments[i].order], "pay", SHOP, body) != 503);
        if (payments[i].code == NULL) {
            must_be_order("cancelled", "late to_refund", "cancelled user,cancelled shop PAYMENT_TO_REFUND");
            ck_assert_ptr_nonnull(strstr(reply.body, "\"amount_cents\":7,\"currency\":\"USD\""));
        } else
            http_must_be_problem(&reply, payments[i].status, payments[i].code);
        if (payments[i].code != NULL && strcmp(payments[i].code, "WRONG_AMOUNT") == 0)
            must_name_what_is_due(payments[i].order == ENDED ? "7 USD" : "100 CNY", payments[i].currency);
    }
    must_show(other, &orders_of[ALICES], "paid", "ref-1 accepted", "paid admin");
    must_show(other, &orders_of[BOBS], "unpaid", "", "");
    must_make(&orders_of[BOBS], PAY, "ref-2"); // none of them affects the other order
    (void)ask(service, &orders_of[BOBS], "refund", DESK, "{\"restock\":1}");
    http_must_be_problem(&reply, 422, "INVALID");
    (void)ask(service, &orders_of[BOBS], "refund", DESK, "");
    http_must_be_problem(&reply, 400, "BAD_JSON");
    books_must_balance(voucher);
}

static void must_refuse_payment(const struct order *order, const char *reference, const char *cents)
{
    char body[BODY_SIZE];
    (void)snprintf(body, sizeof body, "{\"reference\":\"%s\",\"amount_cents\":%s,\"currency\":\"CNY\"}", reference,
                   cents);
    WAIT_FOR(ask(other, order, "pay", SHOP, body) != 503);
    http_must_be_problem(&reply, 409, "ALREADY_PAID");
}

static int refund_of(const struct order *order, const char *reference)
{
    char body[BODY_SIZE];
    (void)snprintf(body, sizeof body, "{\"restock\":true,\"reference\":\"%s\"}", reference);
    WAIT_FOR(ask(other, order, "refund", DESK, body) != 503);
    return reply.status;
}

TEST(a_signature_that_is_rejected_is_told_why)
{
    static const struct {
        enum caller caller;
        const char *says;
    } wrong[] = {{FORGED, "X-Seckill-Signature is not the HMAC"},
                 {COPIED, "X-Seckill-Signature is not the HMAC"},
                 {TOO_OLD, "X-Seckill-Timestamp is not a Unix time in seconds, within 300 s"}};
    struct order order;
    start();
    voucher_on_sale(service, STOCK, voucher);
    buy(voucher, &order);
    for (size_t i = 0; i < COUNT(wrong); i++) {
        (void)make_move(service, &order, PAY, wrong[i].caller, "s-1");
        http_must_be_problem(&reply, 401, "BAD_SIGNATURE");
        ck_assert_msg(strstr(reply.body, wrong[i].says) != NULL, "%s", reply.body);
    }
    (void)http_ask(service, "POST", "/orders/" MADE_UP "/pay", "X-Seckill-Timestamp: 1\r\n", "{}", &reply);
    http_must_be_problem(&reply, 401, "BAD_SIGNATURE");
    ck_assert_msg(strstr(reply.body, "must be there, once each") != NULL, "%s", reply.body);
    service_stop_all();
    service = service_start(ENV(HASTY, SOON, TOKENS));
    (void)make_move(service, &order, PAY, SIGNED, "s-1");
    http_must_be_problem(&reply, 401, "BAD_SIGNATURE");
    ck_assert_msg(strstr(reply.body, "signatures are off") != NULL, "%s", reply.body);
    books_must_balance(voucher);
}

// As `ask` with the fields of Standard Webhooks.
static int pay_as_webhook(const struct order *order, const char *secret, const char *body)
{
    char path[PATH_SIZE], stamp[24], made[SK_WEBHOOK_SIGNATURES_SIZE], fields[2 * FIELDS_SIZE];
    struct sk_webhook_keys keys = {0};
    (void)snprintf(path, sizeof path, "/orders/%s/pay", order->id);
    (void)snprintf(stamp, sizeof stamp, "%lld", (long long)(sk_wall_ms() / 1000));
    const struct sk_webhook_message message = {"msg_1", stamp, body, strlen(body)};
    ck_assert_ptr_null(sk_webhook_keys_add(&keys, secret));
    ck_assert_int_eq(sk_webhook_keys_sign(&keys, &message, made), SK_OK);
    sk_webhook_keys_free(&keys);
    (void)snprintf(fields, sizeof fields,
                   "Content-Type: application/json\r\nwebhook-id: msg_1\r\nwebhook-timestamp: %s\r\n"
                   "webhook-signature: %s\r\n",
                   stamp, made);
    return http_ask(service, "POST", path, fields, body, &reply);
}

// The signature does not cover the path, so the body names the order.
TEST(a_payment_signed_as_webhooks_are)
{
    static const char whsec[] = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX",
                      form[] = "{\"reference\":\"w-1\",\"amount_cents\":100,\"currency\":\"CNY\",\"order_id\":\"%s\"}";
    char body[BODY_SIZE];
    struct order order, other_order;
    service = service_start(ENV(HASTY, SOON, TOKENS, "SECKILL_PAYMENT_SECRET=whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"));
    voucher_on_sale(service, STOCK, voucher);
    buy(voucher, &order);
    buy(voucher, &other_order);
    (void)snprintf(body, sizeof body, form, order.id);
    ck_assert_int_eq(pay_as_webhook(&order, whsec, body), 200);
    (void)pay_as_webhook(&other_order, whsec, body); // the same message, sent to another order
    http_must_be_problem(&reply, 422, "INVALID");
    (void)pay_as_webhook(&other_order, whsec, "{\"reference\":\"w-2\",\"amount_cents\":100,\"currency\":\"CNY\"}");
    http_must_be_problem(&reply, 422, "INVALID");
    (void)pay_as_webhook(&other_order, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", body);
    http_must_be_problem(&reply, 401, "BAD_SIGNATURE");
    ck_assert_msg(strstr(reply.body, "webhook-signature") != NULL, "%s", reply.body);
    books_must_balance(voucher);
}

// The id in capitals, or only its digits.
static struct order written(const struct order *order, bool capitals)
{
    struct order other_form = *order;
    char *out = other_form.id;
    for (const char *at = order->id; *at != '\0'; at++) {
        if (capitals)
            *out++ = (char)toupper((unsigned char)*at);
        else if (*at != '-')
            *out++ = *at;
    }
    *out = '\0';
    return other_form;
}

// As some databases give ids back, and as payment providers keep them. Each is the order, and answers have the usual
// form. What is signed is the path as it was sent.
TEST(an_id_in_another_form_is_the_order)
{
    struct order order, another;
    start();
    voucher_on_sale(service, STOCK, voucher);
    for (int capitals = 0; capitals <= 1; capitals++) {
        char member[ORDER_ID_SIZE + 16];
        buy(voucher, &order);
        (void)snprintf(member, sizeof member, "{\"id\":\"%s\"", order.id);
        another = written(&order, capitals);
        must_show(other, &another, "unpaid", "", "");
        ck_assert_msg(strncmp(reply.body, member, strlen(member)) == 0, "%s", reply.body);
        ck_assert_int_eq(make_move(other, &another, PAY, SIGNED, order.user), 200);
        ck_assert_int_eq(make_move(service, &order, PAY, SHOP, order.user), 200); // again
        ck_assert_int_eq(make_move(other, &another, PAY, FORGED, order.user), 401);
        (void)refund_of(&another, order.user);
        ck_assert_msg(reply.status == 200 && strstr(reply.body, member) != NULL, "%s", reply.body);
        buy(voucher, &order);
        another = written(&order, capitals);
        ck_assert_int_eq(make_move(other, &another, CANCEL, OWNER, NULL), 200);
        must_show(other, &order, "cancelled", "", "cancelled user");
    }
    another.id[5] = 'g';
    (void)make_move(other, &another, CANCEL, OWNER, NULL);
    http_must_be_problem(&reply, 400, "BAD_ORDER_ID");
    books_must_balance(voucher);
}

// The refund's answer was lost, and a payment came before the repeat: it is owed until a refund names it.
TEST(a_refund_settles_the_payment_that_it_names)
{
    static const char *const unknown[] = {"n-2", "n-9", "N-1"}; // another order's; made up; in other letters
    struct order order, bobs;
    start();
    voucher_on_sale(service, STOCK, voucher);
    buy(voucher, &order);
    buy(voucher, &bobs);
    must_make(&order, PAY, "n-1");
    must_make(&bobs, PAY, "n-2");
    for (size_t i = 0; i < COUNT(unknown); i++) {
        (void)refund_of(&order, unknown[i]);
        http_must_be_problem(&reply, 409, "UNKNOWN_PAYMENT");
    }
    must_show(service, &order, "paid", "n-1 accepted", "paid admin");
    for (int i = 0; i < 4; i++) { // as often as it is repeated, with the name and without it
        if (i == 1) {
            must_make(&order, PAY, "n-3");
            must_make(&order, PAY, "n-4");
            must_make(&order, PAY, "n-1"); // it was refunded, and is not taken again
        }
        if (i == 3)
            must_make(&order, RESTOCK, NULL);
        else
            ck_assert_int_eq(refund_of(&order, "n-1"), 200);
        must_be_order("refunded RESTOCKED", i == 0 ? "n-1 refunded" : "n-1 refunded,n-3 to_refund,n-4 to_refund",
                      i == 0 ? "paid admin,refunded desk"
                             : "paid admin,refunded desk,refunded admin PAYMENT_TO_REFUND,"
                               "refunded admin PAYMENT_TO_REFUND");
    }
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(refund_of(&order, "n-4"), 200);
        must_be_order("refunded RESTOCKED", "n-1 refunded,n-3 to_refund,n-4 refunded",
                      "paid admin,refunded desk,refunded admin PAYMENT_TO_REFUND,refunded admin PAYMENT_TO_REFUND,"
                      "refunded desk PAYMENT_REFUNDED");
    }
    ck_assert_int_eq(refund_of(&order, "n-3"), 200);
    must_show(service, &bobs, "paid", "n-2 accepted", "paid admin");
    // Of an order that was never paid in time, too: once one payment was named, none is settled without a name.
    buy(voucher, &order);
    must_make(&order, CANCEL, NULL);
    must_make(&order, PAY, "x-1");
    must_make(&order, PAY, "x-2");
    ck_assert_int_eq(refund_of(&order, "x-2"), 200);
    must_make(&order, REFUND, NULL);
    must_show(service, &order, "cancelled", "x-1 to_refund,x-2 refunded",
              "cancelled user,cancelled admin PAYMENT_TO_REFUND,cancelled admin PAYMENT_TO_REFUND,"
              "cancelled desk PAYMENT_REFUNDED");
    books_must_balance(voucher);
}

static void must_owe(int payments)
{
    char expected[32];
    (void)snprintf(expected, sizeof expected, "\"TO_REFUND\":%d", payments);
    WAIT_FOR(sales_admin(service, "GET", voucher, "/settlement", &reply) == 200);
    ck_assert_msg((strstr(reply.body, expected) != NULL) == (payments > 0), "%s", reply.body);
    ck_assert_msg(payments > 0 || strstr(reply.body, "TO_REFUND") == NULL, "%s", reply.body);
}

// It is refused, and recorded once, whatever its amount: the buyer is owed it. A refund that names it leaves the order
// paid; one without a name is the order's, and leaves it owed.
TEST(a_second_payment_is_owed)
{
    struct order order;
    start();
    voucher_on_sale(service, STOCK, voucher);
    buy(voucher, &order);
    must_make(&order, PAY, "s-1");
    must_owe(0);
    for (int i = 0; i < 2; i++) {
        must_refuse_payment(&order, "s-2", "100");
        must_refuse_payment(&order, "S-1", "7"); // references are compared byte by byte
    }
    must_make(&order, PAY, "s-1"); // the one that paid it
    must_be_order("paid", "s-1 accepted,s-2 to_refund,S-1 to_refund",
                  "paid admin,paid shop PAYMENT_TO_REFUND,paid shop PAYMENT_TO_REFUND");
    must_owe(2);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(refund_of(&order, "s-2"), 200);
        must_be_order("paid", "s-1 accepted,s-2 refunded,S-1 to_refund",
                      "paid admin,paid shop PAYMENT_TO_REFUND,paid shop PAYMENT_TO_REFUND,paid desk PAYMENT_REFUNDED");
        must_refuse_payment(&order, "s-2", "100");
    }
    must_make(&order, RESTOCK, NULL);
    must_make(&order, PAY, "s-2"); // the order is not paid any more: its state tells
    must_show(other, &order, "refunded RESTOCKED", "s-1 refunded,s-2 refunded,S-1 to_refund",
              "paid admin,paid shop PAYMENT_TO_REFUND,paid shop PAYMENT_TO_REFUND,paid desk PAYMENT_REFUNDED,"
              "refunded admin " WHY);
    must_owe(1);
    ck_assert_int_eq(refund_of(&order, "S-1"), 200);
    must_owe(0);
    books_must_balance(voucher);
}

// ---- pending orders ----

// Redis still has one more buyer than PostgreSQL.
TEST(a_pending_order_without_a_journal_is_pending)
{
    struct order order;
    start();
    voucher_on_sale(service, STOCK, voucher);
    db_hold_orders();
    accept(voucher, &order);
    redis_run("DEL seckill:{%s}:journal", voucher);
    WAIT_FOR(make_move(other, &order, PAY, ADMIN, "ref-j") != 503);
    http_must_be_problem(&reply, 409, "PENDING");
    db_let_orders_go();
    WAIT_FOR(make_move(other, &order, PAY, ADMIN, "ref-j") == 200);
    must_be_order("paid", "ref-j accepted", "paid admin");
    books_must_balance(voucher);
}

// ---- concurrent calls ----

struct canceller {
    const struct order *order;
    struct http_reply told;
};

static void *cancel_beside(void *arg)
{
    struct canceller *canceller = arg;
    char request[BODY_SIZE];
    (void)snprintf(request, sizeof request, "POST /orders/%s/cancel HTTP/1.1\r\nHost: test\r\nX-User-Id: %s\r\n\r\n",
                   canceller->order->id, canceller->order->user);
    (void)http_raw(other, request, strlen(request), &canceller->told);
    return NULL;
}

// On two instances: whichever comes first, the order ends in one state, and its payment matches.
TEST(pay_and_cancel_at_once_agree)
{
    int paid = 0;
    start();
    voucher_on_sale(service, RACES, voucher);
    for (int i = 0; i < RACES; i++) {
        static struct canceller canceller;
        struct order order;
        char reference[32];
        pthread_t thread;
        (void)snprintf(reference, sizeof reference, "race-%d", i);
        buy(voucher, &order);
        canceller.order = &order;
        ck_assert_int_eq(pthread_create(&thread, NULL, cancel_beside, &canceller), 0);
        WAIT_FOR(make_move(service, &order, PAY, SHOP, reference) != 503);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        while (canceller.told.status == 503) // the other transaction held the row for too long
            (void)cancel_beside(&canceller);
        bool kept = db_number("SELECT count(*) FROM voucher_order WHERE id = '%s' AND status = 'paid'", order.id) == 1;
        ck_assert_int_eq(reply.status, 200);
        ck_assert_int_eq(strstr(reply.body, "to_refund") != NULL, !kept);
        ck_assert_int_eq(canceller.told.status, kept ? 409 : 200);
        ck_assert_int_eq(db_number("SELECT count(*) FROM payment WHERE order_id = '%s' AND state = '%s'", order.id,
                                   kept ? "accepted" : "to_refund"),
                         1);
        paid += kept;
    }
    ck_assert_int_eq(db_number("SELECT live FROM voucher_stock WHERE voucher_id = %s", voucher), paid);
    books_must_balance(voucher);
}

SUITE(.timeout_s = 120, .begin = setup, .teardown = teardown, .in_one_process = true);
