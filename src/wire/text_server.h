// A small HTTP server on a thread of its own, for a process that shows texts and nothing else: GET of a path gives a
// text. It has few connections, and none is kept for long.
#ifndef SK_WIRE_TEXT_SERVER_H
#define SK_WIRE_TEXT_SERVER_H

#include <stdbool.h>

#include "buf.h"

struct sk_text_server;

// Writes the text of a path. False: there is none. Its own thread.
typedef bool sk_text_cb(void *arg, const char *path, struct sk_buf *out);

// One thread, as sk_text_server_close. NULL: the address cannot be listened on, or out of memory, which is logged.
struct sk_text_server *sk_text_server_open(const char *address, sk_text_cb *text, void *arg);
void sk_text_server_close(struct sk_text_server *server); // the callback runs no more; NULL is fine

#endif
