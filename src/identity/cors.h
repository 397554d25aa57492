// Which web pages of other origins may read what is answered: the CORS protocol of the Fetch standard, for a list of
// origins. Pages of other origins, and clients that are no browsers, see answers as they are without it.
//
// A browser asks first (a preflight: OPTIONS with Access-Control-Request-Method) where a page wants to send more than a
// form could. What is allowed is the same for every path, so that the page then sees a 404 or a 405 as it is.
#ifndef SK_IDENTITY_CORS_H
#define SK_IDENTITY_CORS_H

#include <stdbool.h>
#include <stdio.h>

#include "request.h"

enum { SK_CORS_ORIGINS_MAX = 16, SK_CORS_ORIGIN_SIZE = 256 };

struct sk_cors;

// The reactor's thread, as all functions. `origins`: parted by commas or blanks, each as browsers send it,
// scheme://host[:port]; NULL: none. NULL: one of them is wrong, which is said on `err`, or out of memory.
struct sk_cors *sk_cors_open(const char *origins, FILE *err);
void sk_cors_close(struct sk_cors *cors); // NULL is fine

// How many there are; of NULL none. None: nothing is to be added to any answer.
unsigned sk_cors_count(const struct sk_cors *cors);

// From which of them the request comes: 1 to their number; 0: from none of them, or none is said.
unsigned sk_cors_origin_of(const struct sk_cors *cors, const struct sk_request *request);

// Whether a browser sends the request for a page of an origin that is neither one of them nor the one that is asked: of
// requests that change something, whose user the gateway knows by a cookie, which the browser sends for any page.
//
//   an origin of the list         not foreign
//   Sec-Fetch-Site: cross-site    foreign; same-origin, none: not
//   any other value of it         by Origin; foreign without one: a page of the same site may be another's
//   no Sec-Fetch-Site             by Origin; not foreign without one: it is no browser, or an old one that asks its own
//
// By Origin: it names the Host that is asked. `null` names none.
bool sk_cors_is_foreign(const struct sk_cors *cors, const struct sk_request *request);

// Adds what lets a page of this origin read the response; 0: only that another origin may get another one. NULL is
// fine.
void sk_cors_mark(const struct sk_cors *cors, unsigned origin, struct sk_response *response);

// Whether a browser asks what it may send.
bool sk_cors_is_preflight(const struct sk_request *request);

// Gives the answer to that, to be sent with 204. NULL: out of memory.
struct sk_response *sk_cors_preflight(const struct sk_cors *cors, unsigned origin);

#endif
