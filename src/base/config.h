// Configuration: one table of keys, each with environment variable, long option, default, bounds, unit
// and help. The command line wins over the environment.
#ifndef SK_BASE_CONFIG_H
#define SK_BASE_CONFIG_H

#include <stdint.h>
#include <stdio.h>

#include "status.h"

enum { SK_CONFIG_WORDS_MAX = 4, SK_ADMIN_CONNECTIONS = 256 };

// Who says which user asks: X-User-Id of a gateway, or the user's token.
enum sk_auth { SK_AUTH_GATEWAY, SK_AUTH_TOKEN };

// Which requests have a trace (http/trace.h): those that come with one, none, or all.
enum sk_trace_mode { SK_TRACE_AUTO, SK_TRACE_OFF, SK_TRACE_ON };

struct sk_config {
    const char *words[SK_CONFIG_WORDS_MAX + 1]; // what the command is told; borrowed from argv; NULL after the last
    char *listen;                               // host:port
    char *admin_listen;                         // the same, for operators alone; NULL: they come to `listen`
    char *database_url;                         // secret
    char *redis_url;                            // secret
    char *admin_token;                          // secret; NULL: none
    char *admin_tokens;                         // secret: lines (http/tokens.h); NULL: none
    char *payment_secret;                       // secret: one or two lines; NULL: payment callbacks are not taken
    char *trusted_proxies;                      // networks (address.h), checked by http/client_limits.c; NULL: none
    char *ticket_secret;                        // secret: one or two lines (http/ticket.h); NULL: there are no tickets
    char *cors_origins;                         // http/cors.h; NULL: none
    char *log_level;
    char *token_keys;        // the path of a file (http/token_keys.h); NULL: none
    char *token_issuer;      // NULL: none
    char *token_audience;    // NULL: none
    int64_t auth;            // enum sk_auth
    int64_t gateway_trusted; // 0 or 1
    int64_t token_leeway_s;
    int64_t token_cache;
    int64_t trace; // enum sk_trace_mode
    int64_t reactors;
    int64_t ticket_ttl_s;
    int64_t max_connections;
    int64_t body_max_bytes;
    int64_t header_max_bytes;
    int64_t idle_timeout_ms;
    int64_t request_timeout_ms;
    int64_t confirm_timeout_ms;
    int64_t redis_timeout_ms;
    int64_t pg_timeout_ms;
    int64_t batch_max;
    int64_t orders_max;
    int64_t lock_ttl_ms;
    int64_t retire_after_ms;
    int64_t sold_out_mark_ms;
    int64_t orders_per_user;
    int64_t user_rate;
    int64_t address_rate;
    int64_t address_connections;
    int64_t long_share; // percent
    int64_t long_per_user;
    int64_t long_per_address;
    int64_t purchase_rate;
    int64_t purchases_max;
    int64_t drain_timeout_ms;
    int64_t access_log;   // one line for so many requests; 0: none
    int64_t metrics_open; // 0: no, 1: yes
    int64_t pages;        // 0: off, 1: on; this one, too
    int64_t demo;
};

enum sk_command {
    SK_COMMAND_SERVE,
    SK_COMMAND_CHECK,
    SK_COMMAND_MIGRATE,
    SK_COMMAND_OPENAPI,
    SK_COMMAND_TOKEN,
    SK_COMMAND_ARCHIVE,
    SK_COMMAND_ERASE,
    SK_COMMAND_HELP,
    SK_COMMAND_VERSION,
};

// Before the threads start. Fills *config (owned: give it to sk_config_free in any case) and *command.
// On a wrong key or value it says which on `err` and returns SK_FAIL.
enum sk_status sk_config_read(struct sk_config *config, enum sk_command *command, int argc, char **argv,
                              FILE *err) SK_MUST_CHECK;
void sk_config_free(struct sk_config *config);

// The reactors of the process: those of buyers, and one for operators if these have a listener of their own.
int64_t sk_config_reactors(const struct sk_config *config);

// Prints every key with its default, unit and meaning.
void sk_config_help(FILE *out);

#endif
