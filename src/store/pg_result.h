// The result of a statement: its rows, or why there are none.
//
// All functions: any thread. Texts live as long as the rows.
#ifndef SK_STORE_PG_RESULT_H
#define SK_STORE_PG_RESULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sk_rows; // libpq's PGresult under a name of ours

enum sk_result_kind {
    SK_RESULT_ROWS,
    SK_RESULT_LOST,    // the link died, the result came too late, or a fail-over may lose it: the outcome is unknown
    SK_RESULT_FAILED,  // the server refused, for a reason that may pass (conflict, resources, rights, read-only)
    SK_RESULT_LOCKED,  // another transaction holds the row (SQLSTATE 55P03)
    SK_RESULT_REFUSED, // permanent: the same statement would fail again
};

struct sk_result {
    enum sk_result_kind kind;
    const struct sk_rows *rows; // NULL unless SK_RESULT_ROWS
};

// Classifies an answer of the server; `answer` need not be rows.
enum sk_result_kind sk_result_kind_of(const struct sk_rows *answer);
// Whether it is an error because the server, or the session, is read-only.
bool sk_result_is_read_only(const struct sk_rows *answer);

// A copy that outlives the callback. NULL: out of memory.
struct sk_rows *sk_rows_copy(const struct sk_rows *rows);
void sk_rows_free(struct sk_rows *copy); // NULL is fine

size_t sk_rows_count(const struct sk_rows *rows);
const char *sk_rows_text(const struct sk_rows *rows, size_t row, int column); // NULL: SQL's NULL
int64_t sk_rows_number(const struct sk_rows *rows, size_t row, int column);   // NULL reads as 0

#endif
