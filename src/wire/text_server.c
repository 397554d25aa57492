// libmicrohttpd with its own polling thread; server.h is the one that carries a sale.
#include "text_server.h"

#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "listener.h"
#include "log.h"

enum { CONNECTIONS = 16, IDLE_S = 10 };

struct sk_text_server {
    struct MHD_Daemon *daemon; // owned
    sk_text_cb *text;
    void *arg;
};

static enum MHD_Result text_answer(struct MHD_Connection *connection, unsigned status, const struct sk_buf *body)
{
    // Prometheus reads it as its own format; for everything else it is plain text.
    static const char type[] = "text/plain; version=0.0.4; charset=utf-8";
    struct MHD_Response *response = MHD_create_response_from_buffer(body->len, body->data, MHD_RESPMEM_MUST_COPY);
    if (response == NULL)
        return MHD_NO;
    enum MHD_Result result = MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    if (result == MHD_YES)
        result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result text_on_request(void *arg, struct MHD_Connection *connection, const char *url,
                                       const char *method, const char *version, const char *body, size_t *body_len,
                                       void **state)
{
    struct sk_text_server *server = arg;
    struct sk_buf out = {0};
    unsigned status = MHD_HTTP_OK;
    (void)version;
    (void)body;
    if (*state == NULL || *body_len > 0) { // asked again when all is read; a body is dropped
        *state = server;
        *body_len = 0;
        return MHD_YES;
    }
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0)
        status = MHD_HTTP_METHOD_NOT_ALLOWED;
    else if (!server->text(server->arg, url, &out))
        status = MHD_HTTP_NOT_FOUND;
    if (status != MHD_HTTP_OK)
        sk_buf_puts(&out, status == MHD_HTTP_NOT_FOUND ? "not found\n" : "only GET\n");
    enum MHD_Result result = out.failed ? MHD_NO : text_answer(connection, status, &out);
    sk_buf_free(&out);
    return result;
}

struct sk_text_server *sk_text_server_open(const char *address, sk_text_cb *text, void *arg)
{
    struct sk_text_server *server = calloc(1, sizeof *server);
    int listener = server == NULL ? -1 : sk_listen(address);
    if (server == NULL)
        sk_log(SK_LOG_ERROR, "out of memory", "");
    if (listener < 0) {
        free(server);
        return NULL;
    }
    server->text = text;
    server->arg = arg;
    server->daemon =
        MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_ITC, 0, NULL, NULL, text_on_request, server,
                         MHD_OPTION_LISTEN_SOCKET, listener, MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS,
                         MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S, MHD_OPTION_END);
    if (server->daemon != NULL)
        return server;
    sk_log(SK_LOG_ERROR, "cannot serve texts", "listen=%s", address);
    (void)close(listener);
    free(server);
    return NULL;
}

void sk_text_server_close(struct sk_text_server *server)
{
    if (server == NULL)
        return;
    MHD_stop_daemon(server->daemon); // closes the listener
    free(server);
}
