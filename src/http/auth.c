// A field that is sent twice does not identify: the gateway and this service might not agree on which one counts.
#include "auth.h"

#include <string.h>
#include <strings.h>

static bool auth_equal_in_constant_time(const char *a, const char *b);

bool sk_auth_user(const struct sk_request *request, char user[SK_USER_SIZE])
{
    unsigned count;
    const char *value = sk_request_header(request, "x-user-id", &count);
    if (count != 1 || !sk_text_user(value))
        return false;
    memcpy(user, value, strlen(value) + 1);
    return true;
}

enum sk_verdict sk_auth_admin(const struct sk_request *request, const char *token)
{
    static const char scheme[] = "Bearer ";
    unsigned count;
    if (token == NULL)
        return SK_VERDICT_ADMIN_OFF;
    const char *value = sk_request_header(request, "authorization", &count);
    if (count != 1 || strncasecmp(value, scheme, sizeof scheme - 1) != 0 ||
        !auth_equal_in_constant_time(value + sizeof scheme - 1, token))
        return SK_VERDICT_UNAUTHENTICATED;
    return SK_VERDICT_FOUND;
}

// Takes as long for a wrong token as for the right one; only the length can be learnt.
static bool auth_equal_in_constant_time(const char *a, const char *b)
{
    size_t a_len = strlen(a), b_len = strlen(b);
    unsigned char difference = a_len != b_len;
    for (size_t i = 0; i < a_len; i++)
        difference |= (unsigned char)(a[i] ^ b[b_len == 0 ? 0 : i % b_len]);
    return difference == 0;
}
