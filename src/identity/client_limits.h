// What a client may ask for: tries of a user and of an address in a second, documents and failed logins of an address,
// connections of an address, long requests of a user and of an address, purchases of all together. One for the process:
// its reactors share it, so that a client has no more of it with more of them.
#ifndef SK_IDENTITY_CLIENT_LIMITS_H
#define SK_IDENTITY_CLIENT_LIMITS_H

#include <stdio.h>

#include "identity_options.h"
#include "rates.h"
#include "server.h"

struct sk_limits;

// The main thread, before and after the others, as sk_limits_close. NULL: out of memory, or the list of trusted proxies
// is wrong, which is said on `err`.
struct sk_limits *sk_limits_open(const struct sk_identity_options *options, const struct sk_server_options *server,
                                 FILE *err);
void sk_limits_close(struct sk_limits *limits); // NULL is fine

// Any thread, as all below.

// Whether users or addresses have rates: if not, there is no need to ask.
bool sk_limits_rated(const struct sk_limits *limits);

// RateLimit-Policy, for as long as the limits live; NULL: no rate is set.
const char *sk_limits_policy(const struct sk_limits *limits);

// Takes one try of the request's address, or of its user: OK, or RATE_LIMITED. Of the limits that were asked, the
// one that leaves least is kept in request->limit.
enum sk_verdict sk_limits_address(struct sk_limits *limits, struct sk_request *request);
enum sk_verdict sk_limits_user(struct sk_limits *limits, struct sk_request *request, const char *user);

// The same of a document, which is made at the start: an address may have ten times as many.
enum sk_verdict sk_limits_document(struct sk_limits *limits, struct sk_request *request);

// Tokens of admins and signatures that were wrong: RATE_LIMITED if the request's address has sent too many, so no more
// of it are looked at; and one more.
enum sk_verdict sk_limits_may_fail(struct sk_limits *limits, struct sk_request *request);
void sk_limits_failed(struct sk_limits *limits, const struct sk_request *request);

// The address from which the client asks, as far as trusted proxies say it. False: the connection has none.
bool sk_limits_client(const struct sk_limits *limits, const struct sk_request *request, struct sk_address *client);

// What of a long request is counted: it may be refused by its user, or by its address.
enum sk_long { SK_LONG_MAY, SK_LONG_OF_USER, SK_LONG_OF_ADDRESS };

// Counts a long request (request.h) for its user ("": none is known) and for its address, where that is known: where
// trusted proxies tell it, or where clients connect straight to a listener that other machines can reach. What was
// counted stands in request->hold, also of one that is refused, and is to be released when the request has ended.
enum sk_long sk_limits_hold(struct sk_limits *limits, struct sk_request *request, const char *user);
void sk_limits_release(struct sk_limits *limits, const struct sk_hold *hold);

// For the server: connections of an address. NULL: they are not limited.
const struct sk_peers *sk_limits_peers(const struct sk_limits *limits);

// For the shop: purchases of all clients in a second.
struct sk_rate *sk_limits_purchases(struct sk_limits *limits);

#endif
