// Which web pages of other origins may read answers: the CORS protocol of the Fetch standard, for a list of origins.
// Pages of other origins, and clients that are not browsers, get answers as they are without it.
//
// A browser first sends a preflight (OPTIONS with Access-Control-Request-Method) if a page wants to send more than a
// form could. The answer is the same for every path, so that the page then sees a 404 or a 405 as it is.
#ifndef SK_IDENTITY_CORS_H
#define SK_IDENTITY_CORS_H

#include <stdbool.h>
#include <stdio.h>

#include "request.h"

enum { SK_CORS_ORIGINS_MAX = 16, SK_CORS_ORIGIN_SIZE = 256 };

struct sk_cors;

// The reactor's thread, as all functions. `origins`: separated by commas or blanks, each as browsers send it,
// scheme://host[:port]; NULL: none. Returns NULL if one of them is wrong, which is printed on `err`, or out of memory.
struct sk_cors *sk_cors_open(const char *origins, FILE *err);
// The same for the list of another setting, which errors name.
struct sk_cors *sk_cors_open_list(const char *setting, const char *origins, FILE *err);
void sk_cors_close(struct sk_cors *cors); // NULL is fine

// The number of origins; 0 for NULL. If it is 0, nothing is added to any answer.
unsigned sk_cors_count(const struct sk_cors *cors);
// One of them, from 0.
const char *sk_cors_origin(const struct sk_cors *cors, unsigned i);
// Whether the URL leads to one of them. False for NULL.
bool sk_cors_has_url(const struct sk_cors *cors, const char *url);

// Which of them the request comes from: 1 to their number. 0: none of them, or no origin is sent.
unsigned sk_cors_origin_of(const struct sk_cors *cors, const struct sk_request *request);

// Whether a browser sends the request for a page whose origin is neither in the list nor the requested one. For unsafe
// methods: the gateway may know the user by a cookie, which the browser sends for any page.
//
//   an origin of the list         not foreign
//   Sec-Fetch-Site: cross-site    foreign; same-origin, none: not
//   any other value of it         by Origin; foreign without one: a page of the same site may be another's
//   no Sec-Fetch-Site             by Origin; not foreign without one: not a browser, or an old one on its own page
//
// By Origin: not foreign if it names the requested Host. `null` names none.
bool sk_cors_is_foreign(const struct sk_cors *cors, const struct sk_request *request);

// Adds the fields that let a page of this origin read the response. 0: adds only that another origin may get another
// response. NULL is fine.
void sk_cors_mark(const struct sk_cors *cors, unsigned origin, struct sk_response *response);

// Whether the request is a preflight.
bool sk_cors_is_preflight(const struct sk_request *request);

// Gives the answer to a preflight, to be sent with 204. NULL: out of memory.
struct sk_response *sk_cors_preflight(const struct sk_cors *cors, unsigned origin);

#endif
