// Who sends no token has guessed nothing.
#include "failed_auth.h"

#include "address.h"
#include "log.h"

void sk_failed_auth_note(const struct sk_request *request, enum sk_verdict verdict, struct sk_limits *limits,
                         struct sk_metrics *metrics)
{
    bool signature = verdict == SK_VERDICT_BAD_SIGNATURE;
    bool token = verdict == SK_VERDICT_UNAUTHENTICATED && sk_request_header(request, "authorization", NULL) != NULL;
    struct sk_address client;
    char address[SK_ADDRESS_SIZE] = "none";
    if (!signature && !token)
        return;
    if (metrics != NULL)
        sk_metrics_add(metrics, signature ? SK_METRIC_SIGNATURES_WRONG : SK_METRIC_ADMIN_TOKENS_WRONG, 1);
    if (limits != NULL)
        sk_limits_failed(limits, request);
    if (limits == NULL ? sk_request_peer(request, &client) : sk_limits_client(limits, request, &client))
        sk_address_put(&client, address);
    sk_log(SK_LOG_WARN, signature ? "a payment's signature is wrong" : "an admin's token is wrong",
           "address=%s route=%s", address, request->route);
}
