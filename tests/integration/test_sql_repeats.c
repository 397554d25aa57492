// A call that is repeated because its answer is unknown must not be answered before the first commit is replicated,
// even if it changes nothing: each repeat waits for the synchronous standby, which here never comes.
#include <string.h>

#include "sql.h"
#include "stack.h"
#include "stores.h"
#include "test.h"
#include "wait.h"

enum { PARAMS_MAX = 19, PARAM_SIZE = 96 };

// `%s`, `%v`: the slot and the voucher.
static const struct {
    enum sk_statement statement;
    const char *params[PARAMS_MAX]; // NULL: the end
} calls[] = {
    {SK_STATEMENT_PLACE_ORDERS, {"%s", "%v", "3", "{" SQL_ID1 "}", "{alice}", "1-1", "{1}", "{NULL}", "0"}},
    {SK_STATEMENT_PLACE_BATCHES,
     {"{%s}", "{%v}", "{3}", "{1}", "{" SQL_ID2 "}", "{bob}", "{2-1}", "{1}", "{NULL}", "{0}"}},
    {SK_STATEMENT_REFUSE_ORDERS, {"%s", "%v", "{" SQL_ID3 "}", "{carol}", "{GRANT_LOST}", "{1}", "{0}"}},
    {SK_STATEMENT_SET_ASIDE, {"%s", "%v", "3-1", "\\x00", SQL_ID0 " dave", "why", "0"}},
    {SK_STATEMENT_EXTEND_ORDER, {"%s", SQL_ID1, "reference", "60", "shop"}},
    {SK_STATEMENT_PAY_ORDER, {"%s", SQL_ID1, "reference", "100", "CNY", "shop"}},
    {SK_STATEMENT_HOLD_EXPIRY, {"%v", "1", "ann"}},
    {SK_STATEMENT_RETURN_ORDERS, {"%s", "%v", "3", "{" SQL_ID2 "}", "cancelled", "bob", "", "4-1"}},
    {SK_STATEMENT_NOTE_REFUNDS, {"%s", SQL_ID1, "shop", "why", "reference"}},
    {SK_STATEMENT_FIND_REPLICATED_ORDER, {"%s", SQL_ID1, "alice"}},
    {SK_STATEMENT_CREATE_VOUCHER,
     {"k", "T", "1", "5", "1000", "2000", "1", "900", "CNY", "ann", "0", "0", "", "", "120", "3", "0", "%v",
      "{\"waitlist\": 5}"}},
    {SK_STATEMENT_SET_VOUCHER_STATE, {"%v", "0", "", "ann", "paused"}},
    {SK_STATEMENT_ADD_UNITS, {"%v", "0", "key", "ann", "5"}},
};

static void send_call(PGconn *conn, size_t i)
{
    char texts[PARAMS_MAX][PARAM_SIZE];
    const char *params[PARAMS_MAX];
    int n = 0;
    for (; n < PARAMS_MAX && calls[i].params[n] != NULL; n++) {
        const char *format = calls[i].params[n], *mark = strchr(format, '%');
        size_t before = mark == NULL ? strlen(format) : (size_t)(mark - format);
        (void)snprintf(texts[n], PARAM_SIZE, "%.*s%s%s", (int)before, format,
                       mark == NULL     ? ""
                       : mark[1] == 's' ? sql_slot
                                        : sql_voucher,
                       mark == NULL ? "" : mark + 2);
        params[n] = texts[n];
    }
    int sent = PQsendQueryParams(conn, sk_statements[calls[i].statement].text, n, NULL, params, NULL, NULL, 0);
    ck_assert_msg(sent == 1, "%s", PQerrorMessage(conn));
}

// Also after a test that failed, since the next one would wait for its first commit.
static void teardown(void)
{
    db_let_commits_go();
    sql_teardown();
}

TEST(each_repeat_waits_for_the_standby)
{
    sql_make_voucher(10);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        send_call(sql_service, i);
        PQclear(sql_receive(sql_service));
    }
    db_hold_commits();
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        send_call(sql_service, i);
        ck_assert_msg(db_release_commit(sql_service), "%s", sk_statements[calls[i].statement].name);
        PQclear(sql_receive(sql_service));
    }
}

// The standby is away for long, and buyers repeat: what waits for it must not take all connections.
TEST(one_first_answer_of_a_slot_waits)
{
    size_t first = 0;
    while (calls[first].statement != SK_STATEMENT_FIND_REPLICATED_ORDER)
        first++;
    PGconn *other = sql_connect();
    sql_make_voucher(10);
    send_call(sql_service, 0); // the order
    PQclear(sql_receive(sql_service));
    db_hold_commits();
    PQclear(PQexec(other, "SET lock_timeout = 100"));
    send_call(sql_service, first);
    WAIT_FOR(db_commit_waits(sql_service));
    send_call(other, first);
    PGresult *refused = PQgetResult(other);
    ck_assert_str_eq(PQresultErrorField(refused, PG_DIAG_SQLSTATE), "55P03");
    PQclear(refused);
    PQfinish(other);
    ck_assert(db_release_commit(sql_service));
    PQclear(sql_receive(sql_service));
}

SUITE(.timeout_s = 60, .begin = sql_start, .setup = sql_setup, .teardown = teardown, .in_one_process = true);
