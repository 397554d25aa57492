// The routes. Finds the handler of a request, checks the caller and the path, and brings results and answers back to
// the waiting requests.
#ifndef SK_API_ROUTES_H
#define SK_API_ROUTES_H

#include "api_options.h"
#include "query.h"
#include "server.h"
#include "user_tokens.h"

struct sk_limits;
struct sk_measure;
struct sk_routes;
struct sk_secrets;
struct sk_spool_lane;

// All are borrowed.
struct sk_routes_options {
    const struct sk_api_options *api;
    const struct sk_identity_options *identity;
    const struct sk_store_options *stores;  // time limits of the stores
    const struct sk_server_options *server; // which requests have a trace, and a line in the access log
    struct sk_limits *limits;               // NULL: no client is limited
    struct sk_secrets *secrets;             // new ones are taken at the end of a loop turn; NULL: none come
    struct sk_user_tokens *users;           // checks users' tokens; NULL: X-User-Id names the user
    struct sk_spool_lane *lane;             // for the access log; NULL: none is written
    struct sk_measure *measure;             // measures requests; NULL: nothing does
    struct sk_metrics *metrics;             // counts refusals and wrong tokens; NULL: nothing does
    // Renders the page /metrics; `sum` is the process's. NULL: an empty page.
    void (*render_metrics)(const struct sk_metrics_sum *sum, bool open_metrics, struct sk_buf *out);
    bool operators; // the listener is the operators': it serves no SK_PLACE_BUYERS (route_table.h)
};

// The reactor's thread, as all functions. NULL: out of memory, or the tokens, the ticket secret or the origins are
// wrong, which is printed on standard error.
struct sk_routes *sk_routes_open(const struct sk_routes_options *options);
void sk_routes_close(struct sk_routes *routes); // after the server and the control plane; NULL is fine

// Connects the server and the control plane; called once both exist.
void sk_routes_connect(struct sk_routes *routes, struct sk_server *server, struct sk_control *control);

// The end of a loop turn: takes new secrets.
void sk_routes_turn(struct sk_routes *routes);

// The last two phases. Draining: new orders are refused with SHUTTING_DOWN, /readyz returns 503, all else is served;
// every answer closes its connection. Ended: every request is refused with SHUTTING_DOWN, so none reaches the control
// plane, which may be closed. Waiting requests still get their answers.
void sk_routes_drain(struct sk_routes *routes);
void sk_routes_end(struct sk_routes *routes);

// The callbacks of struct sk_handler, struct sk_sale and struct sk_control; arg is the routes.
void sk_routes_handle(void *arg, struct sk_request *request);
void sk_routes_expired(void *arg, struct sk_request *request);
void sk_routes_streams(void *arg, struct sk_request *request);
void sk_routes_gone(void *arg, struct sk_request *request);
void sk_routes_released(void *arg, const struct sk_hold *hold);
bool sk_routes_send(void *arg, uint64_t handle, const char *text, size_t len);
void sk_routes_end_stream(void *arg, uint64_t handle);
void sk_routes_malformed(void *arg, struct sk_request *request, enum sk_malformed what);
void sk_routes_result(void *arg, uint64_t handle, const struct sk_purchase_result *result);
void sk_routes_answer(void *arg, uint64_t handle, const struct sk_answer *answer);

#endif
