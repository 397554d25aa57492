#include "commands.h"

#include <string.h>

#include "beside.h"
#include "params.h"

enum { COLUMN_DOCUMENT = 3 };

struct rebuild_talk {
    struct sk_talk talk;
    int64_t voucher_id;
};

static void rebuild_start(struct sk_talk *talk);
static void rebuild_on_found(struct sk_talk *talk, enum sk_beside beside);
static void rebuild_on_recalled(void *arg, const struct sk_result *result);
static void rebuild_on_found_again(struct sk_talk *talk, enum sk_beside beside);
static void rebuild_begin(struct rebuild_talk *rebuild);
static void rebuild_on_rebuilt(void *arg, bool ok);
static void rebuild_on_row(void *arg, const struct sk_result *result);

void sk_command_rebuild(struct sk_control *control, int64_t voucher_id, uint64_t handle)
{
    struct rebuild_talk *rebuild = sk_talk_new(control, SK_PG_COMMANDS, handle, NULL, sizeof *rebuild, rebuild_start);
    if (rebuild == NULL)
        return;
    rebuild->voucher_id = voucher_id;
    sk_talk_start(&rebuild->talk);
}

static void rebuild_ask(struct rebuild_talk *rebuild, enum sk_statement statement, sk_pg_cb *done)
{
    char id[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {sk_params_number(id, rebuild->voucher_id)};
    sk_talk_ask_pg(&rebuild->talk, statement, 1, params, done);
}

static void rebuild_start(struct sk_talk *talk)
{
    sk_beside_find(talk, ((struct rebuild_talk *)talk)->voucher_id, rebuild_on_found);
}

static void rebuild_on_found(struct sk_talk *talk, enum sk_beside beside)
{
    struct rebuild_talk *rebuild = (struct rebuild_talk *)talk;
    if (beside == SK_BESIDE_FOUND)
        rebuild_begin(rebuild);
    else if (beside == SK_BESIDE_OLD)
        rebuild_ask(rebuild, SK_STATEMENT_RECALL_VOUCHER, rebuild_on_recalled);
    else
        sk_talk_end(talk, SK_VERDICT_UNKNOWN_VOUCHER, NULL);
}

static void rebuild_on_recalled(void *arg, const struct sk_result *result)
{
    struct rebuild_talk *rebuild = arg;
    const char *end = result->rows == NULL ? NULL : sk_rows_text(result->rows, 0, 0);
    if (end == NULL)
        sk_talk_end(&rebuild->talk, SK_VERDICT_UNAVAILABLE, NULL);
    else if (strcmp(end, "archived") == 0)
        sk_talk_end(&rebuild->talk, SK_VERDICT_ARCHIVED, NULL);
    else
        sk_beside_find_later(&rebuild->talk, rebuild->voucher_id, rebuild_on_found_again);
}

static void rebuild_on_found_again(struct sk_talk *talk, enum sk_beside beside)
{
    if (beside == SK_BESIDE_FOUND)
        rebuild_begin((struct rebuild_talk *)talk);
    else
        sk_talk_end(talk, SK_VERDICT_UNKNOWN_VOUCHER, NULL);
}

static void rebuild_begin(struct rebuild_talk *rebuild)
{
    struct sk_talk *talk = &rebuild->talk;
    enum sk_status status =
        sk_rebuild(talk->control->upkeep->rebuilds, talk->voucher, SK_REBUILD_ORDERED, rebuild_on_rebuilt, rebuild);
    if (status != SK_OK)
        sk_talk_end(talk, status == SK_DOWN ? SK_VERDICT_UNAVAILABLE : SK_VERDICT_LOADING, NULL);
}

static void rebuild_on_rebuilt(void *arg, bool ok)
{
    struct rebuild_talk *rebuild = arg;
    if (ok)
        rebuild_ask(rebuild, SK_STATEMENT_FIND_VOUCHER, rebuild_on_row);
    else
        sk_talk_end(&rebuild->talk, SK_VERDICT_LOADING, NULL);
}

static void rebuild_on_row(void *arg, const struct sk_result *result)
{
    struct rebuild_talk *rebuild = arg;
    if (result->rows == NULL || sk_rows_count(result->rows) == 0)
        sk_talk_end(&rebuild->talk, result->rows == NULL ? SK_VERDICT_UNAVAILABLE : SK_VERDICT_UNKNOWN_VOUCHER, NULL);
    else
        sk_talk_end(&rebuild->talk, SK_VERDICT_FOUND, sk_rows_text(result->rows, 0, COLUMN_DOCUMENT));
}
