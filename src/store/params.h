// Parameters as text: numbers for both stores, and PostgreSQL's arrays ('{a,b}'). One place writes them.
#ifndef SK_STORE_PARAMS_H
#define SK_STORE_PARAMS_H

#include <stdint.h>

#include "buf.h"

enum { SK_PARAM_NUMBER_SIZE = 24 };

// Any thread. Writes the number and returns `out`.
const char *sk_params_number(char out[SK_PARAM_NUMBER_SIZE], int64_t number);

// Builds an array in the caller's buffer, whose memory is kept for the next array. Begin it, add any number of
// elements, end it. sk_params_end returns the text, which stays in the buffer, or NULL if memory was short. An array
// without elements is '{}'.
void sk_params_begin(struct sk_buf *array);
void sk_params_add(struct sk_buf *array, const char *word);      // an id, a number, an upper-case word
void sk_params_add_text(struct sk_buf *array, const char *text); // quoted, so that 'null' is not NULL; no " or \ in it
const char *sk_params_end(struct sk_buf *array);

#endif
