// The built-in pages: the shop, the operators' dashboard, the payment page of the demo, and the files they load. They
// are part of the program (embedded_pages.h) and never change, so all answers are made at the start.
//
// The loop's thread, as all functions.
#ifndef SK_API_PAGES_H
#define SK_API_PAGES_H

#include "call.h"
#include "identity_options.h"

struct sk_pages;

sk_handle sk_handle_page, sk_handle_demo_page;

// NULL: out of memory.
struct sk_pages *sk_pages_open(enum sk_auth auth, bool demo);
void sk_pages_close(struct sk_pages *pages); // NULL is fine

// Answers with the file of the request's path: 200, or 304 to a client that has it. Without keep_alive the answer
// closes its connection. False: there is no such path, and the request is not answered.
bool sk_pages_answer(const struct sk_pages *pages, struct sk_request *request, bool keep_alive);

#endif
