// Making a response for one request costs a dozen allocations, which for a refusal is a third of all that is done.
#include "traced.h"

#include <stdlib.h>
#include <string.h>

#include "problem.h"

enum { KEPT_MAX = 256 };

#define NO_TRACE_ID "00000000000000000000000000000000"
#define NO_TRACE    "00-" NO_TRACE_ID "-0000000000000000-00"

_Static_assert(sizeof NO_TRACE == SK_TRACEPARENT_SIZE, "each trace fits where another one was");

struct kept {
    struct sk_response *response; // owned, as the body
    char *body, *id, *field;      // id: in the body; field: the response's
    size_t len;
};

// Of a verdict.
struct row {
    size_t count;
    bool busy[KEPT_MAX];
    struct kept all[KEPT_MAX];
};

struct sk_traced {
    struct row *rows[SK_VERDICT_COUNT]; // NULL: none was needed
};

static struct kept *traced_find(struct row *row, enum sk_verdict verdict);
static bool traced_make(struct kept *kept, enum sk_verdict verdict);
static void traced_free(struct kept *kept);

struct sk_traced *sk_traced_open(void)
{
    return calloc(1, sizeof(struct sk_traced));
}

void sk_traced_close(struct sk_traced *traced)
{
    for (int i = 0; traced != NULL && i < SK_VERDICT_COUNT; i++) {
        for (size_t n = 0; traced->rows[i] != NULL && n < traced->rows[i]->count; n++)
            traced_free(&traced->rows[i]->all[n]);
        free(traced->rows[i]);
    }
    free(traced);
}

struct sk_response *sk_traced_take(struct sk_traced *traced, struct sk_request *request, enum sk_verdict verdict)
{
    struct row **row = &traced->rows[verdict];
    if (sk_trace_id(request) == NULL)
        return NULL;
    if (*row == NULL && (*row = calloc(1, sizeof **row)) == NULL)
        return NULL;
    struct kept *kept = traced_find(*row, verdict);
    if (kept == NULL)
        return NULL;
    memcpy(kept->id, request->trace.own.trace_id, SK_TRACE_ID_CHARS);
    sk_traceparent_put(&request->trace.own, kept->field);
    request->trace.bytes = kept->len;
    request->lease = &(*row)->busy[kept - (*row)->all];
    *request->lease = true;
    return kept->response;
}

// The first one that is free, which is most likely in the cache, or a new one.
static struct kept *traced_find(struct row *row, enum sk_verdict verdict)
{
    const bool *free_one = memchr(row->busy, false, row->count);
    if (free_one != NULL)
        return &row->all[free_one - row->busy];
    if (row->count == KEPT_MAX || !traced_make(&row->all[row->count], verdict))
        return NULL;
    return &row->all[row->count++];
}

static bool traced_make(struct kept *kept, enum sk_verdict verdict)
{
    static const char member[] = "\"trace_id\":\"";
    *kept = (struct kept){.body = malloc(SK_PROBLEM_SIZE)};
    if (kept->body == NULL)
        return false;
    kept->len = sk_problem_put(kept->body, verdict, "", NO_TRACE_ID);
    kept->id = strstr(kept->body, member) + sizeof member - 1;
    kept->response = sk_response_of(SK_PROBLEM_MEDIA, kept->body, kept->len);
    sk_response_header(kept->response, "Cache-Control", "no-store");
    sk_problem_add_fields(kept->response, verdict, 0);
    sk_response_header(kept->response, "traceparent", NO_TRACE);
    kept->field = sk_response_value(kept->response, "traceparent");
    if (kept->field == NULL)
        traced_free(kept);
    return kept->field != NULL;
}

static void traced_free(struct kept *kept)
{
    sk_response_free(kept->response);
    free(kept->body);
}
