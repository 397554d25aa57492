// Every client with write access to Redis can write a journal entry, so all of it is checked.
#include "journal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"
#include "trust.h"
#include "uuid.h"

int sk_journal_parse(const char *orders, size_t len, void (*each)(void *arg, const char *id, const char *user),
                     void *arg)
{
    int count = 0;
    const char *at = orders, *end = orders + len;
    while (at < end) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        size_t n = (size_t)((comma == NULL ? end : comma) - at);
        char id[SK_UUID_SIZE], user[SK_USER_SIZE];
        if (n <= SK_UUID_CHARS + 1 || n - SK_UUID_CHARS - 1 > SK_USER_MAX || at[SK_UUID_CHARS] != ' ')
            return -1;
        memcpy(id, at, SK_UUID_CHARS);
        id[SK_UUID_CHARS] = '\0';
        memcpy(user, at + SK_UUID_CHARS + 1, n - SK_UUID_CHARS - 1);
        user[n - SK_UUID_CHARS - 1] = '\0';
        if (!sk_uuid_valid(id) || !sk_text_user(user) || strlen(user) != n - SK_UUID_CHARS - 1)
            return -1;
        if (each != NULL)
            each(arg, id, user);
        count++;
        at += n + 1;
    }
    return count > 0 && orders[len - 1] != ',' ? count : -1;
}

static const struct sk_reply *journal_field(const struct sk_reply *fields, const char *name)
{
    for (size_t i = 0; i + 1 < sk_reply_count(fields); i += 2) {
        const char *text = sk_reply_text(sk_reply_at(fields, i), NULL);
        if (text != NULL && strcmp(text, name) == 0)
            return sk_reply_at(fields, i + 1);
    }
    return NULL;
}

bool sk_journal_read(const struct sk_reply *element, struct sk_journal_entry *entry)
{
    const struct sk_reply *fields = sk_reply_at(element, 1);
    *entry = (struct sk_journal_entry){.count = -1};
    entry->id = sk_reply_text(sk_reply_at(element, 0), NULL);
    if (entry->id == NULL || !sk_trust_is_journal_id(entry->id))
        return false;
    const char *orders = sk_reply_text(journal_field(fields, "orders"), &entry->orders_len);
    const struct sk_reply *session = journal_field(fields, "session");
    entry->session = sk_reply_text(session, NULL);
    bool is_named = session == NULL || (entry->session != NULL && sk_uuid_valid(entry->session));
    if (is_named && orders != NULL && sk_trust_number(journal_field(fields, "epoch"), SK_TRUST_MAX, &entry->epoch))
        entry->count = sk_journal_parse(orders, entry->orders_len, NULL, NULL);
    if (entry->count > SK_JOURNAL_ORDERS_MAX)
        entry->count = -1;
    if (entry->count > 0)
        entry->orders = orders;
    return true;
}

// Returns n; adds as much of it as fits.
static size_t journal_add_within(struct sk_buf *raw, size_t most, const char *bytes, size_t n)
{
    size_t room = raw->len < most ? most - raw->len : 0;
    sk_buf_add(raw, bytes, n < room ? n : room);
    return n;
}

size_t sk_journal_raw(const struct sk_reply *element, size_t most, struct sk_buf *raw)
{
    const struct sk_reply *fields = sk_reply_at(element, 1);
    size_t whole = 0;
    sk_buf_puts(raw, "");
    for (size_t i = 0; i < sk_reply_count(fields); i++) {
        size_t len = 0;
        char prefix[24];
        const char *text = sk_reply_text(sk_reply_at(fields, i), &len);
        int n = snprintf(prefix, sizeof prefix, "%zu:", text == NULL ? 0 : len);
        whole += journal_add_within(raw, most, prefix, (size_t)n);
        whole += journal_add_within(raw, most, text == NULL ? "" : text, text == NULL ? 0 : len);
        whole += journal_add_within(raw, most, ",", 1);
    }
    return whole;
}

int sk_journal_compare(const char *a, const char *b)
{
    char *a_rest, *b_rest;
    uint64_t a_n = strtoull(a, &a_rest, 10), b_n = strtoull(b, &b_rest, 10);
    if (a_n == b_n) {
        a_n = *a_rest == '-' ? strtoull(a_rest + 1, NULL, 10) : 0;
        b_n = *b_rest == '-' ? strtoull(b_rest + 1, NULL, 10) : 0;
    }
    return (a_n > b_n) - (a_n < b_n);
}
