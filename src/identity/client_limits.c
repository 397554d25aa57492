// Rates of users and addresses are kept in tables of a fixed size (rates.h describes what happens when one is full).
// Connections are counted in a table with room for every connection of the process. Trusted proxies may have any number
// of connections; rates count the address that they report instead of theirs.
#include "client_limits.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "forwarded.h"
#include "listener.h"
#include "log.h"
#include "rates.h"
#include "siphash.h"
#include "tally.h"

// One page of ours is some thirty documents, which a browser requests at once.
enum { PLACES = 1 << 16, POLICY_SIZE = 96, FIELDS_MAX = 16, DOCUMENTS_PER_TRY = 10 };

struct sk_limits {
    struct sk_networks trusted;
    struct sk_rates *users, *addresses;    // NULL: no limit
    struct sk_rates *documents, *failures; // of addresses; NULL: addresses have no rate
    struct sk_tally *connections;          // NULL: no limit
    struct sk_tally *long_users, *long_addresses;
    struct sk_siphash_key users_key;
    bool direct; // clients connect directly to us
    struct sk_rate purchases;
    struct sk_peers peers;
    char policy[POLICY_SIZE];
};

static enum sk_status limits_read_trusted(struct sk_limits *limits, const char *text, FILE *err)
{
    size_t len;
    const char *bad = text == NULL ? NULL : sk_networks_parse(text, &limits->trusted, &len);
    if (bad == NULL)
        return SK_OK;
    (void)fprintf(err, "seckill: SECKILL_TRUSTED_PROXIES: '%.*s' is no address and no network, or one too many\n",
                  (int)len, bad);
    return SK_FAIL;
}

static enum sk_status limits_open_tables(struct sk_limits *limits, const struct sk_identity_options *options,
                                         const struct sk_server_options *server)
{
    const struct {
        struct sk_rates **table;
        int64_t per_s; // 0: no limit
    } rates[] = {{&limits->users, options->user_rate},
                 {&limits->addresses, options->address_rate},
                 {&limits->documents, options->address_rate * DOCUMENTS_PER_TRY},
                 {&limits->failures, options->address_rate}};
    const struct {
        struct sk_tally **table;
        int64_t most; // 0: no limit
    } tallies[] = {{&limits->connections, options->address_connections},
                   {&limits->long_users, options->long_per_user},
                   {&limits->long_addresses, options->long_per_address}};
    size_t connections = (size_t)(options->reactors * server->max_connections);
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        if (rates[i].per_s > 0 && (*rates[i].table = sk_rates_open((uint64_t)rates[i].per_s, PLACES)) == NULL)
            return SK_NO_MEM;
    }
    for (size_t i = 0; i < sizeof tallies / sizeof tallies[0]; i++) {
        if (tallies[i].most > 0 && (*tallies[i].table = sk_tally_open(connections, (uint64_t)tallies[i].most)) == NULL)
            return SK_NO_MEM;
    }
    return sk_siphash_new_key(&limits->users_key);
}

static void limits_put_policy(struct sk_limits *limits, const char *name, int64_t per_s)
{
    size_t len = strlen(limits->policy);
    if (per_s > 0)
        (void)snprintf(limits->policy + len, sizeof limits->policy - len, "%s\"%s\";q=%" PRId64 ";w=1",
                       len == 0 ? "" : ", ", name, per_s);
}

static bool limits_connects(void *arg, const struct sk_address *peer)
{
    struct sk_limits *limits = arg;
    if (sk_networks_have(&limits->trusted, peer) || sk_tally_add(limits->connections, sk_address_key(peer)))
        return true;
    sk_log(SK_LOG_DEBUG, "an address has too many connections", "");
    return false;
}

static void limits_disconnects(void *arg, const struct sk_address *peer)
{
    struct sk_limits *limits = arg;
    if (!sk_networks_have(&limits->trusted, peer))
        sk_tally_remove(limits->connections, sk_address_key(peer));
}

struct sk_limits *sk_limits_open(const struct sk_identity_options *options, const struct sk_server_options *server,
                                 FILE *err)
{
    struct sk_limits *limits = calloc(1, sizeof *limits);
    if (limits == NULL)
        return NULL;
    if (limits_read_trusted(limits, options->trusted_proxies, err) != SK_OK ||
        limits_open_tables(limits, options, server) != SK_OK) {
        sk_limits_close(limits);
        return NULL;
    }
    limits->direct = options->auth == SK_AUTH_TOKEN && sk_listen_address_is_reachable(server->listen);
    limits_put_policy(limits, "user", options->user_rate);
    limits_put_policy(limits, "address", options->address_rate);
    sk_rate_begin(&limits->purchases, (uint64_t)options->purchase_rate);
    limits->peers = (struct sk_peers){limits_connects, limits_disconnects, limits};
    return limits;
}

void sk_limits_close(struct sk_limits *limits)
{
    if (limits == NULL)
        return;
    sk_rates_close(limits->users);
    sk_rates_close(limits->addresses);
    sk_rates_close(limits->documents);
    sk_rates_close(limits->failures);
    sk_tally_close(limits->connections);
    sk_tally_close(limits->long_users);
    sk_tally_close(limits->long_addresses);
    free(limits);
}

bool sk_limits_rated(const struct sk_limits *limits)
{
    return limits->users != NULL || limits->addresses != NULL;
}

const char *sk_limits_policy(const struct sk_limits *limits)
{
    return limits->policy[0] == '\0' ? NULL : limits->policy;
}

struct sk_rate *sk_limits_purchases(struct sk_limits *limits)
{
    return &limits->purchases;
}

// ---- rates ----

// False: addresses have no rate, or this address is not known.
static bool limits_key(const struct sk_limits *limits, const struct sk_request *request, uint64_t *key)
{
    struct sk_address client;
    if (limits->addresses == NULL || !sk_limits_client(limits, request, &client))
        return false;
    *key = sk_address_key(&client);
    return true;
}

static bool limits_take(struct sk_rates *rates, enum sk_policy policy, const void *client, size_t len,
                        struct sk_request *request)
{
    struct sk_limit *limit = &request->limit;
    uint64_t left;
    bool may = sk_rates_take(rates, client, len, sk_clock_ns(CLOCK_MONOTONIC), &left);
    if (limit->policy == SK_POLICY_NONE || left <= limit->left)
        *limit = (struct sk_limit){policy, (uint32_t)left};
    return may;
}

bool sk_limits_address(struct sk_limits *limits, struct sk_request *request)
{
    uint64_t key;
    if (!limits_key(limits, request, &key))
        return true;
    return limits_take(limits->addresses, SK_POLICY_ADDRESS, &key, sizeof key, request);
}

// This function and the next report a limit only if it rejects the request.
bool sk_limits_document(struct sk_limits *limits, struct sk_request *request)
{
    uint64_t key, left;
    if (!limits_key(limits, request, &key) ||
        sk_rates_take(limits->documents, &key, sizeof key, sk_clock_ns(CLOCK_MONOTONIC), &left))
        return true;
    request->limit = (struct sk_limit){SK_POLICY_ADDRESS, 0};
    return false;
}

bool sk_limits_may_fail(struct sk_limits *limits, struct sk_request *request)
{
    uint64_t key;
    if (!limits_key(limits, request, &key) ||
        sk_rates_left(limits->failures, &key, sizeof key, sk_clock_ns(CLOCK_MONOTONIC)) > 0)
        return true;
    request->limit = (struct sk_limit){SK_POLICY_ADDRESS, 0};
    return false;
}

void sk_limits_failed(struct sk_limits *limits, const struct sk_request *request)
{
    uint64_t key, left;
    if (limits_key(limits, request, &key))
        (void)sk_rates_take(limits->failures, &key, sizeof key, sk_clock_ns(CLOCK_MONOTONIC), &left);
}

bool sk_limits_user(struct sk_limits *limits, struct sk_request *request, const char *user)
{
    if (limits->users == NULL)
        return true;
    return limits_take(limits->users, SK_POLICY_USER, user, strlen(user), request);
}

// ---- addresses ----

// A gateway sets one of the two fields, and may pass on a client's own in the other. So if both are sent and differ,
// neither is trusted: such requests count for the gateway's address, which affects them alone.
static bool limits_read_client(const struct sk_limits *limits, const struct sk_request *request,
                               struct sk_address *client, bool *differ)
{
    static const char *const names[] = {[SK_FORWARDED] = "forwarded", [SK_FORWARDED_FOR] = "x-forwarded-for"};
    struct sk_address peer, named[2];
    bool sent[2] = {false, false};
    *differ = false;
    if (!sk_request_peer(request, &peer))
        return false;
    *client = peer;
    if (!sk_networks_have(&limits->trusted, &peer))
        return true;
    for (int form = SK_FORWARDED; form <= SK_FORWARDED_FOR; form++) {
        const char *values[FIELDS_MAX];
        size_t count = sk_request_header_values(request, names[form], values, FIELDS_MAX);
        sent[form] = count > 0;
        named[form] = sk_forwarded_client((enum sk_forwarded)form, &limits->trusted, &peer, values, count);
    }
    *differ = sent[SK_FORWARDED] && sent[SK_FORWARDED_FOR] && memcmp(&named[0], &named[1], sizeof named[0]) != 0;
    if (!*differ && (sent[SK_FORWARDED] || sent[SK_FORWARDED_FOR]))
        *client = named[sent[SK_FORWARDED] ? SK_FORWARDED : SK_FORWARDED_FOR];
    return true;
}

bool sk_limits_client(const struct sk_limits *limits, const struct sk_request *request, struct sk_address *client)
{
    bool differ;
    return limits_read_client(limits, request, client, &differ);
}

// ---- long requests ----

// A trusted proxy is not a client: it has not reported its client, unless two fields name different ones. Nor is a
// gateway that is not configured.
static bool limits_knows_address(const struct sk_limits *limits, const struct sk_request *request,
                                 struct sk_address *client)
{
    bool differ;
    return (limits->direct || limits->trusted.count > 0) && limits_read_client(limits, request, client, &differ) &&
           (differ || !sk_networks_have(&limits->trusted, client));
}

enum sk_long sk_limits_hold(struct sk_limits *limits, struct sk_request *request, const char *user)
{
    struct sk_hold *hold = &request->hold;
    struct sk_address client;
    if (limits->long_users != NULL && user[0] != '\0') {
        hold->user = sk_siphash(&limits->users_key, user, strlen(user));
        hold->of_user = sk_tally_add(limits->long_users, hold->user);
        if (!hold->of_user)
            return SK_LONG_OF_USER;
    }
    if (limits->long_addresses != NULL && limits_knows_address(limits, request, &client)) {
        hold->address = sk_address_key(&client);
        hold->of_address = sk_tally_add(limits->long_addresses, hold->address);
        if (!hold->of_address)
            return SK_LONG_OF_ADDRESS;
    }
    return SK_LONG_MAY;
}

void sk_limits_release(struct sk_limits *limits, const struct sk_hold *hold)
{
    if (hold->of_user)
        sk_tally_remove(limits->long_users, hold->user);
    if (hold->of_address)
        sk_tally_remove(limits->long_addresses, hold->address);
}

// ---- connections ----

const struct sk_peers *sk_limits_peers(const struct sk_limits *limits)
{
    return limits->connections == NULL ? NULL : &limits->peers;
}
