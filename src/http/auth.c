// A field sent twice identifies nobody: the gateway and we might not agree on which one counts.
#include "auth.h"

#include <string.h>
#include <strings.h>

#include "text.h"

const char *sk_auth_user(const struct sk_request *request)
{
    if (request->user_id_count != 1 || !sk_text_user(request->user_id))
        return NULL;
    return request->user_id;
}

// Takes as long for a wrong token as for the right one; only the length can be learnt.
static bool equal_in_constant_time(const char *a, const char *b)
{
    size_t a_len = strlen(a), b_len = strlen(b);
    unsigned char difference = a_len != b_len;
    for (size_t i = 0; i < a_len; i++)
        difference |= (unsigned char)(a[i] ^ b[b_len == 0 ? 0 : i % b_len]);
    return difference == 0;
}

enum sk_verdict sk_auth_admin(const struct sk_request *request, const char *token)
{
    static const char scheme[] = "Bearer ";
    if (token == NULL)
        return SK_VERDICT_ADMIN_OFF;
    if (request->authorization_count != 1 || strncasecmp(request->authorization, scheme, sizeof scheme - 1) != 0 ||
        !equal_in_constant_time(request->authorization + sizeof scheme - 1, token))
        return SK_VERDICT_UNAUTHENTICATED;
    return SK_VERDICT_FOUND;
}
