// A client that says anything at all, to the real server, the real routes and the real control plane on a loop, over
// sockets. Below them stand links and background jobs of our own, which answer later, by the number of the voucher or
// the order that they are asked about, so that every kind of answer is given. The server must survive, answer or close,
// answer in a form that a client can read, and ask the stores for nothing that it should have refused.
//
// Paths that begin with /park are parked beside the routes.
//
// An input is what the client sends. These bytes are not sent but do something in between:
//   \x1b  the other one of two clients goes on
//   \x1c  the loop turns before the rest is sent
//   \x1d  the stores and the jobs answer what they were asked, and a moment passes
//   \x1e  a minute passes: every deadline has come
//   \x1f  the client hangs up, and comes back on a new connection
#include <ctype.h>
#include <hiredis/hiredis.h>
#include <jansson.h>
#include <libpq-fe.h>
#include <signal.h>
#include <stdio.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "audit.h"
#include "batcher.h"
#include "buf.h"
#include "catalogue.h"
#include "config.h"
#include "entry.h"
#include "feed.h"
#include "fuzz.h"
#include "line.h"
#include "listener.h"
#include "live.h"
#include "log.h"
#include "metrics_page.h"
#include "order_lookup.h"
#include "page.h"
#include "query.h"
#include "regrant.h"
#include "returns.h"
#include "routes.h"
#include "settlement_report.h"
#include "slot.h"
#include "text.h"
#include "timer.h"
#include "voucher_changes.h"
#include "vouchers.h"
#include "waiting.h"

enum { PARKED_MAX = 64, CLIENTS = 2, ASKED_MAX = 1024, TURNS_MAX = 200, PATIENCE_TURNS = 8, BACKLOG = 16 };
enum { READ_SIZE = 65536, MOMENT_MS = 250, MINUTE_MS = 60000, PER_HEADER = 64 };
enum { NEWEST = 40, CATALOGUE_END = 32, ORDERS_MAX = 8, TIMERS = 5 }; // two of the server, and three that rest

#define ADMIN_TOKEN  "t0ken-of-16-char"
#define READER_TOKEN "t0ken-that-reads"
#define ORIGIN       "https://shop.example"
#define ORDER        "018bcfe5-6800-7000-8000-00000000000" // and its last digit
#define ORDER_ID     ORDER "a"
#define RUN          "run-1"

struct client {
    int fd;
    struct sk_buf sent, got; // sent: in all of the input
    size_t from;             // of it, where the present connection begins
    bool ended;              // the server has closed
};

static struct sk_config config;
static struct sk_routes *routes;
static struct sk_server *server;
static struct sockaddr_un here;
static socklen_t here_len;
static struct client clients[CLIENTS];
static struct client probe;         // asks whether the server is still there
static uint64_t parked[PARKED_MAX]; // the last ones
static size_t handled, hung_up, parked_count;
static bool waited; // for an order's change
static bool later;  // answers or timers are under way: what is asked may be about a request of an earlier connection

static struct {
    uv_loop_t loop;
    struct sk_metrics metrics;
    struct sk_recovery recovery;
    struct sk_shard shard;
    struct sk_sale sale;
    struct sk_control control;
    char links[5]; // stand for them
} shop;

// ---- time ----

// Time passes when the input says so. This takes libuv's place, and the timers theirs.
static uint64_t now_ms = MINUTE_MS;

uint64_t uv_now(const uv_loop_t *of)
{
    (void)of;
    return now_ms;
}

struct sk_timer {
    struct sk_timer *next;
    sk_timer_cb *tick; // NULL: it is closed
    void *arg;
    uint32_t every_ms;
    uint64_t due_ms;
};

static struct sk_timer *timers;
static size_t timer_count;

struct sk_timer *sk_timer_open(uv_loop_t *loop, uint32_t every_ms, sk_timer_cb *tick, void *arg)
{
    (void)loop;
    struct sk_timer *timer = malloc(sizeof *timer);
    MUST(timer != NULL);
    *timer = (struct sk_timer){timers, tick, arg, every_ms, every_ms > 0 ? now_ms + every_ms : UINT64_MAX};
    timer_count++;
    return timers = timer;
}

void sk_timer_once(struct sk_timer *timer, uint32_t ms)
{
    timer->every_ms = 0;
    timer->due_ms = now_ms + ms;
}

void sk_timer_close(struct sk_timer *timer)
{
    if (timer != NULL) {
        timer->tick = NULL;
        timer_count--;
    }
}

static void run_timers(void)
{
    later = true;
    for (struct sk_timer *timer = timers; timer != NULL; timer = timer->next) {
        if (timer->tick == NULL || timer->due_ms > now_ms)
            continue;
        timer->due_ms = timer->every_ms > 0 ? now_ms + timer->every_ms : UINT64_MAX;
        timer->tick(timer->arg);
    }
    later = false;
    for (struct sk_timer **at = &timers; *at != NULL;) {
        struct sk_timer *timer = *at;
        if (timer->tick != NULL) {
            at = &timer->next;
        } else {
            *at = timer->next;
            free(timer);
        }
    }
}

// ---- what the server listens on ----

// In place of a port: no trace of it is left when a connection ends, however many there are.
bool sk_listen_address_is_reachable(const char *address)
{
    (void)address;
    return false;
}

int sk_listen(const char *address)
{
    (void)address;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    sa_family_t family = AF_UNIX; // and no name: the kernel finds one
    here_len = sizeof here;
    MUST(fd >= 0 && bind(fd, (struct sockaddr *)&family, sizeof family) == 0 && listen(fd, BACKLOG) == 0);
    MUST(getsockname(fd, (struct sockaddr *)&here, &here_len) == 0);
    return fd;
}

// ---- what was sent ----

typedef bool finder(const char *sent, size_t n, const char *text);

// Whether one of the clients has sent it.
static bool is_found(finder *find, const char *text)
{
    for (int i = 0; i < CLIENTS; i++) {
        size_t from = later ? 0 : clients[i].from;
        if (clients[i].sent.len > from && find(clients[i].sent.data + from, clients[i].sent.len - from, text))
            return true;
    }
    return false;
}

static bool has_text(const char *sent, size_t n, const char *text)
{
    return memmem(sent, n, text, strlen(text)) != NULL;
}

static bool was_sent(const char *text)
{
    return is_found(has_text, text);
}

static void must_be_a_voucher(int64_t id)
{
    bool sent = was_sent("%"); // in a query it may be escaped
    for (const char *before = "/=,"; *before != '\0'; before++) {
        char text[24];
        (void)snprintf(text, sizeof text, "%c%lld", *before, (long long)id);
        sent = sent || was_sent(text);
    }
    MUST(id > 0 && sent);
}

// Whether a line ends with the text, and maybe blanks. NUL LF leaves the same in the library's memory as CR LF.
static bool has_end_of_line(const char *sent, size_t n, const char *text)
{
    const char *end = sent + n, *at = sent;
    for (; (at = memmem(at, (size_t)(end - at), text, strlen(text))) != NULL; at++) {
        const char *behind = at + strlen(text);
        while (behind < end && (*behind == ' ' || *behind == '\t'))
            behind++;
        if (end - behind >= 2 && (behind[0] == '\r' || behind[0] == '\0') && behind[1] == '\n')
            return true;
    }
    return false;
}

// A whole value was sent, not the part of one before a NUL.
static void must_be_a_user(const char *user)
{
    MUST(user != NULL && sk_text_user(user));
    MUST(is_found(has_end_of_line, user));
}

// In any case, with dashes or without.
static bool has_order(const char *sent, size_t n, const char *id)
{
    for (size_t from = 0; from < n; from++) {
        size_t at = from, chars = 0;
        for (; chars < SK_UUID_CHARS && at < n; chars++) {
            bool same = tolower((unsigned char)sent[at]) == id[chars];
            if (!same && id[chars] != '-')
                break;
            at += same;
        }
        if (chars == SK_UUID_CHARS)
            return true;
    }
    return false;
}

// Of a repeated purchase the order is the one that its key has made. Returns its last digit.
static int64_t must_be_an_order(const char *id)
{
    MUST(sk_uuid_valid(id));
    MUST(is_found(has_order, id) || (strcmp(id, ORDER_ID) == 0 && was_sent("POST")));
    return strtol(id + SK_UUID_CHARS - 1, NULL, 16);
}

static void must_be_an_admin(bool who_changes)
{
    MUST(was_sent(ADMIN_TOKEN) || (!who_changes && was_sent(READER_TOKEN)));
}

// ---- what waits for an answer ----

struct asked {
    void (*answer)(const struct asked *asked);
    union {
        sk_pg_cb *pg;
        sk_redis_cb *redis;
        void (*job)(void *arg, bool ok); // a rebuild, or changes that are carried out
        sk_return_cb *returned;
    } done;
    void *arg;
    const char *text;         // rows, or a reply; NULL: there is none
    unsigned most;            // rows
    enum sk_result_kind kind; // if there are none
    bool ok;
    enum sk_return_end end;
    struct sk_purchase_result bought;
};

static struct asked asked[ASKED_MAX];
static size_t asked_count;
static int64_t counter;     // of questions that have no number of their own
static unsigned units_back; // orders that were returned
static int64_t newest_voucher;

static struct asked *ask(void (*answer)(const struct asked *asked), void *arg)
{
    MUST(asked_count < ASKED_MAX);
    asked[asked_count] = (struct asked){.answer = answer, .arg = arg};
    return &asked[asked_count++];
}

static void answer_parked(void)
{
    struct sk_answer answer = {.verdict = SK_VERDICT_SOLD_OUT};
    for (size_t i = 0; i < parked_count && i < PARKED_MAX; i++)
        sk_routes_answer(routes, parked[i], &answer);
}

// What is asked meanwhile is answered the next time.
static void answer_all(void)
{
    size_t count = asked_count;
    later = true;
    answer_parked();
    for (size_t i = 0; i < count; i++)
        asked[i].answer(&asked[i]);
    later = false;
    asked_count -= count;
    memmove(asked, asked + count, asked_count * sizeof *asked);
    waited = waited || sk_waiting_count(shop.control.waiting) > 0;
}

// The number of a question, modulo 16, says what comes of it: one of its answers, or, from here on, a failure.
enum { KINDS = 16, FAILURES_FROM = 12 };

static const char *pick(const char *const *texts, unsigned kind)
{
    size_t count = 0;
    while (texts[count] != NULL)
        count++;
    return texts[kind % count];
}

// ---- PostgreSQL ----

// Columns end with | and rows with \n; ~ is SQL's NULL. A row behind * comes as often as the page takes rows.
#define NONE  ""
#define SHOWN "{\"shown\":1}"
#define VOUCHER \
    "{\"remaining\":1,\"begin_at\":\"2026-01-01T00:00:00Z\",\"end_at\":\"2099-01-01T00:00:00Z\",\"state\":\"open\"}"
enum { COLUMNS_MAX = 16, ANSWERS_MAX = 12 };
enum asker { ANYONE, OPERATOR, SERVICE }; // a COMMAND is an admin's, if it is not the service's own

// What the control plane may ask, and what PostgreSQL may say. Each parameter has a letter, as the next table; one that
// may be NULL a capital.
// clang-format off
#define OPERATED {"done|" VOUCHER "|7|open|0", "below|~|7|open|4", "state|~|7|closed|0", "changed|~|7|open|0", \
                  "started|~|7|open|0", "reused|~|7|open|0", "known|" VOUCHER "|7|open|0", \
                  "done|" VOUCHER "|8|paused|0", "invalid|~|7|open|0", "unknown|~|7|open|0"}
static const struct question {
    const char *params;
    enum asker asker;
    const char *answers[ANSWERS_MAX];
} questions[] = {
    [SK_STATEMENT_FIND_VOUCHER] = {"v", ANYONE, {"7|T|o|" VOUCHER "|7", NONE, "7|T|o|" VOUCHER "|8"}},
    [SK_STATEMENT_FIND_RETIRED] = {"vu", ANYONE,
        {"retired|~", "archived|~", "retired|" ORDER_ID, "open|~", NONE, "archived|" ORDER_ID}},
    [SK_STATEMENT_LIST_VOUCHERS] = {"ACm", ANYONE, {"*7|" VOUCHER, NONE, "7|" VOUCHER}},
    [SK_STATEMENT_LIST_ORDERS] = {"uIm..", ANYONE,
        {ORDER_ID "|~|7|7", "*" ORDER_ID "|" SHOWN "|7|99", "~|~|~|7", ORDER_ID "|" SHOWN "|7|7\n" ORDER "1|~|1|7"}},
    [SK_STATEMENT_LIST_ALL_ORDERS] = {"qBNNIm", ANYONE, {ORDER_ID "|" SHOWN, "*" ORDER_ID "|" SHOWN, ORDER_ID "|~"}},
    [SK_STATEMENT_LIST_PAYMENTS] = {"qIm", ANYONE, {ORDER_ID "|" SHOWN "," SHOWN, NONE, "*" ORDER_ID "|" SHOWN}},
    [SK_STATEMENT_LIST_TO_REFUND] = {"QIm", ANYONE, {ORDER_ID "|" SHOWN "," SHOWN, NONE, "*" ORDER_ID "|" SHOWN}},
    [SK_STATEMENT_FIND_VOUCHERS] = {"ACm.", ANYONE, {"*7|" VOUCHER, NONE, "7|" VOUCHER}},
    [SK_STATEMENT_FIND_PAYMENT] = {"r", ANYONE, {ORDER_ID "|" SHOWN, NONE}},
    [SK_STATEMENT_WEBHOOK_RECEIVERS] = {"", ANYONE, {"shop|" SHOWN, NONE, "pay|" SHOWN "\nshop|" SHOWN}},
    [SK_STATEMENT_TROUBLES] = {"m", ANYONE, {"7|" SHOWN, NONE, "*7|" SHOWN}},
    [SK_STATEMENT_LIST_ADMIN_EVENTS] = {"vccm", ANYONE, {"5|6|" SHOWN, NONE, "*5|6|" SHOWN}},
    [SK_STATEMENT_ORDER_EVENTS] = {"ccp.", ANYONE, {"*5|6|" SHOWN, NONE}},
    [SK_STATEMENT_LATEST_EVENTS] = {"pp.", ANYONE, {"5|6|" SHOWN, NONE}},
    [SK_STATEMENT_FEED_END] = {"", SERVICE, {NONE, "moves|5|6", "placed|4|9\nsales|9|9"}},
    [SK_STATEMENT_LIST_DEAD_LETTERS] = {"svcm", ANYONE, {"5|" SHOWN, NONE, "*5|" SHOWN}},
    [SK_STATEMENT_SETTLEMENT] = {"v", ANYONE,
        {"open|SOLD_OUT 1 2|CNY 990 1 1 0 0|1|2", "open|~|~", NONE, "retired|~|~", "~", "open|odd"}},
    [SK_STATEMENT_FIND_ORDER] = {"sou", ANYONE, {SHOWN "|unpaid", NONE, SHOWN "|paid", NONE, "~|unpaid"}},
    [SK_STATEMENT_FIND_REPLICATED_ORDER] = {"sou", ANYONE, {SHOWN "|unpaid", NONE, SHOWN "|cancelled", "~|unpaid"}},
    [SK_STATEMENT_FIND_ANY_ORDER] = {"so", ANYONE, {SHOWN "|unpaid", NONE}},
    [SK_STATEMENT_VOUCHER_ACCOUNTS] = {"..", ANYONE, {"0|1|7|7|0|5|1|1|open|0|99|0|1|open"}},
    [SK_STATEMENT_RETIRED_EPOCH] = {"so", ANYONE, {"0|f", "7|f", "7|t"}},
    [SK_STATEMENT_ORDERS_MOVED] = {".", SERVICE, {"10:20:|~", "10:20:|~\n~|" ORDER "0\n~|" ORDER "1"}},
    [SK_STATEMENT_ORDERS_CHANGED] = {".f.g", SERVICE, {NONE, "1|" SHOWN, "1|~"}},
    [SK_STATEMENT_FIND_FOR_MOVE] = {"sout", ANYONE,
        {"7|cancelled|f|" SHOWN, NONE, "7|expired|f|" SHOWN, "7|unpaid|t|" SHOWN, "5|unpaid|t|" SHOWN,
         "7|paid|f|" SHOWN, "7|unpaid|t|~", "41|unpaid|t|" SHOWN, "8|unpaid|t|" SHOWN}},
    [SK_STATEMENT_PAY_ORDER] = {"sornyt", OPERATOR,
        {"paid|" SHOWN "|~|~", "unknown|~|~|~", "already|" SHOWN "|~|~", "to_refund|" SHOWN "|~|~", "already_paid|~|~|~",
         "wrong_amount|~|990|CNY", "reference_used|~|~|~"}},
    [SK_STATEMENT_EXTEND_ORDER] = {"sorQt", OPERATOR,
                                   {"extended|unpaid|" SHOWN, "already_extended|unpaid|~", "kept|paid|~", "unknown|~|~"}},
    [SK_STATEMENT_HOLD_EXPIRY] = {"Qnt", OPERATOR, {SHOWN, NONE}},
    [SK_STATEMENT_NOTE_REFUNDS] = {"sotWR", OPERATOR,
        {"refunded|7|refunded|" SHOWN, "unknown|~|~|~", "state|7|expired|~", "returns|7|paid|~", "returns|5|paid|~",
         "unknown_payment|7|paid|~", "refunded|7|refunded|" SHOWN}},
    [SK_STATEMENT_RETURN_RETIRED] = {"sqottW", OPERATOR, {"returned", "stale"}},
    [SK_STATEMENT_RECALL_VOUCHER] = {"v", OPERATOR, {"recalled", "archived", "~"}},
    [SK_STATEMENT_CREATE_VOUCHER] = {"ktndnnqnytnnXXnqnQJ", OPERATOR,
        {"created|7|0|" VOUCHER "|" VOUCHER "|7", "created|8|1|" VOUCHER "|" VOUCHER "|7", "reused",
         "created|1|0|" VOUCHER "|" VOUCHER "|7", "created|99|0|" VOUCHER "|" VOUCHER "|7"}},
    [SK_STATEMENT_CHANGE_VOUCHER] = {"vnktTNYNNQNNNXXNQNJ", OPERATOR, OPERATED},
    [SK_STATEMENT_SET_VOUCHER_STATE] = {"vnkta", OPERATOR, OPERATED},
    [SK_STATEMENT_ADD_UNITS] = {"vnkte", OPERATOR, OPERATED},
    [SK_STATEMENT_MAY_REMOVE_UNITS] = {"vnke", OPERATOR,
        {"below|~|7|open|4", "ready|~|7|open|9", "state|~|7|closed|0"}},
    [SK_STATEMENT_REMOVE_UNITS] = {"svnnkte", OPERATOR,
        {"stale|~|7|open|0", "done|" VOUCHER "|7|open|0", "below|~|7|open|1", "known|" VOUCHER "|7|open|0"}},
    [SK_STATEMENT_FIND_DEAD_LETTER] = {"svl", OPERATOR,
        {NONE, ORDER_ID " alice," ORDER "b bob 2|t|1", "~|f|1", "~|t|1", "odd|t|1"}},
    [SK_STATEMENT_WRITE_OFF] = {"svl", OPERATOR, {NONE, ORDER_ID "|alice|1", ORDER_ID "|alice|1\n" ORDER "b|bob|2"}},
};
// clang-format on

// A number, or a text of so many bytes, between these bounds.
static const struct letter {
    bool number;
    int64_t least, most;
} letters[] = {
    ['v'] = {true, 1, INT64_MAX},        // a voucher, whose number is the question's
    ['l'] = {true, 1, INT64_MAX},        // a dead letter
    ['d'] = {true, 0, INT64_MAX},        // of a voucher that has no number yet: the question's
    ['n'] = {true, 0, INT64_MAX},        // any number
    ['q'] = {true, 1, INT64_MAX},        // any but 0
    ['e'] = {true, 1, 100000000},        // units
    ['s'] = {true, 0, SK_SLOTS - 1},     // a slot
    ['m'] = {true, 2, SK_PAGE_MOST + 1}, // rows: one more than the page has
    ['p'] = {true, 1, SK_PAGE_MOST},     // rows
    ['c'] = {false, 1, 20},              // where the page begins
    ['i'] = {false, 36, 36},             // the same: an order
    ['o'] = {false, 36, 36},             // an order, whose last digit is the question's number
    ['u'] = {false, 1, SK_USER_MAX},     // a user
    ['t'] = {false, 1, INT64_MAX},       // any text
    ['k'] = {false, 1, 255},             // an Idempotency-Key
    ['y'] = {false, 3, 3},               // a currency
    ['r'] = {false, 1, 64},              // a payment's reference
    ['w'] = {false, 0, 200},             // why
    ['x'] = {false, 0, 1024},            // what is shown of a voucher
    ['j'] = {false, 15, 40},             // a voucher's line
    ['a'] = {false, 1, 7},               // a voucher's state
    ['b'] = {false, 1, 9},               // an order's status
    ['f'] = {false, 38, INT64_MAX},      // orders that clients wait for
    ['g'] = {false, 4, INT64_MAX},       // the status that each had
    ['.'] = {false, 0, INT64_MAX},       // what the service has made up by itself
};

struct checked {
    int64_t number; // of the question
    unsigned most;  // rows that it wants
};

static int64_t number_of(const char *text)
{
    char *end;
    long long number = strtoll(text, &end, 10);
    MUST(end != text && *end == '\0');
    return number;
}

static void must_be_among(const char *words, const char *word)
{
    char between[SK_UUID_SIZE + 2];
    (void)snprintf(between, sizeof between, " %s ", word);
    MUST(strstr(words, between) != NULL);
}

// A list of orders, or of words.
static void must_be_waited_for(char letter, const char *text, struct checked *checked)
{
    MUST(was_sent("wait") && text[0] == '{');
    for (const char *at = text + 1; *at != '}'; at += *at == ',') {
        char word[SK_UUID_SIZE];
        size_t quote = *at == '"', len = strcspn(at + quote, "\",}");
        MUST(len < sizeof word);
        (void)snprintf(word, sizeof word, "%.*s", (int)len, at + quote);
        if (letter == 'f')
            checked->number = must_be_an_order(word) + counter++;
        else if (len > 0)
            must_be_among(" pending waiting unpaid ", word);
        at += len + 2 * quote;
    }
}

static void check_param(char letter, const char *text, struct checked *checked)
{
    const struct letter *bounds = &letters[(unsigned char)letter];
    int64_t value = bounds->number ? number_of(text) : (int64_t)strlen(text);
    MUST(value >= bounds->least && value <= bounds->most);
    if (letter == 'v' || letter == 'l')
        must_be_a_voucher(value);
    if (letter == 'v' || letter == 'd')
        checked->number = value;
    if (letter == 'm' || letter == 'p')
        checked->most = (unsigned)value;
    if (letter == 'c' || letter == 'i')
        MUST(strcmp(text, "0") == 0 || was_sent("cursor") || was_sent("after") || was_sent("%"));
    if (letter == 'o')
        checked->number = must_be_an_order(text);
    if (letter == 'u')
        must_be_a_user(text);
    if (letter == 'u' && checked->number < 0)
        checked->number = (unsigned char)text[0];
    for (size_t i = 0; letter == 'k' && text[i] != '\0'; i++)
        MUST(text[i] > ' ' && text[i] <= '~');
    if (letter == 'j')
        MUST(was_sent("waitlist") && strncmp(text, "{\"waitlist\": ", 13) == 0);
    if (letter == 'a')
        must_be_among(" open paused closed retired listed ", text);
    if (letter == 'b')
        must_be_among(" waiting unpaid paid cancelled expired refused refunded ", text);
    if (letter == 'f' || letter == 'g')
        must_be_waited_for(letter, text, checked);
}

static struct checked check_question(enum sk_pg_class class, enum sk_statement statement, int n,
                                     const char *const *params)
{
    const struct question *question = &questions[statement];
    struct checked checked = {.number = -1};
    MUST((size_t)statement < sizeof questions / sizeof questions[0] && question->params != NULL);
    MUST(strlen(question->params) == (size_t)n);
    for (int i = 0; i < n; i++) {
        char letter = (char)tolower(question->params[i]);
        if (params[i] != NULL)
            check_param(letter, params[i], &checked);
        else
            MUST(letter != question->params[i] || letter == '.');
    }
    if (class == SK_PG_COMMANDS && question->asker != SERVICE)
        must_be_an_admin(question->asker == OPERATOR);
    if (statement == SK_STATEMENT_PAY_ORDER && class != SK_PG_COMMANDS) // the demo
        MUST(strncmp(params[2], "demo-", 5) == 0 && strcmp(params[2] + 5, params[1]) == 0);
    if (statement == SK_STATEMENT_CREATE_VOUCHER)
        MUST(number_of(params[4]) < number_of(params[5]));
    if (statement == SK_STATEMENT_SET_VOUCHER_STATE)
        MUST(strcmp(params[4], "retired") != 0);
    if (units_back > 0 && (statement == SK_STATEMENT_FIND_FOR_MOVE || statement == SK_STATEMENT_NOTE_REFUNDS))
        checked.number = 0;
    if (checked.number < 0)
        checked.number = counter++;
    return checked;
}

// Returns what follows the row.
static const char *add_row(PGresult *rows, const char *text)
{
    int row = PQntuples(rows);
    for (int column = 0;; column++) {
        size_t len = strcspn(text, "|\n");
        bool null = len == 1 && *text == '~';
        MUST(PQsetvalue(rows, row, column, null ? NULL : (char *)text, null ? -1 : (int)len) != 0);
        text += len;
        if (*text != '|')
            return *text == '\n' ? text + 1 : text;
        text++;
    }
}

static void answer_question(const struct asked *one)
{
    PGresAttDesc columns[COLUMNS_MAX] = {0};
    PGresult *rows = PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK);
    struct sk_result result = {.kind = one->kind};
    MUST(rows != NULL && PQsetResultAttrs(rows, COLUMNS_MAX, columns) != 0);
    if (one->text != NULL) {
        bool often = *one->text == '*';
        for (unsigned i = 0; often && i < one->most; i++)
            (void)add_row(rows, one->text + 1);
        for (const char *at = one->text; !often && *at != '\0';)
            at = add_row(rows, at);
        result = (struct sk_result){SK_RESULT_ROWS, (const struct sk_rows *)(const void *)rows};
    }
    one->done.pg(one->arg, &result);
    PQclear(rows);
}

enum sk_status sk_pg_call_as(struct sk_pg *pg, enum sk_pg_class class, enum sk_statement statement, int n,
                             const char *const *params, sk_pg_cb *done, void *arg)
{
    static const enum sk_result_kind failures[] = {SK_RESULT_LOST, SK_RESULT_LOCKED, SK_RESULT_REFUSED};
    struct checked checked = check_question(class, statement, n, params);
    unsigned kind = (unsigned)(checked.number % KINDS);
    MUST(pg == (statement == SK_STATEMENT_SETTLEMENT ? shop.sale.shards[0].reports : shop.sale.shards[0].queries));
    if (kind == KINDS - 1)
        return checked.number / KINDS % 2 == 0 ? SK_DOWN : SK_FULL;
    struct asked *one = ask(answer_question, arg);
    one->done.pg = done;
    one->most = checked.most;
    if (kind < FAILURES_FROM)
        one->text = pick(questions[statement].answers, kind);
    else
        one->kind = failures[kind - FAILURES_FROM];
    return SK_OK;
}

enum sk_status sk_pg_call(struct sk_pg *pg, enum sk_statement statement, int n, const char *const *params,
                          sk_pg_cb *done, void *arg)
{
    return sk_pg_call_as(pg, SK_PG_COMMANDS, statement, n, params, done, arg);
}

bool sk_pg_ready(const struct sk_pg *pg)
{
    (void)pg;
    return true;
}

bool sk_pg_lags(const struct sk_pg *pg)
{
    (void)pg;
    return false;
}

// ---- Redis ----

// As Redis writes it. A snapshot of a voucher: its terms are those of the account above.
#define TERMS "\r\n:1\r\n:0\r\n:99\r\n:0\r\n:1\r\n"
#define SNAPSHOT(state, run, journal) \
    "*13\r\n+" state "\r\n:7\r\n+7-0\r\n:5\r\n+" run "\r\n:1\r\n:" journal "\r\n$-1" TERMS
#define SESSION "+018bcfe5-6800-7000-8000-000000000001\r\n:900\r\n"

static const char *const replies[][ANSWERS_MAX] = {
    [SK_SCRIPT_READ_VOUCHER] = {SNAPSHOT("loading", RUN, "0"), SNAPSHOT("open", RUN, "0"), SNAPSHOT("open", RUN, "1"),
                                SNAPSHOT("", RUN, "0"), SNAPSHOT("open", "", "0"), "*0\r\n"},
    [SK_SCRIPT_LIST_INSTANCES] = {"*7\r\n:1793300000123\r\n" SESSION "+1.0 1793300000000 1000 h:1\r\n" SESSION "+?\r\n",
                                  "*1\r\n:-1\r\n"},
    [SK_SCRIPT_TAKE_UNITS] = {"*2\r\n+short\r\n:3\r\n", "*3\r\n+taken\r\n:0\r\n+7\r\n", "*1\r\n+loading\r\n"},
    [SK_SCRIPT_SETTLE_ENTRY] = {":1\r\n"},
};
static const char *const buyers[] = {"$-1\r\n", "+" ORDER "1\r\n", "+" ORDER_ID " 2\r\n", "+odd\r\n", NULL};
static const char *const states[] = {"+open\r\n", "+loading\r\n", "$-1\r\n", NULL};

static const struct sk_voucher *voucher_of(const char *key)
{
    for (size_t i = 0; i < sk_catalogue_count(shop.sale.catalogue); i++) {
        const struct sk_voucher *voucher = sk_catalogue_at(shop.sale.catalogue, i);
        if (strcmp(voucher->keys.voucher, key) == 0 || strcmp(voucher->keys.buyers, key) == 0)
            return voucher;
    }
    MUST(false);
    return NULL;
}

static void answer_redis(const struct asked *one)
{
    redisReader *reader = redisReaderCreate();
    void *reply = NULL;
    MUST(reader != NULL);
    if (one->text != NULL)
        MUST(redisReaderFeed(reader, one->text, strlen(one->text)) == REDIS_OK &&
             redisReaderGetReply(reader, &reply) == REDIS_OK && reply != NULL);
    one->done.redis(one->arg, reply);
    if (reply != NULL)
        freeReplyObject(reply);
    redisReaderFree(reader);
}

static enum sk_status ask_redis(const char *const *texts, int64_t number, sk_redis_cb *done, void *arg)
{
    unsigned kind = (unsigned)(number % KINDS);
    if (kind == KINDS - 1)
        return SK_DOWN;
    struct asked *one = ask(answer_redis, arg);
    one->done.redis = done;
    if (kind < FAILURES_FROM)
        one->text = pick(texts, kind);
    else if (kind > FAILURES_FROM)
        one->text = "-WRONGTYPE it is something else\r\n";
    return SK_OK;
}

struct sk_redis *sk_nodes_orders(const struct sk_nodes *nodes, unsigned slot)
{
    (void)nodes;
    (void)slot;
    return (struct sk_redis *)(void *)&shop.links[0];
}

struct sk_redis *sk_nodes_queries(const struct sk_nodes *nodes, unsigned slot)
{
    (void)nodes;
    (void)slot;
    return (struct sk_redis *)(void *)&shop.links[2];
}

unsigned sk_nodes_number(const struct sk_nodes *nodes, unsigned slot)
{
    (void)nodes;
    (void)slot;
    return 0;
}

bool sk_nodes_is_cluster(const struct sk_nodes *nodes)
{
    (void)nodes;
    return false;
}

struct sk_nodes_state sk_nodes_state(const struct sk_nodes *nodes)
{
    (void)nodes;
    return (struct sk_nodes_state){1, 1, 1};
}

// HGET: the state of a voucher that is created, or a user's order.
enum sk_status sk_redis_command(struct sk_redis *redis, int argc, const char **argv, const size_t *lens,
                                sk_redis_cb *done, void *arg)
{
    const struct sk_voucher *voucher = voucher_of(argv[1]);
    MUST(redis == sk_nodes_queries(shop.sale.nodes, 0) && argc == 3 && lens == NULL && strcmp(argv[0], "HGET") == 0);
    if (strcmp(argv[1], voucher->keys.buyers) == 0) {
        must_be_a_user(argv[2]);
        return ask_redis(buyers, (unsigned char)argv[2][0], done, arg);
    }
    must_be_an_admin(true);
    return ask_redis(states, voucher->id + counter++, done, arg);
}

enum sk_status sk_redis_script(struct sk_redis *redis, enum sk_script script, int keys, int argc, const char **argv,
                               const size_t *lens, sk_redis_cb *done, void *arg)
{
    bool instances = script == SK_SCRIPT_LIST_INSTANCES, snapshot = script == SK_SCRIPT_READ_VOUCHER;
    bool with_order = snapshot && argc == 5;
    int64_t number = instances ? counter++ : voucher_of(argv[0])->id;
    MUST((size_t)script < sizeof replies / sizeof replies[0] && replies[script][0] != NULL);
    bool settles = script == SK_SCRIPT_SETTLE_ENTRY;
    MUST(redis == (settles ? sk_nodes_orders : sk_nodes_queries)(shop.sale.nodes, 0) && keys <= argc && lens == NULL);
    MUST(!snapshot || strcmp(argv[3], RUN) == 0);
    if (with_order && argv[4][0] != '\0')
        must_be_a_user(argv[4]);
    else if (!snapshot || with_order)
        must_be_an_admin(!instances && !with_order);
    if (!instances && !with_order)
        must_be_a_voucher(number);
    return ask_redis(replies[script], number, done, arg);
}

bool sk_redis_ready(const struct sk_redis *redis)
{
    (void)redis;
    return true;
}

const char *sk_redis_run(const struct sk_redis *redis)
{
    (void)redis;
    return RUN;
}

uint64_t sk_redis_run_number(const struct sk_redis *redis)
{
    (void)redis;
    return 1;
}

// ---- purchases ----

// What a purchase of a voucher of this number, modulo their number, brings.
static const struct sk_purchase_result results[] = {
    {.code = SK_PURCHASE_SOLD_OUT},
    {.code = SK_PURCHASE_PLACED, .order_id = ORDER_ID},
    {.code = SK_PURCHASE_ACCEPTED, .order_id = ORDER_ID},
    {.code = SK_PURCHASE_ALREADY_ORDERED, .order_id = ORDER_ID},
    {.code = SK_PURCHASE_NOT_STARTED, .retry_after_ms = 1},
    {.code = SK_PURCHASE_ENDED},
    {.code = SK_PURCHASE_TOO_MANY_ORDERS},
    {.code = SK_PURCHASE_OFFER_CHANGED},
    {.code = SK_PURCHASE_LOADING},
    {.code = SK_PURCHASE_OVERLOADED},
    {.code = SK_PURCHASE_UNAVAILABLE},
};

// The same where several units are asked for or an Idempotency-Key is sent.
static const struct sk_purchase_result unit_results[] = {
    {.code = SK_PURCHASE_NOT_ENOUGH, .left = 2},
    {.code = SK_PURCHASE_ALREADY_ORDERED, .order_id = ORDER_ID, .repeats = true},
    {.code = SK_PURCHASE_INVALID, .left = 3}, // past the limit
    {.code = SK_PURCHASE_PAUSED},
    {.code = SK_PURCHASE_IDEMPOTENCY_KEY_REUSED, .order_id = ORDER_ID},
    {.code = SK_PURCHASE_ACCEPTED, .order_id = ORDER_ID},
};

enum { RESULTS = sizeof results / sizeof results[0], UNIT_RESULTS = sizeof unit_results / sizeof unit_results[0] };

bool sk_admit_refuses(const struct sk_sale *of, struct sk_voucher *voucher, const char *user, bool *joins,
                      struct sk_purchase_result *bought)
{
    (void)of;
    must_be_a_voucher(voucher->id);
    must_be_a_user(user);
    *bought = results[voucher->id % RESULTS];
    if (joins != NULL && bought->code == SK_PURCHASE_SOLD_OUT) {
        *joins = true;
        return false;
    }
    return bought->code == SK_PURCHASE_SOLD_OUT || bought->code == SK_PURCHASE_OVERLOADED;
}

// What was accepted is confirmed the next time.
static void answer_order(const struct asked *one)
{
    struct sk_order *order = one->arg;
    struct sk_purchase_result bought = one->bought;
    sk_sale_report_with(&shop.sale, order, &bought);
    if (bought.code != SK_PURCHASE_ACCEPTED) {
        sk_order_give(shop.sale.orders, order);
        return;
    }
    bought.code = SK_PURCHASE_PLACED;
    ask(answer_order, order)->bought = bought;
}

// As the line's answers: a place, or none.
void sk_line_add(struct sk_line *line, struct sk_voucher *voucher, struct sk_order *order)
{
    (void)line;
    must_be_a_voucher(voucher->id);
    MUST(order->quantity == 1 && voucher->has_line);
    ask(answer_order, order)->bought =
        voucher->id % 2 == 0 ? (struct sk_purchase_result){.code = SK_PURCHASE_WAITING, .order_id = ORDER_ID, .left = 7}
                             : (struct sk_purchase_result){.code = SK_PURCHASE_WAITLIST_FULL};
}

void sk_batcher_add(struct sk_batcher *batcher, struct sk_voucher *voucher, struct sk_order *order)
{
    bool plain = order->quantity == 1 && order->key == 0;
    enum sk_ask_ticket ticket = order->sent.kind;
    (void)batcher;
    must_be_a_voucher(voucher->id);
    must_be_a_user(order->user);
    MUST(order->quantity >= 1 && order->quantity <= SK_QUANTITY_MAX && order->quantity <= voucher->user_limit);
    // No handle can be guessed.
    MUST(!voucher->ticket &&
         (ticket == SK_ASK_NO_TICKET ||
          ((ticket == SK_ASK_BAD_TICKET || ticket == SK_ASK_EXPIRED_TICKET) && order->sent.offer == 0)));
    ask(answer_order, order)->bought =
        plain ? results[voucher->id % RESULTS] : unit_results[voucher->id % UNIT_RESULTS];
}

// ---- the jobs in the background ----

static void answer_job(const struct asked *one)
{
    one->done.job(one->arg, one->ok);
}

static enum sk_status begin_job(int64_t number, void (*done)(void *arg, bool ok), void *arg)
{
    static const enum sk_status begun[] = {SK_OK, SK_OK, SK_FULL, SK_OK, SK_DOWN};
    enum sk_status status = begun[number % 5];
    must_be_an_admin(true);
    if (status != SK_OK || done == NULL)
        return status;
    struct asked *one = ask(answer_job, arg);
    one->done.job = done;
    one->ok = number % 2 == 1;
    return SK_OK;
}

enum sk_status sk_rebuild(struct sk_rebuilds *rebuilds, struct sk_voucher *voucher, enum sk_rebuild_why why,
                          sk_rebuild_cb *done, void *arg)
{
    (void)rebuilds;
    if (why == SK_REBUILD_ORDERED)
        must_be_a_voucher(voucher->id);
    else
        MUST(why == SK_REBUILD_DOUBT); // of one that is created
    return begin_job(voucher->id, done, arg);
}

enum sk_status sk_changes_carry_out(const struct sk_sale *sale, struct sk_voucher *voucher, sk_changes_cb *done,
                                    void *arg)
{
    (void)sale;
    must_be_a_voucher(voucher->id);
    return begin_job(voucher->id, done, arg);
}

static void answer_return(const struct asked *one)
{
    units_back += one->end == SK_RETURN_DONE;
    one->done.returned(one->arg, one->end);
}

enum sk_status sk_return_order(struct sk_returns *returns, struct sk_voucher *voucher, const char *order_id,
                               enum sk_return_move move, const char *by, const char *why, sk_return_cb *done, void *arg)
{
    static const enum sk_return_end ends[] = {SK_RETURN_LOADING, SK_RETURN_UNAVAILABLE, SK_RETURN_NOT_ALLOWED,
                                              SK_RETURN_DONE, SK_RETURN_UNKNOWN_ORDER};
    int64_t digit = must_be_an_order(order_id);
    (void)returns;
    MUST(move != SK_RETURN_EXPIRED && by[0] != '\0' && (why == NULL || strlen(why) <= 200));
    if (move != SK_RETURN_CANCELLED)
        must_be_an_admin(true);
    if (voucher->id % 2 == 0)
        return SK_FULL;
    struct asked *one = ask(answer_return, arg);
    one->done.returned = done;
    one->end = ends[digit % 5];
    return SK_OK;
}

void sk_regrant_requeue(struct sk_regrant *regrant, struct sk_entry *entry, struct sk_order *order)
{
    bool last = order->list->count == 1;
    (void)regrant;
    must_be_an_admin(true);
    must_be_a_voucher(entry->voucher->id);
    sk_order_give(shop.sale.orders, order);
    if (last)
        sk_entry_forget(entry);
}

size_t sk_audit_busy(const struct sk_audit *audit, struct sk_voucher **out, size_t most, bool *complete)
{
    size_t count = 0;
    (void)audit;
    for (; count < 2 && count < most; count++)
        out[count] = sk_catalogue_at(shop.sale.catalogue, count);
    *complete = true;
    return count;
}

// An entry that could not be ended: recovery's, which is not here.
static void leave_orphaned(void *of, struct sk_voucher *voucher)
{
    (void)of;
    must_be_a_voucher(voucher->id);
}

// ---- the catalogue ----

// Of every fifth number there is none: it was retired. Voucher 1 is in the slot of the orders above.
static void put_voucher(int64_t id)
{
    char tag[SK_TAG_SIZE] = "06S";
    if (id != 1)
        (void)snprintf(tag, sizeof tag, "%lld", (long long)id);
    struct sk_catalogue_row row = {.change = id,
                                   .voucher_id = id,
                                   .state = id % 4 == 3 ? SK_VOUCHER_CLOSED : SK_VOUCHER_OPEN,
                                   .tag = tag,
                                   .user_limit = id % 6 == 2 ? 3 : SK_QUANTITY_MAX,
                                   .ticket = id % 16 == 13,
                                   .has_line = id % 3 == 0,
                                   .work_bits = id % 2 == 0 ? 8 : 0,
                                   .offer = 1,
                                   .price = {100, "CNY"}};
    if (id % 5 != 0)
        MUST(sk_catalogue_put(shop.sale.catalogue, &row) == SK_OK);
}

bool sk_catalogue_sync_complete(const struct sk_catalogue_sync *sync)
{
    (void)sync;
    return true;
}

int64_t sk_catalogue_sync_newest_id(const struct sk_catalogue_sync *sync)
{
    (void)sync;
    return newest_voucher;
}

void sk_catalogue_sync_hurry(struct sk_catalogue_sync *sync)
{
    (void)sync;
}

// There is a newer voucher, unless PostgreSQL is away.
static void answer_follow(const struct asked *one)
{
    struct sk_catalogue_sync_waiter *waiter = one->arg;
    if (one->ok) {
        newest_voucher = NEWEST + 1;
        put_voucher(newest_voucher);
    }
    waiter->done(waiter, one->ok);
}

void sk_catalogue_sync_wait(struct sk_catalogue_sync *sync, struct sk_catalogue_sync_waiter *waiter)
{
    (void)sync;
    ask(answer_follow, waiter)->ok = counter++ % 4 != 3;
}

// ---- the control plane ----

static bool is_ready(void *arg)
{
    (void)arg;
    return true;
}

static bool is_away(void *arg, size_t shard)
{
    (void)arg;
    MUST(shard == 0);
    return counter++ % 2 == 0;
}

static bool send_event(void *arg, uint64_t handle, const char *text, size_t len)
{
    MUST(sk_server_find_stream(server, handle) != NULL);
    return sk_routes_send(arg, handle, text, len);
}

static void open_control(void)
{
    const struct sk_live_wire wire = {send_event, sk_routes_end_stream, routes};
    shop.shard = (struct sk_shard){.orders = (struct sk_pg *)(void *)&shop.links[1],
                                   .queries = (struct sk_pg *)(void *)&shop.links[3],
                                   .reports = (struct sk_pg *)(void *)&shop.links[4]};
    shop.sale = (struct sk_sale){.loop = &shop.loop,
                                 .shards = &shop.shard,
                                 .shard_count = 1,
                                 .options = &config.sale,
                                 .metrics = &shop.metrics,
                                 .catalogue = sk_catalogue_new(1),
                                 .orders = sk_order_pool_new(ORDERS_MAX, 1),
                                 .on_result = sk_routes_result,
                                 .arg = routes,
                                 .orphaned = leave_orphaned};
    shop.control = (struct sk_control){.sale = &shop.sale,
                                       .recovery = &shop.recovery,
                                       .stores = &config.stores,
                                       .reactors = 1,
                                       .ready = is_ready,
                                       .shard_away = is_away,
                                       .on_answer = sk_routes_answer,
                                       .routes = routes,
                                       .queries = sk_queries_open(),
                                       .shown = sk_voucher_cache_open(),
                                       .searches = sk_searches_open(),
                                       .settlements = sk_settlements_open()};
    MUST(shop.control.searches != NULL && shop.control.settlements != NULL);
    MUST(shop.sale.catalogue != NULL && shop.sale.orders != NULL && shop.control.queries != NULL &&
         shop.control.shown != NULL);
    shop.control.waiting = sk_waiting_open(&shop.control);
    shop.control.live = sk_live_open(&shop.control, &wire);
    shop.control.feed = sk_feed_open(&shop.control);
    MUST(shop.control.waiting != NULL && shop.control.live != NULL && shop.control.feed != NULL);
    newest_voucher = NEWEST;
    for (int64_t id = 1; id < CATALOGUE_END; id++)
        put_voucher(id);
}

// All was answered: nothing waits, and nothing is kept.
static void close_control(void)
{
    MUST(timer_count == TIMERS && sk_waiting_count(shop.control.waiting) == 0 && sk_live_count(shop.control.live) == 0);
    MUST(shop.control.shown->pages == 0);
    for (size_t i = 0; i < sk_catalogue_count(shop.sale.catalogue); i++)
        MUST(sk_catalogue_at(shop.sale.catalogue, i)->pins == 0);
    MUST(sk_order_pool_out(shop.sale.orders) == 0);
    shop.control.on_answer = NULL; // no query is left that could need it
    shop.sale.on_result = NULL;
    sk_live_close(shop.control.live);
    sk_waiting_close(shop.control.waiting);
    sk_feed_close(shop.control.feed);
    sk_queries_close(shop.control.queries);
    sk_voucher_cache_close(shop.control.shown);
    sk_searches_close(shop.control.searches);
    sk_settlements_close(shop.control.settlements);
    sk_order_pool_free(shop.sale.orders);
    sk_catalogue_free(shop.sale.catalogue);
}

// ---- the loop ----

static void turn(void)
{
    (void)uv_run(&shop.loop, UV_RUN_NOWAIT);
    run_timers();
    (void)sk_server_turn(server);
}

static void let_pass(uint64_t ms)
{
    now_ms += ms;
    turn();
}

// Whatever the query is, what comes of it fits into a log or a header.
static void must_be_a_good_query(const struct sk_request *request)
{
    struct sk_buf query = {0};
    unsigned count;
    const char *value = sk_request_query(request, "cursor", &count);
    MUST((value != NULL) == (count > 0) && (value == NULL || !request->query_bad));
    for (; value != NULL && *value != '\0'; value++)
        MUST((unsigned char)*value >= ' ' && *value != 0x7f);
    sk_request_put_query(request, "cursor", &query);
    for (size_t i = 0; i < query.len; i++)
        MUST(query.data[i] > ' ' && query.data[i] <= '~' && strchr("\"<>", query.data[i]) == NULL);
    sk_buf_free(&query);
}

static void handle(void *arg, struct sk_request *request)
{
    bool before = later;
    handled++;
    later = false;
    must_be_a_good_query(request);
    if (strncmp(request->path, "/park", 5) == 0) {
        parked[parked_count++ % PARKED_MAX] = request->handle;
        sk_request_park(request, MINUTE_MS);
    } else {
        sk_routes_handle(arg, request);
    }
    later = before;
}

static void expired(void *arg, struct sk_request *request)
{
    MUST(sk_server_find(server, request->handle) == request);
    sk_routes_expired(arg, request);
}

static void gone(void *arg, struct sk_request *request)
{
    MUST(sk_server_find(server, request->handle) == request ||
         sk_server_find_stream(server, request->handle) == request);
    sk_routes_gone(arg, request);
}

// ---- the clients ----

static void come(struct client *client)
{
    client->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    MUST(client->fd >= 0 && connect(client->fd, (struct sockaddr *)&here, here_len) == 0);
    client->ended = false;
    client->from = client->sent.len;
    sk_buf_clear(&client->got);
}

static void take(struct client *client)
{
    static char buffer[READ_SIZE];
    ssize_t n;
    while ((n = recv(client->fd, buffer, sizeof buffer, 0)) > 0)
        sk_buf_add(&client->got, buffer, (size_t)n);
    client->ended = client->ended || n == 0;
}

static void say(struct client *client, const char *data, size_t n)
{
    sk_buf_add(&client->sent, data, n);
    for (size_t done = 0; done < n;) {
        ssize_t sent = send(client->fd, data + done, n - done, MSG_NOSIGNAL);
        if (sent < 0) // closed, or the server does not read any more: so it has made up its mind
            return;
        done += (size_t)sent;
        turn();
    }
}

// Says that no more will come, and must then see the connection end: whatever waits is answered, and the
// deadlines come.
static void see_it_end(struct client *client)
{
    (void)shutdown(client->fd, SHUT_WR);
    for (int turns = 0; !client->ended; turns++) {
        MUST(turns < TURNS_MAX);
        answer_all();
        let_pass(turns < PATIENCE_TURNS ? MOMENT_MS : MINUTE_MS);
        take(client);
    }
    (void)close(client->fd);
}

// ---- the answers ----

static bool starts_answer(const char *text)
{
    return strncmp(text, "HTTP/1.", 7) == 0;
}

// The value of a field of the head, NULL: not there. Only as good as it needs to be for a head of our own.
static const char *field(const char *head, const char *end, const char *name)
{
    size_t len = strlen(name);
    for (const char *line = strstr(head, "\r\n"); line != NULL && line < end; line = strstr(line + 2, "\r\n")) {
        if (strncasecmp(line + 2, name, len) == 0 && line[2 + len] == ':')
            return line + 2 + len + 2;
    }
    return NULL;
}

static void must_be_json(const char *body, size_t len, bool problem, long status)
{
    json_t *json = json_loadb(body, len, JSON_REJECT_DUPLICATES, NULL);
    MUST(json_is_object(json));
    if (problem) {
        MUST(json_integer_value(json_object_get(json, "status")) == status);
        MUST(json_is_string(json_object_get(json, "code")));
    }
    json_decref(json);
}

// Reads one answer and returns what follows it.
static const char *read_answer(const char *at, bool *final)
{
    const char *end = strstr(at, "\r\n\r\n");
    MUST(starts_answer(at) && end != NULL);
    long status = strtol(at + 9, NULL, 10);
    *final = status >= 200;
    if (status == 100)
        return end + 4;
    MUST(status >= 200 && status < 600 && (status < 300 || status >= 400));
    const char *length = field(at, end, "Content-Length"), *type = field(at, end, "Content-Type");
    const char *body = end + 4;
    if (field(at, end, "Access-Control-Allow-Origin") != NULL)
        MUST(strncmp(field(at, end, "Access-Control-Allow-Origin"), ORIGIN "\r", sizeof ORIGIN) == 0 &&
             was_sent(ORIGIN));
    if (status == 204) {
        MUST(field(at, end, "Access-Control-Allow-Origin") != NULL && was_sent("OPTIONS"));
        return body;
    }
    size_t len = length == NULL ? 0 : strtoul(length, NULL, 10);
    if (type != NULL && strncmp(type, "text/event-stream\r", 18) == 0) { // to the end of the connection
        MUST(status == 200 && length == NULL);
        MUST(*body == '\0' || strncmp(body, "retry: ", 7) == 0);
        return body + strlen(body);
    }
    bool problem = type != NULL && strncmp(type, "application/problem+json\r", 25) == 0;
    MUST(length != NULL);
    if (problem)
        MUST(status >= 400);
    if (problem && status == 405)
        MUST(field(at, end, "Allow") != NULL);
    if (problem && status == 503)
        MUST(field(at, end, "Retry-After") != NULL || strstr(body, "TICKETS_OFF") != NULL);
    if (status == 201 || status == 202)
        MUST(was_sent("admin") || field(at, end, "Location") != NULL);
    // No body: of HEAD, or because libmicrohttpd 0.9.75 says the head of some errors of its own twice.
    if (len > 0 && (*body == '\0' || starts_answer(body))) {
        MUST(was_sent("HEAD") || type == NULL);
        return body;
    }
    MUST(strnlen(body, len) == len);
    if (type != NULL && strncmp(type, "application/", 12) == 0)
        must_be_json(body, len, problem, status);
    return body + len;
}

static size_t read_answers(const struct client *client)
{
    size_t count = 0;
    bool final;
    MUST(!client->got.failed);
    MUST(client->got.len == 0 || strlen(client->got.data) == client->got.len);
    for (const char *at = client->got.data; at != NULL && *at != '\0';) {
        at = read_answer(at, &final);
        count += final;
    }
    return count;
}

// Whether the library may have run out of the connection's memory, and so of room for an answer.
static bool filled_up(const struct client *client)
{
    size_t used = client->sent.len - client->from;
    for (size_t i = client->from; i < client->sent.len; i++)
        used += client->sent.data[i] == '\n' ? PER_HEADER : 0;
    return used > (size_t)config.server.header_max_bytes / 2;
}

// The server is as it was before: no request waits, and it answers.
static void must_be_well(void)
{
    static const char request[] = "GET /healthz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    MUST(sk_server_waiting(server) == 0);
    sk_buf_clear(&probe.sent);
    come(&probe);
    say(&probe, request, sizeof request - 1);
    see_it_end(&probe);
    MUST(probe.got.len > 12 && strncmp(probe.got.data, "HTTP/1.1 200", 12) == 0);
}

// ---- the target ----

// NOLINTNEXTLINE(readability-non-const-parameter)
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    char name[] = "seckill", *words[] = {name, NULL};
    enum sk_command command;
    (void)argc;
    (void)argv;
    (void)signal(SIGPIPE, SIG_IGN);
    sk_log_set_level((enum sk_log_level)(SK_LOG_ERROR + 1));
    MUST(setenv("SECKILL_DATABASE_URL", "none", 1) == 0 && setenv("SECKILL_ADMIN_TOKEN", ADMIN_TOKEN, 1) == 0);
    MUST(setenv("SECKILL_ADMIN_TOKENS", "reader read " READER_TOKEN, 1) == 0);
    MUST(setenv("SECKILL_TICKET_SECRET", "the-secret-of-tickets", 1) == 0);
    MUST(setenv("SECKILL_CORS_ORIGINS", ORIGIN, 1) == 0);
    MUST(sk_config_read(&config, &command, 1, words, stderr) == SK_OK);
    config.api.pages = 0; // they are not texts, nor JSON
    config.api.demo = 1;
    config.server.max_connections = 4;
    config.server.long_share = 100;
    config.server.body_max_bytes = 300;
    config.server.header_max_bytes = 4096;
    MUST(uv_loop_init(&shop.loop) == 0);
    routes = sk_routes_open(&(struct sk_routes_options){.api = &config.api,
                                                        .identity = &config.identity,
                                                        .stores = &config.stores,
                                                        .server = &config.server,
                                                        .render_metrics = sk_metrics_page});
    MUST(routes != NULL);
    struct sk_handler handler = {handle, expired, sk_routes_malformed, sk_routes_streams, gone,
                                 routes, NULL,    sk_routes_released};
    server = sk_server_open(&shop.loop, &config.server, &handler);
    MUST(server != NULL);
    sk_routes_connect(routes, server, &shop.control);
    return 0;
}

// What clients left behind that hung up comes to its end.
static void see_all_end(void)
{
    for (int turns = 0; asked_count > 0 || timer_count > TIMERS; turns++) {
        MUST(turns < TURNS_MAX);
        answer_all();
        let_pass(MINUTE_MS);
    }
    let_pass(MINUTE_MS);
}

static void hang_up(struct client *client)
{
    (void)close(client->fd);
    turn();
    come(client);
    hung_up++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char marks[] = "\x1b\x1c\x1d\x1e\x1f";
    size_t current = 0, answers = 0;
    handled = hung_up = parked_count = 0;
    waited = false;
    counter = units_back = 0;
    open_control();
    for (int i = 0; i < CLIENTS; i++) {
        sk_buf_clear(&clients[i].sent);
        come(&clients[i]);
    }
    for (size_t at = 0, n; at < size; at += n + 1) {
        for (n = 0; at + n < size && (data[at + n] == '\0' || strchr(marks, data[at + n]) == NULL);)
            n++;
        say(&clients[current], (const char *)data + at, n);
        switch (at + n < size ? data[at + n] : 0) {
        case '\x1b':
            current = (current + 1) % CLIENTS;
            break;
        case '\x1c':
            turn();
            break;
        case '\x1d':
            answer_all();
            let_pass(MOMENT_MS);
            break;
        case '\x1e':
            let_pass(MINUTE_MS);
            break;
        case '\x1f':
            hang_up(&clients[current]);
            break;
        default:
            break;
        }
    }
    for (int i = 0; i < CLIENTS; i++) {
        see_it_end(&clients[i]);
        answers += read_answers(&clients[i]);
    }
    // The library answers what is too broken for us. A client that says no more while it is parked is gone.
    MUST(hung_up > 0 || parked_count > 0 || waited || answers >= handled || filled_up(&clients[0]) ||
         filled_up(&clients[1]));
    see_all_end();
    must_be_well();
    close_control();
    return 0;
}
