// A course: the sequence of calls that a procedure makes to the stores, with their replies. For units that never have
// two calls in progress. Included by one source of a program, after fake_stores.h.
#ifndef UNIT_COURSE_H
#define UNIT_COURSE_H

#include "fake_stores.h"
#include "sale.h"

enum { QUESTION_SIZE = 64 * 1024 };

// Replies that a step does not allow.
enum step_flags {
    NO_OTHER_NUMBER = 1, // Redis: any reply other than this one is a failure
    ONE_ROW = 2,         // no row is a failure
    MAY_BE_REFUSED = 4,  // PostgreSQL may reject it, which is no failure
};

struct step {
    const char *question; // in the form of course_question()
    struct sk_reply reply;
    struct sk_rows rows;
    unsigned flags;
};

#define ROWS(n, ...)                            \
    {                                           \
        (n), (const char *const[][ROW_COLUMNS]) \
        {                                       \
            __VA_ARGS__                         \
        }                                       \
    }
// The list ends with a marker instead of a count: counting its elements would expand them twice. Lists are nested, and
// each level would double what compilers and clang-tidy parse.
#define REPLY_ITEMS(...)                                                      \
    {                                                                         \
        .kind = REPLY_LIST, .ended = true, .items = (const struct sk_reply[]) \
        {                                                                     \
            __VA_ARGS__,                                                      \
            {                                                                 \
                .kind = REPLY_END                                             \
            }                                                                 \
        }                                                                     \
    }
#define EMPTY_LIST         \
    {                      \
        .kind = REPLY_LIST \
    }

// The links of the sale: only their addresses matter.
static int road_pg, ask_pg;

static inline void course_links(struct sk_sale *sale)
{
    sale->shards[0].orders = (struct sk_pg *)(void *)&road_pg;
    sale->shards[0].queries = (struct sk_pg *)(void *)&ask_pg;
}

static inline bool course_waits(void)
{
    return fake_redis.count > fake_redis.answered || fake_pg.count > fake_pg.answered;
}

// The one call that waits for its reply.
static inline const struct asked *course_asked(void)
{
    size_t of_redis = fake_redis.count - fake_redis.answered, of_pg = fake_pg.count - fake_pg.answered;
    ck_assert_uint_eq(of_redis + of_pg, 1);
    return of_redis == 1 ? &fake_redis.asked[fake_redis.answered] : &fake_pg.asked[fake_pg.answered];
}

// The call as text: link, script with its number of keys, or statement, and arguments ("null": SQL's NULL).
static inline const char *course_question(void)
{
    static char text[QUESTION_SIZE];
    const struct asked *asked = course_asked();
    size_t len = 0;
    const char *link = asked->link == &fake_queries_link  ? "ask-redis"
                       : asked->link == &ask_pg           ? "ask-pg"
                       : asked->link == &fake_orders_link ? "redis"
                                                          : "pg";
    len += (size_t)snprintf(text, sizeof text, "%s", link);
    if (asked->on_result != NULL)
        len += (size_t)snprintf(text + len, sizeof text - len, " %s", sk_statements[asked->what].name);
    else if (asked->what != PLAIN_COMMAND)
        len += (size_t)snprintf(text + len, sizeof text - len, " %s %d", sk_scripts[asked->what].name, asked->keys);
    for (int i = 0; i < asked->argc; i++) {
        len += (size_t)snprintf(text + len, sizeof text - len, " %s", asked->argv[i] == NULL ? "null" : asked->argv[i]);
        ck_assert_uint_lt(len, sizeof text);
    }
    return text;
}

static inline void course_answer(const struct step *step)
{
    ck_assert_str_eq(course_question(), step->question);
    if (course_asked()->on_result != NULL)
        pg_answers(&step->rows);
    else
        redis_answers(&step->reply);
}

static inline size_t course_steps(const struct step *steps)
{
    size_t n = 0;
    while (steps[n].question != NULL)
        n++;
    return n;
}

// Answers the first `n` steps.
static inline void course_answers(const struct step *steps, size_t n)
{
    for (size_t i = 0; i < n; i++)
        course_answer(&steps[i]);
}

// The same for one call, whatever it is.
#define REDIS_ANSWERS(...) redis_answers(&(const struct sk_reply)__VA_ARGS__)
#define PG_ANSWERS(n, ...) pg_answers(&(const struct sk_rows)ROWS(n, __VA_ARGS__))

// ---- faults at a step ----

enum fault {
    FAULT_LOST,
    FAULT_ERROR, // Redis: an error; PostgreSQL: a temporary failure
    FAULT_LOCKED,
    FAULT_REFUSED,
    FAULT_NO_ROW,
    FAULT_NIL,
    FAULT_OTHER_NUMBER,
    FAULT_COUNT
};

// Answers the waiting call with a fault. False: the fault is impossible at this step, and nothing was answered.
static inline bool course_fail(const struct step *step, enum fault fault)
{
    static const struct sk_rows no_rows = {0, NULL};
    static const struct sk_reply error = ERROR("OOM command not allowed"), nil = NIL, zero = NUMBER(0);
    ck_assert_str_eq(course_question(), step->question);
    if (course_asked()->on_result != NULL) {
        static const enum sk_result_kind kinds[] = {[FAULT_LOST] = SK_RESULT_LOST,
                                                    [FAULT_ERROR] = SK_RESULT_FAILED,
                                                    [FAULT_LOCKED] = SK_RESULT_LOCKED,
                                                    [FAULT_REFUSED] = SK_RESULT_REFUSED};
        if (fault > FAULT_NO_ROW || (fault == FAULT_NO_ROW && !(step->flags & ONE_ROW)) ||
            (fault == FAULT_REFUSED && (step->flags & MAY_BE_REFUSED)))
            return false;
        if (fault == FAULT_NO_ROW)
            pg_answers(&no_rows);
        else
            pg_fails(kinds[fault]);
        return true;
    }
    switch (fault) {
    case FAULT_LOST:
        redis_answers(NULL);
        return true;
    case FAULT_ERROR:
        redis_answers(&error);
        return true;
    case FAULT_NIL:
    case FAULT_OTHER_NUMBER:
        if (!(step->flags & NO_OTHER_NUMBER))
            return false;
        redis_answers(fault == FAULT_NIL ? &nil : &zero);
        return true;
    default:
        return false;
    }
}

// The waiting call gets no reply.
static inline void course_lose(void)
{
    if (course_asked()->on_result != NULL)
        pg_answers(NULL);
    else
        redis_answers(NULL);
}

// ---- calls that a link rejects ----

static size_t calls_left; // the call that makes it 0 is rejected; 0: none is

static inline bool course_call_fails(void)
{
    return calls_left > 0 && --calls_left == 0;
}

#endif
