// The bench's ceiling: the service's own HTTP server on the same kind of loop, answering every request with a constant.
// The difference to the service is the cost of a sale.
//
// /park is parked for an hour, and /parked returns how many are parked. This measures what long waits cost other
// requests. /stream is a stream. All streams together get as many texts a second as the service sends to listeners,
// each as long as an event. This measures what the sending itself costs other requests.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "descriptors.h"
#include "log.h"
#include "response.h"
#include "server.h"
#include "timer.h"

struct ceiling {
    uv_loop_t loop;
    struct sk_server *server;
    struct sk_response *constant;
    struct sk_timer *slice;
    uint64_t *streams; // handles
    size_t count, next;
};

enum { PARK_MS = 3600000, NUMBER_SIZE = 24, STREAMS_MAX = 20000, SLICE_MS = 25, TEXTS_PER_SLICE = 100 };

static void answer(void *arg, struct sk_request *request)
{
    const struct ceiling *ceiling = arg;
    sk_request_answer(request, 200, ceiling->constant);
}

static void answer_parked(const struct ceiling *ceiling, struct sk_request *request)
{
    char body[NUMBER_SIZE];
    int n = snprintf(body, sizeof body, "%zu\n", sk_server_waiting(ceiling->server));
    struct sk_response *response = sk_response_new("text/plain", body, (size_t)n);
    sk_request_answer(request, 200, response);
    sk_response_free(response);
}

static void begin_stream(struct sk_request *request)
{
    struct sk_response *head = sk_stream_new(request);
    sk_request_answer(request, 200, head);
    sk_response_free(head);
}

static void handle(void *arg, struct sk_request *request)
{
    if (strcmp(request->path, "/park") == 0)
        sk_request_park(request, PARK_MS);
    else if (strcmp(request->path, "/stream") == 0)
        begin_stream(request);
    else if (strcmp(request->path, "/parked") == 0)
        answer_parked(arg, request);
    else
        answer(arg, request);
}

static void streams(void *arg, struct sk_request *request)
{
    struct ceiling *ceiling = arg;
    if (ceiling->count < STREAMS_MAX)
        ceiling->streams[ceiling->count++] = request->handle;
    else
        sk_stream_end(request);
}

// Streams too: their handles are invalid from now on, and leave the list when their turn comes.
static void gone(void *arg, struct sk_request *request)
{
    (void)arg;
    (void)request;
}

static void on_slice(void *arg)
{
    static const char text[] =
        "id: 1793300000123\ndata: {\"voucher_id\":\"7\",\"remaining\":99990000,\"state\":\"open\","
        "\"phase\":\"on_sale\",\"rate\":15000,\"server_time\":\"2026-01-01T00:00:00.000Z\"}\n\n";
    struct ceiling *ceiling = arg;
    for (int i = 0; i < TEXTS_PER_SLICE && ceiling->count > 0; i++) {
        ceiling->next = ceiling->next % ceiling->count;
        struct sk_request *request = sk_server_find_stream(ceiling->server, ceiling->streams[ceiling->next]);
        if (request == NULL) {
            ceiling->streams[ceiling->next] = ceiling->streams[--ceiling->count];
            continue;
        }
        (void)sk_stream_send(request, text, sizeof text - 1);
        ceiling->next++;
    }
}

static void malformed(void *arg, struct sk_request *request, enum sk_malformed what)
{
    (void)what;
    answer(arg, request);
}

static void on_turn(uv_prepare_t *turn)
{
    struct ceiling *ceiling = turn->data;
    (void)sk_server_turn(ceiling->server);
}

static void on_signal(uv_signal_t *signal, int number)
{
    (void)number;
    uv_stop(signal->loop);
}

int main(int argc, char **argv)
{
    static const char body[] = "{\"status\":\"constant\",\"note\":\"as long as a refusal of the service is\"}\n";
    static struct ceiling ceiling;
    struct sk_config config;
    enum sk_command command;
    uv_prepare_t turn;
    uv_signal_t term;
    // The stores are configured but never used.
    if (setenv("SECKILL_DATABASE_URL", "postgresql:///", 0) != 0 ||
        sk_config_read(&config, &command, argc, argv, stderr) != SK_OK || sk_descriptors_reserve(&config) != SK_OK)
        return 2;
    ceiling.constant = sk_response_new("application/json", body, sizeof body - 1);
    ceiling.streams = calloc(STREAMS_MAX, sizeof *ceiling.streams);
    if (ceiling.constant == NULL || ceiling.streams == NULL || uv_loop_init(&ceiling.loop) != 0)
        return 1;
    struct sk_handler handler = {handle, answer, malformed, streams, gone, &ceiling, NULL, NULL};
    ceiling.server = sk_server_open(&ceiling.loop, &config.server, &handler);
    if (ceiling.server == NULL)
        return 1;
    ceiling.slice = sk_timer_open(&ceiling.loop, SLICE_MS, on_slice, &ceiling);
    if (ceiling.slice == NULL)
        return 1;
    (void)uv_prepare_init(&ceiling.loop, &turn);
    turn.data = &ceiling;
    (void)uv_prepare_start(&turn, on_turn);
    (void)uv_signal_init(&ceiling.loop, &term);
    (void)uv_signal_start(&term, on_signal, SIGTERM);
    sk_log(SK_LOG_INFO, "serving", "listen=%s", config.server.listen);
    (void)uv_run(&ceiling.loop, UV_RUN_DEFAULT);

    sk_timer_close(ceiling.slice);
    sk_server_close(ceiling.server);
    free(ceiling.streams);
    uv_close((uv_handle_t *)&turn, NULL);
    uv_close((uv_handle_t *)&term, NULL);
    (void)uv_run(&ceiling.loop, UV_RUN_DEFAULT);
    sk_response_free(ceiling.constant);
    sk_config_free(&config);
    return uv_loop_close(&ceiling.loop) == 0 ? 0 : 1;
}
