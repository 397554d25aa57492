// A function for several vouchers takes an array with one element a part where that for one voucher takes a value, and
// the number of orders of each part.
#include "order_calls.h"

#include "params.h"

enum { SLOTS, VOUCHERS, EPOCHS, COUNTS, JOURNALS, OFFERS, COLUMNS }; // of the parts

struct columns {
    struct sk_buf arrays[COLUMNS];
    const char *values[COLUMNS]; // NULL: memory is short
};

static void columns_begin(struct columns *columns, size_t n, const struct sk_call_part *parts)
{
    *columns = (struct columns){0};
    for (int i = 0; i < COLUMNS; i++)
        sk_params_begin(&columns->arrays[i]);
    for (size_t i = 0; i < n; i++) {
        const struct sk_call_part *part = &parts[i];
        char number[SK_PARAM_NUMBER_SIZE];
        sk_params_add(&columns->arrays[SLOTS], sk_params_number(number, part->voucher->slot));
        sk_params_add(&columns->arrays[VOUCHERS], sk_params_number(number, part->voucher->id));
        sk_params_add(&columns->arrays[EPOCHS], sk_params_number(number, part->epoch));
        sk_params_add(&columns->arrays[COUNTS], sk_params_number(number, (int64_t)part->count));
        sk_params_add(&columns->arrays[JOURNALS], part->journal_id == NULL ? "NULL" : part->journal_id);
        sk_params_add(&columns->arrays[OFFERS], sk_params_number(number, part->offer));
    }
    for (int i = 0; i < COLUMNS; i++)
        columns->values[i] = sk_params_end(&columns->arrays[i]);
}

static bool columns_are_complete(const struct columns *columns)
{
    for (int i = 0; i < COLUMNS; i++) {
        if (columns->values[i] == NULL)
            return false;
    }
    return true;
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

static enum sk_status place_one(struct sk_place_call *call, struct sk_pg *pg, const struct sk_call_part *part,
                                const char *const details[2], sk_pg_cb *done, void *arg)
{
    char slot[SK_PARAM_NUMBER_SIZE], voucher[SK_PARAM_NUMBER_SIZE], epoch[SK_PARAM_NUMBER_SIZE];
    char offer[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {sk_params_number(slot, part->voucher->slot),
                            sk_params_number(voucher, part->voucher->id),
                            sk_params_number(epoch, part->epoch),
                            sk_params_end(&call->ids),
                            sk_params_end(&call->users),
                            part->journal_id,
                            details[0],
                            details[1],
                            sk_params_number(offer, part->offer)};
    if (params[3] == NULL || params[4] == NULL)
        return SK_NO_MEM;
    return sk_pg_call(pg, SK_STATEMENT_PLACE_ORDERS, 9, params, done, arg);
}

static enum sk_status place_many(struct sk_place_call *call, struct sk_pg *pg, size_t n,
                                 const struct sk_call_part *parts, const char *const details[2], sk_pg_cb *done,
                                 void *arg)
{
    struct columns columns;
    columns_begin(&columns, n, parts);
    const char *const *of = columns.values;
    const char *params[] = {
        of[SLOTS],    of[VOUCHERS], of[EPOCHS], of[COUNTS], sk_params_end(&call->ids), sk_params_end(&call->users),
        of[JOURNALS], details[0],   details[1], of[OFFERS]};
    enum sk_status status = SK_NO_MEM;
    if (columns_are_complete(&columns) && params[4] != NULL && params[5] != NULL)
        status = sk_pg_call(pg, SK_STATEMENT_PLACE_BATCHES, 10, params, done, arg);
    columns_free(&columns);
    return status;
}

enum sk_status sk_place_call_send(struct sk_place_call *call, struct sk_pg *pg, size_t n,
                                  const struct sk_call_part *parts, sk_pg_cb *done, void *arg)
{
    const char *details[2] = {NULL, NULL};
    if (!call->plain) {
        details[0] = sk_params_end(&call->quantities);
        details[1] = sk_params_end(&call->keys);
        if (details[0] == NULL || details[1] == NULL)
            return SK_NO_MEM;
    }
    return n == 1 ? place_one(call, pg, parts, details, done, arg) : place_many(call, pg, n, parts, details, done, arg);
}

void sk_place_call_free(struct sk_place_call *call)
{
    sk_buf_free(&call->ids);
    sk_buf_free(&call->users);
    sk_buf_free(&call->quantities);
    sk_buf_free(&call->keys);
}

// ---- orders that end ----

static enum sk_status return_one(const char *ids, const struct sk_return_by *move, struct sk_pg *pg,
                                 const struct sk_call_part *part, sk_pg_cb *done, void *arg)
{
    char slot[SK_PARAM_NUMBER_SIZE], voucher[SK_PARAM_NUMBER_SIZE], epoch[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {sk_params_number(slot, part->voucher->slot),
                            sk_params_number(voucher, part->voucher->id),
                            sk_params_number(epoch, part->epoch),
                            ids,
                            move->move,
                            move->by,
                            move->why[0] == '\0' ? NULL : move->why,
                            part->journal_id};
    return sk_pg_call(pg, SK_STATEMENT_RETURN_ORDERS, 8, params, done, arg);
}

static enum sk_status return_many(const char *ids, const struct sk_return_by *move, struct sk_pg *pg, size_t n,
                                  const struct sk_call_part *parts, sk_pg_cb *done, void *arg)
{
    struct columns columns;
    columns_begin(&columns, n, parts);
    const char *const *of = columns.values;
    const char *params[] = {of[SLOTS],   of[VOUCHERS], of[EPOCHS], of[COUNTS],
                            ids,         move->move,   move->by,   move->why[0] == '\0' ? NULL : move->why,
                            of[JOURNALS]};
    enum sk_status status = SK_NO_MEM;
    if (columns_are_complete(&columns))
        status = sk_pg_call(pg, SK_STATEMENT_RETURN_BATCHES, 9, params, done, arg);
    columns_free(&columns);
    return status;
}

enum sk_status sk_return_call_send(struct sk_buf *ids, const struct sk_return_by *move, struct sk_pg *pg, size_t n,
                                   const struct sk_call_part *parts, sk_pg_cb *done, void *arg)
{
    const char *array = sk_params_end(ids);
    if (array == NULL)
        return SK_NO_MEM;
    return n == 1 ? return_one(array, move, pg, parts, done, arg) : return_many(array, move, pg, n, parts, done, arg);
}
