// The bench's ceiling: the service's own HTTP server on the same kind of loop, answering every request
// with a constant. What the service does beyond this is what a sale costs.
//
// /park is parked for an hour, and /parked tells how many are: what requests that wait for seconds cost the others.
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "descriptors.h"
#include "log.h"
#include "server.h"

struct ceiling {
    uv_loop_t loop;
    struct sk_server *server;
    struct sk_response *constant;
};

enum { PARK_MS = 3600000, NUMBER_SIZE = 24 };

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

static void handle(void *arg, struct sk_request *request)
{
    if (strcmp(request->path, "/park") == 0)
        sk_request_park(request, PARK_MS);
    else if (strcmp(request->path, "/parked") == 0)
        answer_parked(arg, request);
    else
        answer(arg, request);
}

static void gone(void *arg, struct sk_request *request)
{
    (void)arg;
    (void)request;
}

static struct sk_response *malformed(void *arg, enum sk_verdict verdict)
{
    struct ceiling *ceiling = arg;
    (void)verdict;
    return ceiling->constant;
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
    // The stores are configured but never asked.
    if (setenv("SECKILL_DATABASE_URL", "postgresql:///", 0) != 0 ||
        sk_config_read(&config, &command, argc, argv, stderr) != SK_OK || sk_descriptors_reserve(&config) != SK_OK)
        return 2;
    ceiling.constant = sk_response_new("application/json", body, sizeof body - 1);
    if (ceiling.constant == NULL || uv_loop_init(&ceiling.loop) != 0)
        return 1;
    struct sk_handler handler = {handle, answer, malformed, gone, gone, &ceiling};
    ceiling.server = sk_server_open(&ceiling.loop, &config, &handler);
    if (ceiling.server == NULL)
        return 1;
    (void)uv_prepare_init(&ceiling.loop, &turn);
    turn.data = &ceiling;
    (void)uv_prepare_start(&turn, on_turn);
    (void)uv_signal_init(&ceiling.loop, &term);
    (void)uv_signal_start(&term, on_signal, SIGTERM);
    sk_log(SK_LOG_INFO, "serving", "listen=%s", config.listen);
    (void)uv_run(&ceiling.loop, UV_RUN_DEFAULT);

    sk_server_close(ceiling.server);
    uv_close((uv_handle_t *)&turn, NULL);
    uv_close((uv_handle_t *)&term, NULL);
    (void)uv_run(&ceiling.loop, UV_RUN_DEFAULT);
    sk_response_free(ceiling.constant);
    sk_config_free(&config);
    return uv_loop_close(&ceiling.loop) == 0 ? 0 : 1;
}
