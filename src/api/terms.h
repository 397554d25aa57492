// Reads the bodies of POST /admin/vouchers, PATCH /admin/vouchers/{id} and POST /admin/vouchers/{id}/stock, and lists
// all errors of a body.
//
// The loop's thread, as all functions. Results are as of sk_fields_end(); texts point into `read`, which the caller
// frees in any case.
#ifndef SK_API_TERMS_H
#define SK_API_TERMS_H

#include "create.h"
#include "fields.h"

// All terms of a voucher; limit, pay_within_s, currency, ticket and work_bits have defaults.
enum sk_verdict sk_terms_read(const char *body, size_t len, bool tickets, struct sk_terms *terms,
                              struct sk_fields *read);

// Any of the terms except the stock. A missing one is NULL or SK_TERM_AS_IT_IS.
enum sk_verdict sk_terms_read_change(const char *body, size_t len, bool tickets, struct sk_terms *terms,
                                     struct sk_fields *read);

// {"add": n} or {"reduce": n}: n, or -n.
enum sk_verdict sk_terms_read_stock(const char *body, size_t len, int64_t *units, struct sk_fields *read);

#endif
