// Limits of what a client may ask for. A user or an address: tries in a second, long requests. An address: documents,
// failed logins, connections. All clients together: purchases. There is one for the process, which its reactors share,
// so that more reactors do not give a client more.
#ifndef SK_IDENTITY_CLIENT_LIMITS_H
#define SK_IDENTITY_CLIENT_LIMITS_H

#include <stdio.h>

#include "address.h"
#include "identity_options.h"
#include "rates.h"
#include "server.h"

struct sk_limits;

// The main thread, before and after the others, as sk_limits_close. NULL: out of memory, or the list of trusted proxies
// is wrong, which is printed on `err`.
struct sk_limits *sk_limits_open(const struct sk_identity_options *options, const struct sk_server_options *server,
                                 FILE *err);
void sk_limits_close(struct sk_limits *limits); // NULL is fine

// Any thread, as all below.

// Whether users or addresses have rates; if not, no check is needed.
bool sk_limits_rated(const struct sk_limits *limits);

// The value of RateLimit-Policy, as long as the limits live; NULL: no rate is set.
const char *sk_limits_policy(const struct sk_limits *limits);

// Counts one try of the request's address, or of its user. False: over the rate. request->limit keeps the checked limit
// that leaves least.
bool sk_limits_address(struct sk_limits *limits, struct sk_request *request);
bool sk_limits_user(struct sk_limits *limits, struct sk_request *request, const char *user);

// The same for a document, which is made at the start: an address may ask for ten times as many.
bool sk_limits_document(struct sk_limits *limits, struct sk_request *request);

// For wrong admin tokens and signatures. The first function returns false if the request's address has sent too many,
// so that no more are checked; the second counts one more.
bool sk_limits_may_fail(struct sk_limits *limits, struct sk_request *request);
void sk_limits_failed(struct sk_limits *limits, const struct sk_request *request);

// The client's address, as far as trusted proxies report it. False: the connection has none.
bool sk_limits_client(const struct sk_limits *limits, const struct sk_request *request, struct sk_address *client);

// Whether a long request may start, or which limit rejects it: its user's, or its address's.
enum sk_long { SK_LONG_MAY, SK_LONG_OF_USER, SK_LONG_OF_ADDRESS };

// Counts a long request (request.h) for its user ("": unknown), and for its address if that is known: if trusted
// proxies report it, or if clients connect directly to a listener that other machines can reach. request->hold records
// what was counted, also for a rejected request. Release it when the request has ended.
enum sk_long sk_limits_hold(struct sk_limits *limits, struct sk_request *request, const char *user);
void sk_limits_release(struct sk_limits *limits, const struct sk_hold *hold);

// For the server: limits the connections of an address. NULL: they are not limited.
const struct sk_peers *sk_limits_peers(const struct sk_limits *limits);

// For the shop: the rate of all clients' purchases.
struct sk_rate *sk_limits_purchases(struct sk_limits *limits);

#endif
