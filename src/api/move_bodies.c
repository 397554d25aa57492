// Names, types and bounds of the members; what every body goes through is in fields.c.
#include "move_bodies.h"

// The most that an order can cost: 1,000 units of the highest price.
static const int64_t amount_max_cents = INT64_C(100000000000000);

#define REFERENCE_DETAIL "must be a string of 1 to 64 visible ASCII characters"

// The demo's payment has all from AMOUNT on.
enum payment_member { REFERENCE, AMOUNT, CURRENCY, PAYMENT_MEMBERS };

static const struct sk_field payment_members[PAYMENT_MEMBERS] = {
    [REFERENCE] = {.name = "reference", .detail = REFERENCE_DETAIL},
    [AMOUNT] = {.name = "amount_cents", .detail = "must be an integer from 0 to 100000000000000"},
    [CURRENCY] = {.name = "currency", .detail = "must be a string of three letters from A to Z"},
};

enum refund_member { RESTOCK, WHY, REFUNDED_REFERENCE, REFUND_MEMBERS };

static const struct sk_field refund_members[REFUND_MEMBERS] = {
    [RESTOCK] = {.name = "restock", .detail = "must be true or false", .optional = true},
    [WHY] = {.name = "why", .detail = "must be a string of at most 200 bytes", .optional = true},
    [REFUNDED_REFERENCE] = {.name = "reference", .detail = REFERENCE_DETAIL, .optional = true},
};

static bool bodies_read_reference(const json_t *value, const char **reference);
static void bodies_read_amount(struct sk_fields *read, const json_t **values, struct sk_payment *payment);
static void bodies_judge(struct sk_fields *read, enum payment_member member, const json_t **values, bool good);
static bool bodies_are_all_in(const char *text, char first, char last);

enum sk_verdict sk_payment_read(const char *body, size_t len, struct sk_payment *payment, struct sk_fields *read)
{
    const json_t *values[PAYMENT_MEMBERS];
    if (sk_fields_open(read, body, len, payment_members, PAYMENT_MEMBERS, values)) {
        bodies_judge(read, REFERENCE, values, bodies_read_reference(values[REFERENCE], &payment->reference));
        bodies_read_amount(read, values, payment);
    }
    return sk_fields_end(read);
}

enum sk_verdict sk_demo_payment_read(const char *body, size_t len, struct sk_payment *payment, struct sk_fields *read)
{
    const json_t *values[PAYMENT_MEMBERS];
    if (sk_fields_open(read, body, len, &payment_members[AMOUNT], PAYMENT_MEMBERS - AMOUNT, &values[AMOUNT]))
        bodies_read_amount(read, values, payment);
    return sk_fields_end(read);
}

static bool bodies_read_reference(const json_t *value, const char **reference)
{
    return sk_fields_text(value, 1, SK_REFERENCE_MAX, reference) && bodies_are_all_in(*reference, '!', '~');
}

static void bodies_read_amount(struct sk_fields *read, const json_t **values, struct sk_payment *payment)
{
    bodies_judge(read, AMOUNT, values, sk_fields_integer(values[AMOUNT], 0, amount_max_cents, &payment->amount_cents));
    bodies_judge(read, CURRENCY, values,
                 sk_fields_text(values[CURRENCY], SK_CURRENCY_CHARS, SK_CURRENCY_CHARS, &payment->currency) &&
                     bodies_are_all_in(payment->currency, 'A', 'Z'));
}

// Of a member that is there.
static void bodies_judge(struct sk_fields *read, enum payment_member member, const json_t **values, bool good)
{
    if (values[member] != NULL && !good)
        sk_fields_refuse(read, payment_members[member].name, payment_members[member].detail);
}

static bool bodies_are_all_in(const char *text, char first, char last)
{
    while (*text >= first && *text <= last)
        text++;
    return *text == '\0';
}

enum sk_verdict sk_refund_read(const char *body, size_t len, struct sk_refund *refund, struct sk_fields *read)
{
    const json_t *values[REFUND_MEMBERS];
    *refund = (struct sk_refund){0};
    if (sk_fields_open(read, body, len, refund_members, REFUND_MEMBERS, values)) {
        if (values[RESTOCK] != NULL && !json_is_boolean(values[RESTOCK]))
            sk_fields_refuse(read, refund_members[RESTOCK].name, refund_members[RESTOCK].detail);
        if (values[WHY] != NULL && !sk_fields_text(values[WHY], 0, SK_WHY_MAX, &refund->why))
            sk_fields_refuse(read, refund_members[WHY].name, refund_members[WHY].detail);
        if (values[REFUNDED_REFERENCE] != NULL &&
            !bodies_read_reference(values[REFUNDED_REFERENCE], &refund->reference))
            sk_fields_refuse(read, refund_members[REFUNDED_REFERENCE].name, REFERENCE_DETAIL);
        refund->restock = json_is_true(values[RESTOCK]);
    }
    return sk_fields_end(read);
}
