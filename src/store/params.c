#include "params.h"

#include "text.h"

const char *sk_params_number(char out[SK_PARAM_NUMBER_SIZE], int64_t number)
{
    bool below = number < 0;
    out[0] = '-';
    (void)sk_text_put_number(below ? -(uint64_t)number : (uint64_t)number, out + below);
    return out;
}

void sk_params_begin(struct sk_buf *array)
{
    sk_buf_clear(array);
    sk_buf_puts(array, "{");
}

static void params_separate(struct sk_buf *array)
{
    if (array->len > 1)
        sk_buf_puts(array, ",");
}

void sk_params_add(struct sk_buf *array, const char *word)
{
    params_separate(array);
    sk_buf_puts(array, word);
}

void sk_params_add_text(struct sk_buf *array, const char *text)
{
    params_separate(array);
    sk_buf_puts(array, "\"");
    sk_buf_puts(array, text);
    sk_buf_puts(array, "\"");
}

const char *sk_params_end(struct sk_buf *array)
{
    sk_buf_puts(array, "}");
    return array->failed ? NULL : array->data;
}
