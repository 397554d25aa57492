// A client that says anything at all, to the real server and the real routes on a loop, over sockets. Behind them
// stands a sale of our own that answers by the voucher's id, at once or later, so that every kind of answer is
// given. The server must survive, answer or close, answer in a form that a client can read, and never let a request
// through to the sale that it should have refused.
//
// Paths that begin with /park are parked beside the routes, which park nothing.
//
// An input is what the client sends. These bytes are not sent but do something in between:
//   \x1b  the other one of two clients goes on
//   \x1c  the loop turns before the rest is sent
//   \x1d  the sale answers what it was asked
//   \x1e  a minute passes: every deadline has come
//   \x1f  the client hangs up, and comes back on a new connection
#include <ctype.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "admin_lists.h"
#include "buf.h"
#include "commands.h"
#include "config.h"
#include "create.h"
#include "fuzz.h"
#include "instances.h"
#include "letters.h"
#include "listener.h"
#include "live.h"
#include "log.h"
#include "metrics_page.h"
#include "moves.h"
#include "offer.h"
#include "operate.h"
#include "order_lookup.h"
#include "purchase.h"
#include "routes.h"
#include "text.h"
#include "user_orders.h"
#include "voucher_list.h"
#include "voucher_queries.h"
#include "waiting.h"

enum { PARKED_MAX = 64, CLIENTS = 2, ASKED_MAX = 64, TURNS_MAX = 200, PATIENCE_TURNS = 3, BACKLOG = 16 };
enum { READ_SIZE = 65536, MINUTE_MS = 60000, PER_HEADER = 64 };

#define ADMIN_TOKEN  "t0ken-of-16-char"
#define READER_TOKEN "t0ken-that-reads"
#define ORIGIN       "https://shop.example"
#define ORDER_ID     "018bcfe5-6800-7000-8000-00000000000a"

struct client {
    int fd;
    struct sk_buf sent, got;
    bool ended; // the server has closed
};

static uv_loop_t loop;
static struct sk_config config;
static struct sk_routes *routes;
static struct sk_server *server;
static struct sockaddr_un here;
static socklen_t here_len;
static struct client clients[CLIENTS];
static struct client probe;         // asks whether the server is still there
static uint64_t parked[PARKED_MAX]; // the last ones
static size_t handled, hung_up, parked_count, streamed;

// ---- time ----

// Time passes when the input says so, and the server's only timer ticks then. These take libuv's place.
static uint64_t now_ms = MINUTE_MS;
static uv_timer_t *ticker;
static uv_timer_cb tick;

uint64_t uv_now(const uv_loop_t *of)
{
    (void)of;
    return now_ms;
}

int uv_timer_start(uv_timer_t *timer, uv_timer_cb on_tick, uint64_t timeout_ms, uint64_t repeat_ms)
{
    (void)timeout_ms;
    (void)repeat_ms;
    MUST(ticker == NULL);
    ticker = timer;
    tick = on_tick;
    return 0;
}

static void let_a_minute_pass(void)
{
    now_ms += MINUTE_MS;
    tick(ticker);
}

// ---- what the server listens on ----

// In place of a port: no trace of it is left when a connection ends, however many there are.
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

// ---- the sale ----

struct asked {
    uint64_t handle;
    struct sk_outcome outcome;
};

static struct asked asked[ASKED_MAX];
static size_t asked_count;

struct scene {
    bool later;
    struct sk_outcome outcome;
};

// What a voucher of this number, modulo their number, brings.
static const struct scene scenes[] = {
    {false, {.verdict = SK_VERDICT_SOLD_OUT}},
    {true, {.verdict = SK_VERDICT_PLACED, .order_id = ORDER_ID}},
    {true, {.verdict = SK_VERDICT_ACCEPTED, .order_id = ORDER_ID}},
    {true, {.verdict = SK_VERDICT_ALREADY_ORDERED, .order_id = ORDER_ID}},
    {true, {.verdict = SK_VERDICT_NOT_STARTED, .retry_after_ms = 1}},
    {true, {.verdict = SK_VERDICT_ENDED}},
    {true, {.verdict = SK_VERDICT_UNKNOWN_VOUCHER}},
    {false, {.verdict = SK_VERDICT_RATE_LIMITED, .retry_after_ms = 999}},
    {true, {.verdict = SK_VERDICT_LOADING}},
    {false, {.verdict = SK_VERDICT_OVERLOADED}},
    {true, {.verdict = SK_VERDICT_UNAVAILABLE}},
    {true, {.verdict = SK_VERDICT_FOUND, .document = "{}", .status = "unpaid", .version = 1, .next = "a/b+c"}},
    {false, {.verdict = SK_VERDICT_NOT_FOUND}},
    {true, {.verdict = SK_VERDICT_CREATED, .document = "{}"}},
};

// The same where several units are asked for or an Idempotency-Key is sent.
static const struct scene unit_scenes[] = {
    {true, {.verdict = SK_VERDICT_NOT_ENOUGH, .left = 2}},
    {true, {.verdict = SK_VERDICT_ALREADY_ORDERED, .order_id = ORDER_ID, .repeats = true}},
    {false, {.verdict = SK_VERDICT_INVALID, .left = 3}}, // past the limit
    {false, {.verdict = SK_VERDICT_PAUSED}},
    {true, {.verdict = SK_VERDICT_IDEMPOTENCY_KEY_REUSED, .order_id = ORDER_ID}},
    {true, {.verdict = SK_VERDICT_ACCEPTED, .order_id = ORDER_ID}},
};

// The same for a move of an order, by its id's last digit.
static const struct scene move_scenes[] = {
    {true, {.verdict = SK_VERDICT_FOUND, .document = "{}"}},
    {true, {.verdict = SK_VERDICT_PENDING}},
    {true, {.verdict = SK_VERDICT_WRONG_STATE, .status = "expired"}},
    {false, {.verdict = SK_VERDICT_UNAVAILABLE}},
    {true, {.verdict = SK_VERDICT_ALREADY_PAID}},
    {true, {.verdict = SK_VERDICT_WRONG_AMOUNT}},
    {true, {.verdict = SK_VERDICT_NOT_FOUND}},
};

// The same for an operator's call.
static const struct scene operate_scenes[] = {
    {true, {.verdict = SK_VERDICT_FOUND, .document = "{}", .version = 7}},
    {true, {.verdict = SK_VERDICT_BELOW_SOLD, .left = 4}},
    {true, {.verdict = SK_VERDICT_WRONG_STATE, .status = "closed"}},
    {true, {.verdict = SK_VERDICT_VERSION_CHANGED}},
    {false, {.verdict = SK_VERDICT_STARTED}},
    {true, {.verdict = SK_VERDICT_IDEMPOTENCY_KEY_REUSED}},
    {true, {.verdict = SK_VERDICT_LOADING}},
};

#define SCENE_OF(list, number) (&(list)[(uint64_t)(number) % (sizeof(list) / sizeof(list)[0])])

// Which of the first ones a purchase, an inquiry and an admin's call may bring.
enum { SCENES = sizeof scenes / sizeof scenes[0], PLACE_END = 11, INQUIRY_BEGIN = 3, INQUIRY_END = SCENES - 1 };

// Whether one of the clients has sent it.
static bool bytes_were_sent(const char *bytes, size_t n)
{
    for (int i = 0; i < CLIENTS; i++) {
        if (clients[i].sent.len > 0 && memmem(clients[i].sent.data, clients[i].sent.len, bytes, n) != NULL)
            return true;
    }
    return false;
}

static bool was_sent(const char *text)
{
    return bytes_were_sent(text, strlen(text));
}

static void must_be_a_voucher(int64_t id)
{
    char text[24];
    (void)snprintf(text, sizeof text, "/%lld", (long long)id);
    MUST(id > 0);
    MUST(was_sent(text));
}

// A whole value was sent, not the part of one before a NUL. NUL LF leaves the same in the library's memory as CR LF.
static void must_be_a_user(const char *user)
{
    char line[2][SK_USER_SIZE + 2];
    MUST(user != NULL && sk_text_user(user));
    size_t len = strlen(user);
    bool whole = false;
    for (int i = 0; i < 2; i++) {
        memcpy(line[i], user, len);
        memcpy(line[i] + len, i == 0 ? "\r\n" : "\0\n", 2);
        whole = whole || bytes_were_sent(line[i], len + 2);
    }
    MUST(whole);
}

static void keep(uint64_t handle, const struct sk_outcome *outcome)
{
    MUST(asked_count < ASKED_MAX); // each connection has one request at a time
    asked[asked_count++] = (struct asked){handle, *outcome};
}

static void answer_with(const struct scene *scene, uint64_t handle)
{
    if (scene->later)
        keep(handle, &scene->outcome);
    else
        sk_routes_outcome(routes, handle, &scene->outcome);
}

static void inquire(int64_t number, uint64_t handle)
{
    answer_with(&scenes[INQUIRY_BEGIN + number % (INQUIRY_END - INQUIRY_BEGIN)], handle);
}

static bool is_ready(void *arg)
{
    (void)arg;
    return true;
}

static struct sk_control everything = {.ready = is_ready};

static void administer(int64_t number, uint64_t handle)
{
    MUST(was_sent(ADMIN_TOKEN) || was_sent(READER_TOKEN));
    answer_with(&scenes[INQUIRY_BEGIN + number % (SCENES - INQUIRY_BEGIN)], handle);
}

bool sk_purchase(struct sk_control *control, const struct sk_ask *ask, uint64_t handle, struct sk_outcome *outcome)
{
    bool plain = ask->quantity == 1 && ask->key == 0;
    const struct scene *scene = plain ? &scenes[ask->voucher_id % PLACE_END] : SCENE_OF(unit_scenes, ask->voucher_id);
    (void)control;
    must_be_a_voucher(ask->voucher_id);
    must_be_a_user(ask->user);
    MUST(ask->quantity >= 1 && ask->quantity <= SK_QUANTITY_MAX);
    // No handle can be guessed.
    MUST(ask->ticket == SK_ASK_NO_TICKET ||
         ((ask->ticket == SK_ASK_BAD_TICKET || ask->ticket == SK_ASK_EXPIRED_TICKET) && ask->offer == 0));
    if (scene->later)
        keep(handle, &scene->outcome);
    else
        *outcome = scene->outcome;
    return scene->later;
}

void sk_order_lookup(struct sk_control *control, const char *order_id, const char *user, uint64_t handle)
{
    (void)control;
    MUST(sk_uuid_valid(order_id));
    // Of a repeated purchase the order is the one that its key has made.
    MUST(was_sent(order_id) || (strcmp(order_id, ORDER_ID) == 0 && was_sent("POST")));
    if (user[0] == '\0')
        MUST(was_sent(ADMIN_TOKEN) || was_sent(READER_TOKEN));
    else
        must_be_a_user(user);
    inquire(order_id[SK_UUID_CHARS - 1], handle);
}

static void must_be_a_page(const struct sk_page_asked *ask)
{
    MUST(ask->limit >= 1 && ask->limit <= SK_PAGE_MOST);
    MUST(ask->cursor == NULL || was_sent("cursor") || was_sent("after") || was_sent("%"));
}

void sk_user_orders(struct sk_control *control, const char *user, const struct sk_page_asked *ask, uint64_t handle)
{
    (void)control;
    must_be_a_page(ask);
    must_be_a_user(user);
    inquire(user[0], handle);
}

void sk_query_voucher(struct sk_control *control, int64_t id, uint64_t handle)
{
    (void)control;
    must_be_a_voucher(id);
    inquire(id, handle);
}

// Of every other voucher a ticket takes work, and of every third it is known later.
void sk_query_offer(struct sk_control *control, int64_t id, uint64_t handle)
{
    static const struct sk_voucher vouchers[] = {{.id = 1, .work_bits = 8}, {.id = 2}};
    const struct scene found = {id % 3 == 0, {.verdict = SK_VERDICT_FOUND, .voucher = &vouchers[id % 2]}};
    (void)control;
    must_be_a_voucher(id);
    answer_with(&found, handle);
}

void sk_list_vouchers(struct sk_control *control, const struct sk_page_asked *ask, uint64_t handle)
{
    (void)control;
    must_be_a_page(ask);
    inquire((int64_t)(handle >> 32), handle);
}

void sk_list_admin_vouchers(struct sk_control *control, const char *state, const struct sk_page_asked *ask,
                            uint64_t handle)
{
    (void)control;
    must_be_a_page(ask);
    MUST(state == NULL || (state[0] != '\0' && strlen(state) <= strlen("retired")));
    administer((int64_t)(handle >> 32), handle);
}

bool sk_order_status_valid(const char *status)
{
    return strcmp(status, "paid") == 0;
}

void sk_list_all_orders(struct sk_control *control, const struct sk_order_filter *filter,
                        const struct sk_page_asked *ask, uint64_t handle)
{
    (void)control;
    must_be_a_page(ask);
    MUST(filter->voucher_id > 0);
    MUST(filter->status == NULL || strcmp(filter->status, "paid") == 0);
    MUST((filter->from == NULL || *filter->from >= 0) && (filter->to == NULL || *filter->to >= 0));
    administer(filter->voucher_id, handle);
}

void sk_list_order_events(struct sk_control *control, const struct sk_page_asked *ask, unsigned last, uint64_t handle)
{
    MUST(last == 0 || (last <= SK_PAGE_MOST && ask->cursor == NULL));
    sk_list_admin_vouchers(control, NULL, ask, handle);
}

void sk_list_instances(struct sk_control *control, uint64_t handle)
{
    (void)control;
    MUST(was_sent(ADMIN_TOKEN) || was_sent(READER_TOKEN));
    inquire((int64_t)(handle >> 32), handle);
}

void sk_query_inspect(struct sk_control *control, int64_t id, uint64_t handle)
{
    (void)control;
    must_be_a_voucher(id);
    administer(id, handle);
}

void sk_create_voucher(struct sk_control *control, const char *key, const char *by, const struct sk_terms *terms,
                       uint64_t handle)
{
    (void)control;
    MUST(was_sent(ADMIN_TOKEN));
    MUST(key == NULL || (strlen(key) >= 1 && strlen(key) <= 255));
    for (size_t i = 0; key != NULL && key[i] != '\0'; i++)
        MUST(key[i] > ' ' && key[i] <= '~');
    MUST(terms->title[0] != '\0' && terms->stock >= 0 && terms->begin_ms < terms->end_ms);
    MUST(by[0] != '\0' && strlen(terms->currency) == 3 && terms->user_limit >= 1 && terms->pay_within_s >= 0);
    administer(terms->stock, handle);
}

static void operate(const struct sk_operation *operation, uint64_t handle)
{
    must_be_a_voucher(operation->voucher_id);
    MUST(operation->key == NULL || (strlen(operation->key) >= 1 && strlen(operation->key) <= 255));
    MUST(operation->by[0] != '\0' && operation->if_match >= 0);
    MUST(was_sent(ADMIN_TOKEN));
    answer_with(SCENE_OF(operate_scenes, operation->voucher_id), handle);
}

void sk_operate_change(struct sk_control *control, const struct sk_operation *operation, const struct sk_terms *terms,
                       uint64_t handle)
{
    (void)control;
    MUST(terms->title == NULL || terms->title[0] != '\0');
    MUST(terms->price_cents >= -1 && terms->begin_ms >= -1 && terms->end_ms >= -1 && terms->pay_within_s >= -1);
    MUST(terms->user_limit == -1 || terms->user_limit >= 1);
    operate(operation, handle);
}

void sk_operate_state(struct sk_control *control, const struct sk_operation *operation, enum sk_voucher_state state,
                      uint64_t handle)
{
    (void)control;
    MUST(state != SK_VOUCHER_RETIRED);
    operate(operation, handle);
}

void sk_operate_stock(struct sk_control *control, const struct sk_operation *operation, int64_t units, uint64_t handle)
{
    (void)control;
    MUST(units != 0 && units >= -100000000 && units <= 100000000);
    operate(operation, handle);
}

void sk_command_rebuild(struct sk_control *control, int64_t voucher_id, uint64_t handle)
{
    (void)control;
    MUST(was_sent(ADMIN_TOKEN));
    must_be_a_voucher(voucher_id);
    administer(voucher_id, handle);
}

void sk_letters_list(struct sk_control *control, int64_t voucher_id, const struct sk_page_asked *ask, uint64_t handle)
{
    must_be_a_page(ask);
    sk_command_rebuild(control, voucher_id, handle);
}

void sk_list_admin_events(struct sk_control *control, int64_t voucher_id, const struct sk_page_asked *ask,
                          uint64_t handle)
{
    sk_letters_list(control, voucher_id, ask, handle);
}

void sk_letters_requeue(struct sk_control *control, int64_t voucher_id, int64_t letter, uint64_t handle)
{
    must_be_a_voucher(letter);
    sk_command_rebuild(control, voucher_id, handle);
}

void sk_letters_write_off(struct sk_control *control, int64_t voucher_id, int64_t letter, uint64_t handle)
{
    sk_letters_requeue(control, voucher_id, letter, handle);
}

// ---- an order's moves ----

static void move(const char *order_id, uint64_t handle)
{
    MUST(sk_uuid_valid(order_id) && was_sent(order_id));
    answer_with(SCENE_OF(move_scenes, order_id[SK_UUID_CHARS - 1]), handle);
}

void sk_move_cancel(struct sk_control *control, const char *order_id, const char *user, uint64_t handle)
{
    (void)control;
    must_be_a_user(user);
    move(order_id, handle);
}

void sk_move_pay(struct sk_control *control, const char *order_id, const struct sk_payment *payment, const char *by,
                 uint64_t handle)
{
    (void)control;
    (void)by;
    MUST(was_sent(ADMIN_TOKEN));
    MUST(payment->reference[0] != '\0' && strlen(payment->currency) == SK_CURRENCY_CHARS);
    move(order_id, handle);
}

void sk_move_pay_own(struct sk_control *control, const char *order_id, const char *user,
                     const struct sk_payment *payment, uint64_t handle)
{
    (void)control;
    must_be_a_user(user);
    MUST(strncmp(payment->reference, "demo-", 5) == 0 && strcmp(payment->reference + 5, order_id) == 0);
    MUST(strlen(payment->currency) == SK_CURRENCY_CHARS);
    move(order_id, handle);
}

void sk_move_refund(struct sk_control *control, const char *order_id, const struct sk_refund *refund, const char *by,
                    uint64_t handle)
{
    (void)control;
    (void)by;
    MUST(was_sent(ADMIN_TOKEN));
    MUST(refund->why == NULL || strlen(refund->why) <= SK_WHY_MAX);
    MUST(refund->reference == NULL || strlen(refund->reference) <= SK_REFERENCE_MAX);
    move(order_id, handle);
}

// ---- requests that take their time ----

bool sk_waiting_may_change(const char *status)
{
    return strcmp(status, "pending") == 0 || strcmp(status, "unpaid") == 0;
}

bool sk_waiting_add(struct sk_waiting *waiting, const char *order_id, const char *user, const char *status,
                    uint64_t handle)
{
    (void)waiting;
    (void)user;
    MUST(was_sent(order_id));
    MUST(was_sent("wait") && sk_waiting_may_change(status));
    parked[parked_count++ % PARKED_MAX] = handle;
    return true;
}

void sk_waiting_over(struct sk_waiting *waiting, uint64_t handle)
{
    (void)waiting;
    MUST(sk_server_find(server, handle) != NULL);
}

void sk_waiting_leave(struct sk_waiting *waiting, uint64_t handle)
{
    sk_waiting_over(waiting, handle);
}

void sk_live_find(struct sk_control *control, int64_t voucher_id, uint64_t handle)
{
    sk_query_voucher(control, voucher_id, handle);
}

// Every other one ends at once.
bool sk_live_listen(struct sk_live *live, int64_t voucher_id, uint64_t last_id, uint64_t handle)
{
    static const char text[] = ":\n\n";
    (void)live;
    (void)last_id;
    must_be_a_voucher(voucher_id);
    MUST(sk_server_find_stream(server, handle) != NULL);
    MUST(sk_routes_send(routes, handle, text, sizeof text - 1));
    streamed++;
    return streamed % 2 == 0;
}

void sk_live_leave(struct sk_live *live, uint64_t handle)
{
    (void)live;
    MUST(sk_server_find_stream(server, handle) != NULL);
}

static void answer_parked(void)
{
    struct sk_outcome outcome = {.verdict = SK_VERDICT_SOLD_OUT};
    for (size_t i = 0; i < parked_count && i < PARKED_MAX; i++)
        sk_routes_outcome(routes, parked[i], &outcome);
}

// What was accepted is confirmed the next time.
static void answer_all(void)
{
    answer_parked();
    size_t count = asked_count;
    struct asked now[ASKED_MAX];
    memcpy(now, asked, sizeof now);
    asked_count = 0;
    for (size_t i = 0; i < count; i++) {
        sk_routes_outcome(routes, now[i].handle, &now[i].outcome);
        if (now[i].outcome.verdict == SK_VERDICT_ACCEPTED && sk_server_find(server, now[i].handle) != NULL) {
            now[i].outcome.verdict = SK_VERDICT_PLACED;
            keep(now[i].handle, &now[i].outcome);
        }
    }
}

// ---- the loop ----

static void turn(void)
{
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    (void)sk_server_turn(server);
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
    handled++;
    must_be_a_good_query(request);
    if (strncmp(request->path, "/park", 5) == 0) {
        parked[parked_count++ % PARKED_MAX] = request->handle;
        sk_request_park(request, MINUTE_MS);
    } else {
        sk_routes_handle(arg, request);
    }
}

// ---- the clients ----

static void come(struct client *client)
{
    client->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    MUST(client->fd >= 0 && connect(client->fd, (struct sockaddr *)&here, here_len) == 0);
    client->ended = false;
    sk_buf_clear(&client->sent);
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
        turn();
        take(client);
        if (turns >= PATIENCE_TURNS)
            let_a_minute_pass();
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
        MUST(*body == '\0' || *body == ':');
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
    size_t used = client->sent.len;
    for (size_t i = 0; i < client->sent.len; i++)
        used += client->sent.data[i] == '\n' ? PER_HEADER : 0;
    return used > (size_t)config.server.header_max_bytes / 2;
}

// The server is as it was before: no request waits, and it answers.
static void must_be_well(void)
{
    static const char request[] = "GET /healthz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    MUST(sk_server_waiting(server) == 0);
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
    MUST(uv_loop_init(&loop) == 0);
    routes = sk_routes_open(&(struct sk_routes_options){.api = &config.api,
                                                        .identity = &config.identity,
                                                        .stores = &config.stores,
                                                        .server = &config.server,
                                                        .render_metrics = sk_metrics_page});
    MUST(routes != NULL);
    struct sk_handler handler = {
        handle, sk_routes_expired, sk_routes_malformed, sk_routes_streams, sk_routes_gone, routes,
        NULL,   sk_routes_released};
    server = sk_server_open(&loop, &config.server, &handler);
    MUST(server != NULL);
    sk_routes_connect(routes, server, &everything);
    return 0;
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
    handled = hung_up = parked_count = asked_count = 0;
    for (int i = 0; i < CLIENTS; i++)
        come(&clients[i]);
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
            turn();
            break;
        case '\x1e':
            let_a_minute_pass();
            turn();
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
    MUST(hung_up > 0 || parked_count > 0 || answers >= handled || filled_up(&clients[0]) || filled_up(&clients[1]));
    let_a_minute_pass(); // for clients that hung up while they waited
    turn();
    must_be_well();
    return 0;
}
