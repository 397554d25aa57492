// Lists: what their query parameters say. A parameter that is sent twice, or whose value is not understood, is
// refused: the answer to another question than was asked would be taken for all there is.
#include <string.h>

#include "admin_lists.h"
#include "handlers.h"
#include "instances.h"
#include "letters.h"
#include "user_orders.h"
#include "voucher.h"
#include "voucher_list.h"

// False: sent more than once. *value NULL: not sent.
static bool lists_parameter(const struct sk_request *request, const char *name, const char **value)
{
    unsigned count;
    *value = sk_request_query(request, name, &count);
    return count <= 1;
}

// `cursor`: the name of the parameter that says where the page begins.
static bool lists_read_page(const struct sk_request *request, const char *cursor, struct sk_page_asked *asked)
{
    const char *limit;
    uint64_t number = SK_PAGE_MOST;
    if (!lists_parameter(request, "limit", &limit) || !lists_parameter(request, cursor, &asked->cursor))
        return false;
    if (limit != NULL && (!sk_text_number(limit, SK_PAGE_MOST, &number) || number == 0))
        return false;
    asked->limit = (unsigned)number;
    return true;
}

static void lists_refuse(const struct sk_context *context, struct sk_request *request)
{
    sk_answer_refusal(context->answers, request, SK_VERDICT_BAD_PARAMETER);
}

void sk_handle_orders(const struct sk_context *context, struct sk_request *request)
{
    struct sk_page_asked asked;
    if (lists_read_page(request, "cursor", &asked))
        sk_user_orders(context->control, sk_call_of(request)->user, &asked, request->handle);
    else
        lists_refuse(context, request);
}

void sk_handle_vouchers(const struct sk_context *context, struct sk_request *request)
{
    struct sk_page_asked asked;
    request->shared = true;
    if (lists_read_page(request, "cursor", &asked))
        sk_list_vouchers(context->control, &asked, request->handle);
    else
        lists_refuse(context, request);
}

// ---- for admins ----

static bool lists_read_state(const struct sk_request *request, const char **state)
{
    if (!lists_parameter(request, "state", state))
        return false;
    return *state == NULL || sk_voucher_state_known(*state);
}

void sk_handle_admin_vouchers(const struct sk_context *context, struct sk_request *request)
{
    struct sk_page_asked asked;
    const char *state;
    if (lists_read_page(request, "cursor", &asked) && lists_read_state(request, &state))
        sk_list_admin_vouchers(context->control, state, &asked, request->handle);
    else
        lists_refuse(context, request);
}

// *time stays as it is if the parameter was not sent; *given tells.
static bool lists_read_time(const struct sk_request *request, const char *name, int64_t *unix_ms, const int64_t **given)
{
    const char *text;
    if (!lists_parameter(request, name, &text))
        return false;
    *given = text == NULL ? NULL : unix_ms;
    return text == NULL || sk_text_time(text, unix_ms);
}

static bool lists_read_filter(const struct sk_request *request, struct sk_order_filter *filter, int64_t *from,
                              int64_t *to)
{
    const char *voucher;
    return lists_parameter(request, "voucher", &voucher) && voucher != NULL &&
           sk_text_voucher_id(voucher, &filter->voucher_id) && lists_parameter(request, "status", &filter->status) &&
           (filter->status == NULL || sk_order_status_valid(filter->status)) &&
           lists_read_time(request, "from", from, &filter->from) && lists_read_time(request, "to", to, &filter->to);
}

void sk_handle_admin_orders(const struct sk_context *context, struct sk_request *request)
{
    struct sk_page_asked asked;
    struct sk_order_filter filter = {0};
    int64_t from, to;
    if (lists_read_page(request, "cursor", &asked) && lists_read_filter(request, &filter, &from, &to))
        sk_list_all_orders(context->control, &filter, &asked, request->handle);
    else
        lists_refuse(context, request);
}

void sk_handle_letters(const struct sk_context *context, struct sk_request *request)
{
    struct sk_page_asked asked;
    if (lists_read_page(request, "cursor", &asked))
        sk_letters_list(context->control, sk_call_of(request)->voucher_id, &asked, request->handle);
    else
        lists_refuse(context, request);
}

void sk_handle_admin_events(const struct sk_context *context, struct sk_request *request)
{
    struct sk_page_asked asked;
    if (lists_read_page(request, "cursor", &asked))
        sk_list_admin_events(context->control, sk_call_of(request)->voucher_id, &asked, request->handle);
    else
        lists_refuse(context, request);
}

// How many events before its end the feed is to begin, instead of behind one that the reader has; 0: not sent.
static bool lists_read_last(const struct sk_request *request, const struct sk_page_asked *asked, unsigned *last)
{
    const char *text;
    uint64_t number = 0;
    if (!lists_parameter(request, "last", &text))
        return false;
    if (text != NULL && (asked->cursor != NULL || !sk_text_number(text, SK_PAGE_MOST, &number) || number == 0))
        return false;
    *last = (unsigned)number;
    return true;
}

void sk_handle_order_events(const struct sk_context *context, struct sk_request *request)
{
    struct sk_page_asked asked;
    unsigned last;
    if (lists_read_page(request, "after", &asked) && lists_read_last(request, &asked, &last))
        sk_list_order_events(context->control, &asked, last, request->handle);
    else
        lists_refuse(context, request);
}

void sk_handle_instances(const struct sk_context *context, struct sk_request *request)
{
    sk_list_instances(context->control, request->handle);
}
