// The routes: what the interface is. Finds the handler for a request, checks who asks and what the path says, and
// brings the outcomes back to the requests that wait for them.
#ifndef SK_HTTP_ROUTES_H
#define SK_HTTP_ROUTES_H

#include "server.h"
#include "shop.h"
#include "user_tokens.h"

struct sk_limits;
struct sk_measure;
struct sk_metrics;
struct sk_routes;
struct sk_secrets;
struct sk_spool_lane;

// The reactor's thread, as all functions. NULL: out of memory, or the tokens, the ticket secret or the origins of the
// configuration are wrong, which is said on standard error. Borrows config and limits (NULL: no client is limited).
struct sk_routes *sk_routes_open(const struct sk_config *config, struct sk_limits *limits);
void sk_routes_close(struct sk_routes *routes); // after server and shop; NULL is fine

// The two ends it connects; set once both exist.
void sk_routes_connect(struct sk_routes *routes, struct sk_server *server, struct sk_shop *shop);

// Where the access log goes; NULL: nowhere. Before any request comes. Borrowed.
void sk_routes_write_log(struct sk_routes *routes, struct sk_spool_lane *lane);

// Users have tokens from now on, and X-User-Id says nothing. Before any request comes. Borrowed.
void sk_routes_trust_tokens(struct sk_routes *routes, struct sk_user_tokens *users);

// Its listener is for operators: what is theirs (route_table.h) and the probes are all there is, and no user is known.
// Before any request comes.
void sk_routes_serve_operators(struct sk_routes *routes);

// New secrets are taken with the next turn after they were read. Before any request comes. Borrowed.
void sk_routes_renew_secrets(struct sk_routes *routes, struct sk_secrets *secrets);
void sk_routes_turn(struct sk_routes *routes);

// The last two phases. Draining: new orders are refused with SHUTTING_DOWN, /readyz says 503, all else is served; every
// answer ends its connection. Ended: the shop may go, since no request reaches it any more; every one is refused
// with SHUTTING_DOWN. Outcomes for requests that wait are still answered.
void sk_routes_drain(struct sk_routes *routes);
void sk_routes_end(struct sk_routes *routes);

// Where requests are measured, and refusals and wrong tokens counted, from now on; both borrowed.
void sk_routes_measure(struct sk_routes *routes, struct sk_measure *measure, struct sk_metrics *metrics);

// The callbacks for struct sk_handler and struct sk_shop_options; arg is the routes.
void sk_routes_handle(void *arg, struct sk_request *request);
void sk_routes_expired(void *arg, struct sk_request *request);
void sk_routes_streams(void *arg, struct sk_request *request);
void sk_routes_gone(void *arg, struct sk_request *request);
void sk_routes_released(void *arg, const struct sk_hold *hold);
bool sk_routes_send(void *arg, uint64_t ticket, const char *text, size_t len);
void sk_routes_end_stream(void *arg, uint64_t ticket);
void sk_routes_malformed(void *arg, struct sk_request *request, enum sk_verdict verdict);
void sk_routes_outcome(void *arg, uint64_t ticket, const struct sk_outcome *outcome);

#endif
