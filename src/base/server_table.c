#include "server_table.h"

#include <stdio.h>
#include <string.h>

struct sk_server_row *sk_server_table_row(struct sk_server_rows *rows, const char *store, const char *name)
{
    char label[SK_SERVER_NAME_SIZE];
    (void)snprintf(label, sizeof label, "%s", name);
    for (char *at = label; (at = strpbrk(at, "\"\\\n")) != NULL;)
        *at = '?';
    for (size_t i = 0; i < rows->count; i++) {
        if (strcmp(rows->rows[i].store, store) == 0 && strcmp(rows->rows[i].name, label) == 0)
            return &rows->rows[i];
    }
    if (rows->count == SK_SERVERS_MAX)
        return NULL;
    struct sk_server_row *row = &rows->rows[rows->count++];
    *row = (struct sk_server_row){.store = store};
    memcpy(row->name, label, sizeof label);
    return row;
}

void sk_server_table_publish(struct sk_server_table *servers, const struct sk_server_rows *rows)
{
    if (pthread_mutex_trylock(&servers->lock) != 0)
        return;
    servers->kept.count = rows->count;
    memcpy(servers->kept.rows, rows->rows, rows->count * sizeof rows->rows[0]);
    (void)pthread_mutex_unlock(&servers->lock);
}

void sk_server_table_read(struct sk_server_table *servers, struct sk_server_rows *out)
{
    (void)pthread_mutex_lock(&servers->lock);
    for (size_t i = 0; i < servers->kept.count; i++) {
        const struct sk_server_row *kept = &servers->kept.rows[i];
        struct sk_server_row *row = sk_server_table_row(out, kept->store, kept->name);
        if (row == NULL)
            continue;
        row->up += kept->up;
        row->lost += kept->lost;
        row->answers += kept->answers;
        row->answered_ns += kept->answered_ns;
    }
    (void)pthread_mutex_unlock(&servers->lock);
}
