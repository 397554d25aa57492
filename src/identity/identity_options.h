// Who may call, how a caller is identified, and how often each may call.
#ifndef SK_IDENTITY_IDENTITY_OPTIONS_H
#define SK_IDENTITY_IDENTITY_OPTIONS_H

#include <stdint.h>

// What identifies a user: X-User-Id of a gateway, or the user's token.
enum sk_auth { SK_AUTH_GATEWAY, SK_AUTH_TOKEN };

struct sk_identity_options {
    char *admin_token;        // secret; NULL: none
    char *admin_tokens;       // secret: lines (auth.h); NULL: none
    char *payment_secret;     // secret: one or two lines; NULL: signed payment callbacks are rejected
    char *ticket_secret;      // secret: one or two lines (ticket.h); NULL: there are no tickets
    int64_t ticket_ttl_s;     // of a purchase ticket
    char *cors_origins;       // cors.h; NULL: none
    int64_t auth;             // enum sk_auth
    int64_t gateway_trusted;  // 0 or 1
    char *token_keys;         // the path of a file (user_tokens.h); NULL: none
    char *token_issuer;       // NULL: none
    char *token_audience;     // NULL: none
    char *token_user;         // the claim with the user's id
    char *token_revoked;      // the path of a file (user_tokens.h); NULL: none
    int64_t token_lifetime_s; // 0: unlimited
    int64_t token_leeway_s;
    int64_t token_cache;
    char *trusted_proxies; // networks (address.h), checked by client_limits.c; NULL: none
    int64_t reactors;      // that share the limits
    int64_t user_rate;
    int64_t address_rate;
    int64_t address_connections;
    int64_t long_per_user;
    int64_t long_per_address;
    int64_t purchase_rate;
};

#endif
