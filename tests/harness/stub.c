#include "stub.h"

#include <arpa/inet.h>
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BACKLOG = 8 };

static void stub_on_room(uv_handle_t *client, size_t wanted, uv_buf_t *room)
{
    struct stub *stub = client->data;
    (void)wanted;
    *room = uv_buf_init(stub->bytes + stub->len, (unsigned)(STUB_BYTES_MAX - stub->len));
}

static void stub_on_bytes(uv_stream_t *client, ssize_t n, const uv_buf_t *room)
{
    struct stub *stub = client->data;
    (void)room;
    if ((uv_stream_t *)stub->client != client)
        return;
    if (n < 0) {
        stub_hang_up(stub);
        return;
    }
    stub->len += (size_t)n;
    for (size_t taken = 1; taken > 0 && stub->len > 0;) {
        stub->bytes[stub->len] = '\0';
        taken = stub->receive(stub, stub->bytes, stub->len);
        stub->len -= taken;
        memmove(stub->bytes, stub->bytes + taken, stub->len);
    }
}

static void stub_on_connection(uv_stream_t *listener, int status)
{
    struct stub *stub = listener->data;
    ck_assert_int_eq(status, 0);
    stub_hang_up(stub);
    stub->client = calloc(1, sizeof *stub->client);
    ck_assert_ptr_nonnull(stub->client);
    ck_assert_int_eq(uv_tcp_init(stub->loop, stub->client), 0);
    stub->client->data = stub;
    (void)uv_tcp_nodelay(stub->client, 1); // else an answer in two writes waits for a delayed ACK
    ck_assert_int_eq(uv_accept(listener, (uv_stream_t *)stub->client), 0);
    ck_assert_int_eq(uv_read_start((uv_stream_t *)stub->client, stub_on_room, stub_on_bytes), 0);
    stub->clients++;
}

void stub_open(struct stub *stub, uv_loop_t *loop, size_t (*receive)(struct stub *stub, const char *bytes, size_t n))
{
    struct sockaddr_in address;
    int len = sizeof address;
    *stub = (struct stub){.loop = loop, .receive = receive};
    ck_assert_int_eq(uv_tcp_init(loop, &stub->listener), 0);
    stub->listener.data = stub;
    ck_assert_int_eq(uv_ip4_addr("127.0.0.1", 0, &address), 0);
    ck_assert_int_eq(uv_tcp_bind(&stub->listener, (struct sockaddr *)&address, 0), 0);
    ck_assert_int_eq(uv_listen((uv_stream_t *)&stub->listener, BACKLOG, stub_on_connection), 0);
    ck_assert_int_eq(uv_tcp_getsockname(&stub->listener, (struct sockaddr *)&address, &len), 0);
    stub->port = ntohs(address.sin_port);
}

void stub_close(struct stub *stub)
{
    stub_hang_up(stub);
    uv_close((uv_handle_t *)&stub->listener, NULL);
}

static void stub_on_sent(uv_write_t *write, int status)
{
    (void)status;
    free(write);
}

void stub_send(struct stub *stub, const void *bytes, size_t n)
{
    ck_assert_ptr_nonnull(stub->client);
    uv_write_t *write = malloc(sizeof *write + n);
    ck_assert_ptr_nonnull(write);
    char *copy = (char *)(write + 1);
    memcpy(copy, bytes, n);
    uv_buf_t buf = uv_buf_init(copy, (unsigned)n);
    ck_assert_int_eq(uv_write(write, (uv_stream_t *)stub->client, &buf, 1, stub_on_sent), 0);
}

void stub_say(struct stub *stub, const char *text)
{
    stub_send(stub, text, strlen(text));
}

void stub_say_bulk(struct stub *stub, const char *text)
{
    char head[32];
    (void)snprintf(head, sizeof head, "$%zu\r\n", strlen(text));
    stub_say(stub, head);
    stub_say(stub, text);
    stub_say(stub, "\r\n");
}

static void stub_on_closed(uv_handle_t *client)
{
    free(client);
}

void stub_hang_up(struct stub *stub)
{
    if (stub->client != NULL)
        uv_close((uv_handle_t *)stub->client, stub_on_closed);
    stub->client = NULL;
    stub->len = 0;
}
