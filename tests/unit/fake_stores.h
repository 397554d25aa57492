// Fakes of the two stores' links, for units that must see every reply of a store, also those that no real one sends.
// They replace nodes.c, redis_link.c and pg_link.c at link time: included by exactly one source of a program.
//
// Each call is kept, with its arguments, until the test answers it.
#ifndef UNIT_FAKE_STORES_H
#define UNIT_FAKE_STORES_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nodes.h"
#include "pg_link.h"

enum { ASKED_MAX = 256, PLAIN_COMMAND = -1 };

// ---- recorded calls ----

struct asked {
    int what; // a script, a statement, or PLAIN_COMMAND
    int keys, argc;
    enum sk_pg_class class; // of a statement
    const void *link;       // the link used
    char **argv;            // owned
    void (*on_reply)(void *arg, const struct sk_reply *reply);
    sk_pg_cb *on_result;
    void *arg;
};

static struct {
    bool down, busy;
    bool cluster, first_down, first_busy;   // Redis: of two nodes
    bool second_down, swapped;              // ... which have exchanged their slots
    bool orders_down;                       // ... only the order link to the first
    uint64_t run_number, second_run_number; // Redis: each identifies the process
    struct asked asked[ASKED_MAX];          // in order of the calls
    size_t count, answered;
} fake_redis, fake_pg;

static const void *fake_lagging; // the link to PostgreSQL that lags; NULL: none does

// If set: decides whether a call fails for lack of memory, as in the real links.
static bool (*fake_no_memory)(void);

static struct asked *keep_asked(struct asked *asked, size_t *count, int what, int argc, const char *const *argv)
{
    ck_assert_uint_lt(*count, ASKED_MAX);
    struct asked *kept = &asked[(*count)++];
    *kept = (struct asked){.what = what, .argc = argc, .argv = calloc((size_t)argc + 1, sizeof(char *))};
    for (int i = 0; i < argc; i++)
        kept->argv[i] = argv[i] == NULL ? NULL : strdup(argv[i]);
    return kept;
}

// Its arguments, with blanks between them; "-": NULL.
static inline const char *arguments_of(const struct asked *asked)
{
    static char text[1024];
    size_t len = 0;
    text[0] = '\0';
    for (int i = 0; i < asked->argc; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, i > 0 ? " %s" : "%s",
                                asked->argv[i] == NULL ? "-" : asked->argv[i]);
    ck_assert_uint_lt(len, sizeof text);
    return text;
}

static void forget_asked(struct asked *asked, size_t *count, size_t *answered)
{
    for (size_t i = 0; i < *count; i++) {
        for (int j = 0; j < asked[i].argc; j++)
            free(asked[i].argv[j]);
        free((void *)asked[i].argv);
    }
    *count = *answered = 0;
}

static void fake_stores_forget(void)
{
    forget_asked(fake_redis.asked, &fake_redis.count, &fake_redis.answered);
    forget_asked(fake_pg.asked, &fake_pg.count, &fake_pg.answered);
    fake_redis.down = fake_redis.busy = fake_pg.down = false;
    fake_redis.cluster = fake_redis.first_down = fake_redis.first_busy = false;
    fake_redis.second_down = fake_redis.swapped = fake_redis.orders_down = false;
    fake_lagging = NULL;
}

// ---- Redis ----

struct sk_reply {
    enum { REPLY_NIL, REPLY_TEXT, REPLY_NUMBER, REPLY_LIST, REPLY_ERROR, REPLY_END } kind;
    const char *text;
    size_t len; // 0: up to the NUL
    int64_t number;
    size_t count;
    const struct sk_reply *items;
    bool ended; // by REPLY_END, instead of a count
};

#define NIL               \
    {                     \
        .kind = REPLY_NIL \
    }
#define TEXT(value)                         \
    {                                       \
        .kind = REPLY_TEXT, .text = (value) \
    }
#define NUMBER(value)                           \
    {                                           \
        .kind = REPLY_NUMBER, .number = (value) \
    }
#define ERROR(value)                         \
    {                                        \
        .kind = REPLY_ERROR, .text = (value) \
    }
#define LIST_OF(array)                                                                         \
    {                                                                                          \
        .kind = REPLY_LIST, .count = sizeof(array) / sizeof(struct sk_reply), .items = (array) \
    }

const char *sk_reply_error(const struct sk_reply *reply)
{
    return reply->kind == REPLY_ERROR ? reply->text : NULL;
}

size_t sk_reply_count(const struct sk_reply *reply)
{
    if (reply == NULL || reply->kind != REPLY_LIST)
        return 0;
    size_t count = reply->ended ? 0 : reply->count;
    while (reply->ended && reply->items[count].kind != REPLY_END)
        count++;
    return count;
}

const struct sk_reply *sk_reply_at(const struct sk_reply *reply, size_t i)
{
    return i < sk_reply_count(reply) ? &reply->items[i] : NULL;
}

const char *sk_reply_text(const struct sk_reply *reply, size_t *len)
{
    if (reply == NULL || reply->kind != REPLY_TEXT)
        return NULL;
    if (len != NULL)
        *len = reply->len == 0 ? strlen(reply->text) : reply->len;
    return reply->text;
}

bool sk_reply_number(const struct sk_reply *reply, int64_t *value)
{
    if (reply == NULL || (reply->kind != REPLY_NUMBER && reply->kind != REPLY_TEXT))
        return false;
    char *end = NULL;
    *value = reply->kind == REPLY_NUMBER ? reply->number : strtoll(reply->text, &end, 10);
    return reply->kind == REPLY_NUMBER || (end != reply->text && *end == '\0');
}

// One Redis that has all slots; or, if `cluster` is set, two nodes: the first has the even slots and with them the
// shared keys, the second the odd ones, until they are swapped. Of links only the addresses matter.
static int fake_orders_link, fake_queries_link, fake_second_orders_link, fake_second_queries_link;

unsigned sk_nodes_number(const struct sk_nodes *nodes, unsigned slot)
{
    (void)nodes;
    return fake_redis.cluster ? 1 + (slot + fake_redis.swapped) % 2 : 1;
}

struct sk_redis *sk_nodes_orders_of(const struct sk_nodes *nodes, unsigned number)
{
    static int *const links[] = {NULL, &fake_orders_link, &fake_second_orders_link};
    (void)nodes;
    return (struct sk_redis *)(void *)links[number];
}

struct sk_redis *sk_nodes_orders(const struct sk_nodes *nodes, unsigned slot)
{
    return sk_nodes_orders_of(nodes, sk_nodes_number(nodes, slot));
}

struct sk_redis *sk_nodes_queries(const struct sk_nodes *nodes, unsigned slot)
{
    bool second = sk_nodes_number(nodes, slot) == 2;
    return (struct sk_redis *)(void *)(second ? &fake_second_queries_link : &fake_queries_link);
}

unsigned sk_nodes_most(const struct sk_nodes *nodes)
{
    (void)nodes;
    return fake_redis.cluster ? 2 : 1;
}

struct sk_nodes_state sk_nodes_state(const struct sk_nodes *nodes)
{
    (void)nodes;
    return (struct sk_nodes_state){1, !fake_redis.down, !fake_redis.down};
}

bool sk_nodes_is_cluster(const struct sk_nodes *nodes)
{
    (void)nodes;
    return fake_redis.cluster;
}

static bool fake_is_second(const struct sk_redis *redis)
{
    const void *link = redis;
    return link == &fake_second_orders_link || link == &fake_second_queries_link;
}

static bool fake_is_down(const struct sk_redis *redis)
{
    const void *link = redis;
    return fake_redis.down || (fake_redis.orders_down && link == &fake_orders_link) ||
           (fake_is_second(redis) ? fake_redis.second_down : fake_redis.first_down);
}

bool sk_redis_ready(const struct sk_redis *redis)
{
    return !fake_is_down(redis);
}

const char *sk_redis_run(const struct sk_redis *redis)
{
    return fake_is_second(redis) ? "run-2" : "run-1";
}

uint64_t sk_redis_run_number(const struct sk_redis *redis)
{
    return fake_is_second(redis) ? fake_redis.second_run_number : fake_redis.run_number;
}

bool sk_redis_busy(const struct sk_redis *redis)
{
    return fake_redis.busy || (fake_redis.first_busy && !fake_is_second(redis));
}

enum sk_status sk_redis_command(struct sk_redis *redis, int argc, const char **argv, const size_t *lens,
                                sk_redis_cb *done, void *arg)
{
    (void)lens;
    if (fake_is_down(redis))
        return SK_DOWN;
    if (fake_no_memory != NULL && fake_no_memory())
        return SK_NO_MEM;
    struct asked *asked = keep_asked(fake_redis.asked, &fake_redis.count, PLAIN_COMMAND, argc, argv);
    asked->link = redis;
    asked->on_reply = done;
    asked->arg = arg;
    return SK_OK;
}

enum sk_status sk_redis_script(struct sk_redis *redis, enum sk_script script, int keys, int argc, const char **argv,
                               const size_t *lens, sk_redis_cb *done, void *arg)
{
    for (int i = 0; lens != NULL && i < argc; i++)
        ck_assert_uint_eq(lens[i], strlen(argv[i]));
    if (fake_is_down(redis))
        return SK_DOWN;
    if (fake_no_memory != NULL && fake_no_memory())
        return SK_NO_MEM;
    struct asked *asked = keep_asked(fake_redis.asked, &fake_redis.count, (int)script, argc, argv);
    asked->keys = keys;
    asked->link = redis;
    asked->on_reply = done;
    asked->arg = arg;
    return SK_OK;
}

// Answers one call, at any time: scripts may be answered out of order.
static inline void redis_answers_at(size_t i, const struct sk_reply *reply)
{
    ck_assert_uint_lt(i, fake_redis.count);
    fake_redis.asked[i].on_reply(fake_redis.asked[i].arg, reply);
    fake_redis.answered++;
}

// Answers the oldest unanswered call; NULL: the link has died.
static inline void redis_answers(const struct sk_reply *reply)
{
    ck_assert_uint_lt(fake_redis.answered, fake_redis.count);
    const struct asked *asked = &fake_redis.asked[fake_redis.answered++];
    asked->on_reply(asked->arg, reply);
}

// Redis answers the oldest call with a list.
#define REDIS_LISTS(...)                                \
    do {                                                \
        const struct sk_reply items_[] = {__VA_ARGS__}; \
        const struct sk_reply reply_ = LIST_OF(items_); \
        redis_answers(&reply_);                         \
    } while (0)

// ---- PostgreSQL ----

enum { ROW_COLUMNS = 36 };

struct sk_rows {
    size_t count;
    const char *const (*rows)[ROW_COLUMNS];
};

size_t sk_rows_count(const struct sk_rows *rows)
{
    return rows->count;
}

const char *sk_rows_text(const struct sk_rows *rows, size_t row, int column)
{
    ck_assert_uint_lt(row, rows->count);
    return rows->rows[row][column];
}

int64_t sk_rows_number(const struct sk_rows *rows, size_t row, int column)
{
    const char *text = sk_rows_text(rows, row, column);
    return text == NULL ? 0 : strtoll(text, NULL, 10);
}

// The rows of a test outlive it.
struct sk_rows *sk_rows_copy(const struct sk_rows *rows)
{
    struct sk_rows *copy = malloc(sizeof *copy);
    if (copy != NULL)
        *copy = *rows;
    return copy;
}

void sk_rows_free(struct sk_rows *copy)
{
    free(copy);
}

bool sk_pg_ready(const struct sk_pg *pg)
{
    (void)pg;
    return !fake_pg.down;
}

bool sk_pg_lags(const struct sk_pg *pg)
{
    return fake_lagging != NULL && fake_lagging == (const void *)pg;
}

enum sk_status sk_pg_call_as(struct sk_pg *pg, enum sk_pg_class class, enum sk_statement statement, int n,
                             const char *const *params, sk_pg_cb *done, void *arg)
{
    if (fake_pg.down)
        return SK_DOWN;
    if (fake_no_memory != NULL && fake_no_memory())
        return SK_NO_MEM;
    struct asked *asked = keep_asked(fake_pg.asked, &fake_pg.count, (int)statement, n, params);
    asked->class = class;
    asked->link = pg;
    asked->on_result = done;
    asked->arg = arg;
    return SK_OK;
}

enum sk_status sk_pg_call(struct sk_pg *pg, enum sk_statement statement, int n, const char *const *params,
                          sk_pg_cb *done, void *arg)
{
    return sk_pg_call_as(pg, SK_PG_COMMANDS, statement, n, params, done, arg);
}

static inline void pg_gives(struct sk_result result)
{
    ck_assert_uint_lt(fake_pg.answered, fake_pg.count);
    const struct asked *asked = &fake_pg.asked[fake_pg.answered++];
    asked->on_result(asked->arg, &result);
}

// As redis_answers.
static inline void pg_answers(const struct sk_rows *rows)
{
    pg_gives((struct sk_result){.kind = rows == NULL ? SK_RESULT_LOST : SK_RESULT_ROWS, .rows = rows});
}

// As pg_answers, with an error.
static inline void pg_fails(enum sk_result_kind kind)
{
    ck_assert_int_ne(kind, SK_RESULT_ROWS);
    pg_gives((struct sk_result){.kind = kind});
}

#endif
