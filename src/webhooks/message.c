#include "message.h"

#include <stdio.h>
#include <string.h>

#include "text.h"
#include "uuid.h"

// Columns of the statement.
enum { EVENT_TX, EVENT_SEQ, EVENT_NAME, EVENT_AT, EVENT_DOCUMENT };

static void message_put_event(struct sk_buf *body, const struct sk_rows *rows, size_t row, const char *id)
{
    const char *document = sk_rows_text(rows, row, EVENT_DOCUMENT);
    SK_ASSERT(document[0] == '{' && document[1] != '}');
    sk_buf_printf(body, "{\"type\":\"%s\",\"timestamp\":\"%s\",\"data\":{\"id\":\"%s\",%s}",
                  sk_rows_text(rows, row, EVENT_NAME), sk_rows_text(rows, row, EVENT_AT), id, document + 1);
}

static struct sk_position message_position(const struct sk_rows *rows, size_t row)
{
    return (struct sk_position){(uint64_t)sk_rows_number(rows, row, EVENT_TX),
                                (uint64_t)sk_rows_number(rows, row, EVENT_SEQ)};
}

enum sk_status sk_message_make(struct sk_message *message, const struct sk_receiver *receiver,
                               const struct sk_rows *rows, size_t shard, size_t shards)
{
    struct sk_buf events = {0};
    const char *last_at = "";
    size_t row = 0, count = sk_rows_count(rows);
    sk_buf_clear(&message->body);
    message->events = 0;
    for (; row < count && message->events < receiver->page; row++) {
        if (!sk_receiver_wants(receiver, sk_rows_text(rows, row, EVENT_NAME)))
            continue;
        last_at = sk_rows_text(rows, row, EVENT_AT);
        if (message->events++ == 0)
            (void)snprintf(message->first_at, sizeof message->first_at, "%s", last_at);
        else
            sk_buf_puts(&events, ",");
        struct sk_position own = message_position(rows, row);
        sk_cursor_put_event(message->id, &own, shard, shards);
        message_put_event(&events, rows, row, message->id);
    }
    SK_ASSERT(row > 0);
    (void)snprintf(message->behind.tx, sizeof message->behind.tx, "%s", sk_rows_text(rows, row - 1, EVENT_TX));
    (void)snprintf(message->behind.seq, sizeof message->behind.seq, "%s", sk_rows_text(rows, row - 1, EVENT_SEQ));
    if (receiver->page > 1)
        sk_buf_printf(&message->body, "{\"type\":\"seckill.events\",\"timestamp\":\"%s\",\"data\":{\"events\":[",
                      last_at);
    if (message->events > 0)
        sk_buf_add(&message->body, events.data, events.len);
    if (receiver->page > 1)
        sk_buf_puts(&message->body, "]}}");
    bool failed = events.failed || message->body.failed;
    sk_buf_free(&events);
    return failed ? SK_NO_MEM : SK_OK;
}

enum sk_status sk_message_make_test(struct sk_message *message, int64_t now_ms)
{
    struct sk_uuid_gen ids = {0};
    char at[SK_TIME_SIZE], id[SK_UUID_SIZE];
    sk_text_put_time(now_ms, at);
    sk_uuid_next(&ids, id);
    sk_buf_clear(&message->body);
    message->events = 1;
    (void)snprintf(message->first_at, sizeof message->first_at, "%s", at);
    (void)snprintf(message->id, sizeof message->id, "test_%s", id);
    sk_buf_printf(&message->body, "{\"type\":\"seckill.test\",\"timestamp\":\"%s\",\"data\":{\"id\":\"%s\"}}", at,
                  message->id);
    return message->body.failed ? SK_NO_MEM : SK_OK;
}

void sk_message_free(struct sk_message *message)
{
    sk_buf_free(&message->body);
}
