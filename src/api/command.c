#include "command.h"

#include <string.h>

#include "params.h"
#include "timer.h"

enum { TICK_MS = 50 };

static void command_move(struct sk_command *command, enum sk_command_step step)
{
#define TO(step) (1U << SK_COMMAND_##step)
    static const unsigned allowed[SK_COMMAND_STEPS] = {
        [SK_COMMAND_NEW] = TO(ASKING),
        [SK_COMMAND_ASKING] = TO(WAITING) | TO(JUDGED),
        [SK_COMMAND_WAITING] = TO(ASKING),
        [SK_COMMAND_JUDGED] = TO(ASKING),
    };
#undef TO
    SK_ASSERT((allowed[command->step] & 1U << step) != 0);
    command->step = step;
}

void sk_command_add(struct sk_command *command, const char *text)
{
    int n = command->params.count++;
    SK_ASSERT(n < SK_COMMAND_PARAMS_MAX);
    command->params.at[n] = command->params.texts.len;
    command->params.given[n] = text != NULL;
    if (text != NULL)
        sk_buf_add(&command->params.texts, text, strlen(text) + 1);
}

void sk_command_add_number(struct sk_command *command, int64_t number)
{
    char text[SK_PARAM_NUMBER_SIZE];
    sk_command_add(command, sk_params_number(text, number));
}

void sk_command_again(struct sk_command *command, enum sk_statement statement)
{
    sk_buf_clear(&command->params.texts);
    command->params.count = 0;
    command->statement = statement;
    command->lost = false;
}

static void command_fail(struct sk_command *command, enum sk_verdict verdict)
{
    if (command->kind->failed != NULL)
        command->kind->failed(command);
    sk_query_end(&command->query, verdict, NULL);
}

static void command_on_row(void *arg, const struct sk_result *result)
{
    struct sk_command *command = arg;
    if (result->rows != NULL && sk_rows_count(result->rows) == 1) {
        command_move(command, SK_COMMAND_JUDGED);
        command->kind->judge(command, result->rows);
    } else if (result->kind == SK_RESULT_REFUSED || result->rows != NULL) {
        command_fail(command, SK_VERDICT_INTERNAL); // everything was checked: nothing should be refused
    } else {
        command->lost = command->lost || result->kind != SK_RESULT_LOCKED;
        command_move(command, SK_COMMAND_WAITING); // the tick asks again
    }
}

void sk_command_ask(struct sk_command *command)
{
    struct sk_query *query = &command->query;
    const char *params[SK_COMMAND_PARAMS_MAX];
    int n = command->params.count;
    for (int i = 0; i < n; i++)
        params[i] = command->params.given[i] ? command->params.texts.data + command->params.at[i] : NULL;
    command_move(command, SK_COMMAND_ASKING);
    if (!command->insists)
        sk_query_ask_pg(query, command->statement, n, params, command_on_row);
    else if (command->params.texts.failed ||
             sk_pg_call(query->control->sale->shards[query->shard].queries, command->statement, n, params,
                        command_on_row, command) != SK_OK)
        command_move(command, SK_COMMAND_WAITING);
}

static void command_on_tick(void *arg)
{
    struct sk_command *command = arg;
    const struct sk_sale *sale = command->query.control->sale;
    uint64_t now = uv_now(sale->loop);
    if (command->step == SK_COMMAND_JUDGED)
        command->kind->tick(command, now >= command->answer_until_ms);
    else if (command->step == SK_COMMAND_WAITING && now >= command->ask_until_ms)
        command_fail(command, SK_VERDICT_UNAVAILABLE);
    else if (command->step == SK_COMMAND_WAITING && sk_pg_ready(sale->shards[command->query.shard].queries))
        sk_command_ask(command);
}

static void command_release(struct sk_query *query)
{
    struct sk_command *command = (struct sk_command *)query;
    command->kind->release(command);
    sk_timer_close(command->timer);
    sk_buf_free(&command->params.texts);
}

void sk_command_open(struct sk_command *command, const struct sk_command_kind *kind, enum sk_statement statement)
{
    const struct sk_control *control = command->query.control;
    uint64_t now = uv_now(control->sale->loop), pg_ms = (uint64_t)control->stores->pg_timeout_ms;
    command->kind = kind;
    command->statement = statement;
    command->query.release = command_release;
    command->ask_until_ms = now + pg_ms;
    command->answer_until_ms = now + 2 * pg_ms + (uint64_t)control->stores->redis_timeout_ms;
    command->timer = sk_timer_open(control->sale->loop, TICK_MS, command_on_tick, command);
}

void sk_command_start(struct sk_command *command)
{
    if (command->timer != NULL && !command->params.texts.failed)
        sk_query_start(&command->query);
    else
        sk_query_end(&command->query, SK_VERDICT_OVERLOADED, NULL);
}
