// A function for several vouchers takes an array with one element a part where that for one voucher takes a value, and
// the number of orders of each part.
#include "order_calls.h"

#include "params.h"

enum { SLOT, VOUCHER, EPOCH, COUNT, OFFER, JOURNAL, COLUMNS }; // of the parts

struct columns {
    struct sk_buf arrays[COLUMNS];               // of several parts
    char numbers[COLUMNS][SK_PARAM_NUMBER_SIZE]; // of the last part
    const char *values[COLUMNS];
};

// False: memory is short. Free it in both cases.
static bool columns_make(struct columns *columns, size_t n, const struct sk_call_part *parts)
{
    bool complete = true;
    for (int i = 0; i < COLUMNS; i++) {
        columns->arrays[i] = (struct sk_buf){0};
        if (n > 1)
            sk_params_begin(&columns->arrays[i]);
    }
    for (const struct sk_call_part *part = parts; part < parts + n; part++) {
        const int64_t numbers[] = {part->voucher->slot, part->voucher->id, part->epoch, (int64_t)part->count,
                                   part->offer};
        for (int i = 0; i < JOURNAL; i++) {
            columns->values[i] = sk_params_number(columns->numbers[i], numbers[i]);
            if (n > 1)
                sk_params_add(&columns->arrays[i], columns->values[i]);
        }
        columns->values[JOURNAL] = part->journal_id;
        if (n > 1)
            sk_params_add(&columns->arrays[JOURNAL], part->journal_id == NULL ? "NULL" : part->journal_id);
    }
    for (int i = 0; n > 1 && i < COLUMNS; i++) {
        columns->values[i] = sk_params_end(&columns->arrays[i]);
        complete = complete && columns->values[i] != NULL;
    }
    return complete;
}

static void columns_free(struct columns *columns)
{
    for (int i = 0; i < COLUMNS; i++)
        sk_buf_free(&columns->arrays[i]);
}

// ---- orders that are placed ----

void sk_place_call_begin(struct sk_place_call *call)
{
    sk_params_begin(&call->ids);
    sk_params_begin(&call->users);
    sk_params_begin(&call->quantities);
    sk_params_begin(&call->keys);
    call->plain = true;
    call->n = 0;
}

static void place_add_details(struct sk_place_call *call, unsigned quantity, uint64_t key)
{
    char number[SK_PARAM_NUMBER_SIZE], text[SK_JOURNAL_KEY_SIZE];
    sk_params_add(&call->quantities, sk_params_number(number, quantity));
    sk_params_add(&call->keys, key == 0 ? "NULL" : sk_journal_key(key, text));
}

void sk_place_call_add(struct sk_place_call *call, const char *id, const char *user, unsigned quantity, uint64_t key)
{
    sk_params_add(&call->ids, id);
    sk_params_add_text(&call->users, user);
    if (call->plain && (quantity != 1 || key != 0)) { // the first: those before it get their details now
        call->plain = false;
        for (size_t i = 0; i < call->n; i++)
            place_add_details(call, 1, 0);
    }
    if (!call->plain)
        place_add_details(call, quantity, key);
    call->n++;
}

enum sk_status sk_place_call_send(struct sk_place_call *call, struct sk_pg *pg, size_t n,
                                  const struct sk_call_part *parts, sk_pg_cb *done, void *arg)
{
    const char *ids = sk_params_end(&call->ids), *users = sk_params_end(&call->users);
    const char *quantities = call->plain ? NULL : sk_params_end(&call->quantities);
    const char *keys = call->plain ? NULL : sk_params_end(&call->keys);
    struct columns columns;
    enum sk_status status = SK_NO_MEM;
    if (columns_make(&columns, n, parts) && ids != NULL && users != NULL &&
        (call->plain || (quantities != NULL && keys != NULL))) {
        const char *const *of = columns.values;
        const char *one[] = {of[SLOT], of[VOUCHER], of[EPOCH], ids, users, of[JOURNAL], quantities, keys, of[OFFER]};
        const char *many[] = {of[SLOT], of[VOUCHER], of[EPOCH],  of[COUNT], ids,
                              users,    of[JOURNAL], quantities, keys,      of[OFFER]};
        status = n == 1 ? sk_pg_call(pg, SK_STATEMENT_PLACE_ORDERS, 9, one, done, arg)
                        : sk_pg_call(pg, SK_STATEMENT_PLACE_BATCHES, 10, many, done, arg);
    }
    columns_free(&columns);
    return status;
}

void sk_place_call_free(struct sk_place_call *call)
{
    sk_buf_free(&call->ids);
    sk_buf_free(&call->users);
    sk_buf_free(&call->quantities);
    sk_buf_free(&call->keys);
}

// ---- orders that end ----

enum sk_status sk_return_call_send(struct sk_buf *ids, const struct sk_return_by *move, struct sk_pg *pg, size_t n,
                                   const struct sk_call_part *parts, sk_pg_cb *done, void *arg)
{
    const char *array = sk_params_end(ids), *why = move->why[0] == '\0' ? NULL : move->why;
    struct columns columns;
    enum sk_status status = SK_NO_MEM;
    if (columns_make(&columns, n, parts) && array != NULL) {
        const char *const *of = columns.values;
        const char *one[] = {of[SLOT], of[VOUCHER], of[EPOCH], array, move->move, move->by, why, of[JOURNAL]};
        const char *many[] = {of[SLOT],   of[VOUCHER], of[EPOCH], of[COUNT],  array,
                              move->move, move->by,    why,       of[JOURNAL]};
        status = n == 1 ? sk_pg_call(pg, SK_STATEMENT_RETURN_ORDERS, 8, one, done, arg)
                        : sk_pg_call(pg, SK_STATEMENT_RETURN_BATCHES, 9, many, done, arg);
    }
    columns_free(&columns);
    return status;
}
