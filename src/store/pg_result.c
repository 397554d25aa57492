#include "pg_result.h"

#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

// Permanent errors come from the data: bad values, violated constraints, raised exceptions. All others come from the
// server (connections, conflicts, resources, rights, read-only) and may pass.
enum sk_result_kind sk_result_kind_of(const struct sk_rows *answer)
{
    const PGresult *result = (const PGresult *)(const void *)answer;
    static const char *const permanent[] = {"21", "22", "23", "44", "P0"};
    if (PQresultStatus(result) == PGRES_TUPLES_OK || PQresultStatus(result) == PGRES_COMMAND_OK)
        return SK_RESULT_ROWS;
    const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    if (sqlstate != NULL && strcmp(sqlstate, "55P03") == 0)
        return SK_RESULT_LOCKED;
    for (size_t i = 0; sqlstate != NULL && i < sizeof permanent / sizeof permanent[0]; i++) {
        if (strncmp(sqlstate, permanent[i], 2) == 0)
            return SK_RESULT_REFUSED;
    }
    return SK_RESULT_FAILED;
}

bool sk_result_is_read_only(const struct sk_rows *answer)
{
    const char *sqlstate = PQresultErrorField((const PGresult *)(const void *)answer, PG_DIAG_SQLSTATE);
    return sqlstate != NULL && strcmp(sqlstate, "25006") == 0;
}

struct sk_rows *sk_rows_copy(const struct sk_rows *rows)
{
    const PGresult *result = (const PGresult *)(const void *)rows;
    return (struct sk_rows *)(void *)PQcopyResult(result, PG_COPYRES_ATTRS | PG_COPYRES_TUPLES);
}

void sk_rows_free(struct sk_rows *copy)
{
    PQclear((PGresult *)(void *)copy);
}

size_t sk_rows_count(const struct sk_rows *rows)
{
    return (size_t)PQntuples((const PGresult *)(const void *)rows);
}

const char *sk_rows_text(const struct sk_rows *rows, size_t row, int column)
{
    const PGresult *result = (const PGresult *)(const void *)rows;
    return PQgetisnull(result, (int)row, column) ? NULL : PQgetvalue(result, (int)row, column);
}

int64_t sk_rows_number(const struct sk_rows *rows, size_t row, int column)
{
    const char *text = sk_rows_text(rows, row, column);
    return text == NULL ? 0 : strtoll(text, NULL, 10);
}
