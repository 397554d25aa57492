// Every client with write access to Redis can write a journal entry, so all of it is checked.
#include "journal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "order.h"
#include "params.h"
#include "text.h"
#include "trust.h"
#include "uuid.h"

static bool journal_read_key(const char *text, size_t len, uint64_t *key)
{
    *key = 0;
    for (size_t i = 0; i < len; i++) {
        const char *digits = "0123456789abcdef", *digit = text[i] == '\0' ? NULL : strchr(digits, text[i]);
        if (digit == NULL)
            return false;
        *key = *key << 4 | (uint64_t)(digit - digits);
    }
    return len == SK_JOURNAL_KEY_SIZE - 1 && *key != 0;
}

// " quantity[ key]"
static bool journal_read_more(const char *text, size_t len, struct sk_journal_order *order)
{
    size_t at = 1;
    unsigned quantity = 0;
    while (at < len && text[at] >= '0' && text[at] <= '9' && quantity <= SK_QUANTITY_MAX)
        quantity = quantity * 10 + (unsigned)(text[at++] - '0');
    order->quantity = quantity;
    if (at == 1 || text[1] == '0' || quantity > SK_QUANTITY_MAX)
        return false;
    if (at == len)
        return quantity > 1; // a quantity of 1 is never written, so there is one form only
    return text[at] == ' ' && journal_read_key(text + at + 1, len - at - 1, &order->key);
}

// "id user[ quantity[ key]]", all of it.
static bool journal_read_order(const char *text, size_t len, char id[SK_UUID_SIZE], char user[SK_USER_SIZE],
                               struct sk_journal_order *order)
{
    if (len <= SK_UUID_CHARS + 1 || text[SK_UUID_CHARS] != ' ')
        return false;
    const char *name = text + SK_UUID_CHARS + 1;
    size_t rest = len - SK_UUID_CHARS - 1;
    const char *space = memchr(name, ' ', rest);
    size_t n = space == NULL ? rest : (size_t)(space - name);
    if (n > SK_USER_MAX)
        return false;
    memcpy(id, text, SK_UUID_CHARS);
    id[SK_UUID_CHARS] = '\0';
    memcpy(user, name, n);
    user[n] = '\0';
    *order = (struct sk_journal_order){.id = id, .user = user, .quantity = 1};
    return sk_uuid_valid(id) && sk_text_user(user) && strlen(user) == n &&
           (space == NULL || journal_read_more(space, rest - n, order));
}

static bool journal_read_id(const char *text, size_t len, char id[SK_UUID_SIZE], char user[SK_USER_SIZE],
                            struct sk_journal_order *order)
{
    if (len != SK_UUID_CHARS)
        return false;
    memcpy(id, text, SK_UUID_CHARS);
    id[SK_UUID_CHARS] = user[0] = '\0';
    *order = (struct sk_journal_order){.id = id, .user = user};
    return sk_uuid_valid(id);
}

typedef bool journal_reader(const char *text, size_t len, char id[SK_UUID_SIZE], char user[SK_USER_SIZE],
                            struct sk_journal_order *order);

static int journal_parse_list(const char *list, size_t len, journal_reader *read, sk_journal_each *each, void *arg)
{
    int count = 0;
    const char *at = list, *end = list + len;
    while (at < end) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        size_t n = (size_t)((comma == NULL ? end : comma) - at);
        char id[SK_UUID_SIZE], user[SK_USER_SIZE];
        struct sk_journal_order order;
        if (!read(at, n, id, user, &order))
            return -1;
        if (each != NULL)
            each(arg, &order);
        count++;
        at += n + 1;
    }
    return count > 0 && list[len - 1] != ',' ? count : -1;
}

int sk_journal_parse(const char *orders, size_t len, sk_journal_each *each, void *arg)
{
    return journal_parse_list(orders, len, journal_read_order, each, arg);
}

int sk_journal_parse_returns(const char *returns, size_t len, sk_journal_each *each, void *arg)
{
    return journal_parse_list(returns, len, journal_read_id, each, arg);
}

const char *sk_journal_key(uint64_t key, char out[SK_JOURNAL_KEY_SIZE])
{
    (void)snprintf(out, SK_JOURNAL_KEY_SIZE, "%016" PRIx64, key);
    return out;
}

const char *sk_journal_more(unsigned quantity, uint64_t key, char out[SK_JOURNAL_MORE_SIZE])
{
    char text[SK_JOURNAL_KEY_SIZE];
    out[0] = '\0';
    if (key != 0)
        (void)snprintf(out, SK_JOURNAL_MORE_SIZE, " %u %s", quantity, sk_journal_key(key, text));
    else if (quantity > 1)
        (void)snprintf(out, SK_JOURNAL_MORE_SIZE, " %u", quantity);
    return out;
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

static bool journal_read_text(const struct sk_reply *fields, const char *name, size_t most, const char **text)
{
    size_t len = 0;
    *text = sk_reply_text(journal_field(fields, name), &len);
    return *text != NULL && len <= most && strlen(*text) == len && sk_text_utf8(*text);
}

static bool journal_read_move(const struct sk_reply *fields, struct sk_journal_entry *entry)
{
    static const char *const moves[] = {"cancelled", "expired", "refunded", "refunded-kept", "promoted"};
    if (!journal_read_text(fields, "move", SK_JOURNAL_BY_MAX, &entry->move) ||
        !journal_read_text(fields, "by", SK_JOURNAL_BY_MAX, &entry->by) ||
        !journal_read_text(fields, "why", SK_JOURNAL_WHY_MAX, &entry->why) || !sk_text_user(entry->by))
        return false;
    for (size_t i = 0; i < sizeof moves / sizeof moves[0]; i++) {
        if (strcmp(entry->move, moves[i]) == 0)
            return true;
    }
    return false;
}

static bool journal_read_offer(const struct sk_reply *fields, struct sk_journal_entry *entry)
{
    const struct sk_reply *field = journal_field(fields, "offer");
    int64_t offer = 0;
    if (field != NULL && !sk_trust_number(field, INT32_MAX, &offer))
        return false;
    entry->offer = (int32_t)offer;
    return true;
}

enum sk_status sk_journal_ask(struct sk_redis *redis, const char *key, const char *after, int entries,
                              sk_redis_cb *done, void *arg)
{
    char start[SK_JOURNAL_ID_SIZE + 1], count[SK_PARAM_NUMBER_SIZE];
    const char *argv[] = {"XRANGE", key, start, "+", "COUNT", sk_params_number(count, entries)};
    (void)snprintf(start, sizeof start, "%s%s", after[0] == '\0' ? "-" : "(", after);
    return sk_redis_command(redis, 6, argv, NULL, done, arg);
}

bool sk_journal_read(const struct sk_reply *element, struct sk_journal_entry *entry)
{
    const struct sk_reply *fields = sk_reply_at(element, 1);
    *entry = (struct sk_journal_entry){.count = -1};
    entry->id = sk_reply_text(sk_reply_at(element, 0), NULL);
    if (entry->id == NULL || !sk_trust_is_journal_id(entry->id))
        return false;
    const struct sk_reply *returns = journal_field(fields, "returns"), *session = journal_field(fields, "session");
    const struct sk_reply *list = returns != NULL ? returns : journal_field(fields, "orders");
    const char *orders = sk_reply_text(list, &entry->orders_len);
    entry->session = sk_reply_text(session, NULL);
    bool is_named = session == NULL || (entry->session != NULL && sk_uuid_valid(entry->session));
    if (!is_named || orders == NULL || !sk_trust_number(journal_field(fields, "epoch"), SK_TRUST_MAX, &entry->epoch) ||
        !journal_read_offer(fields, entry))
        return true;
    if (returns == NULL)
        entry->count = sk_journal_parse(orders, entry->orders_len, NULL, NULL);
    else if (journal_read_move(fields, entry))
        entry->count = sk_journal_parse_returns(orders, entry->orders_len, NULL, NULL);
    if (entry->count > (returns != NULL ? SK_JOURNAL_RETURNS_MAX : SK_JOURNAL_ORDERS_MAX))
        entry->count = -1;
    if (entry->count > 0)
        entry->orders = orders;
    else
        entry->move = entry->by = entry->why = NULL;
    return true;
}

// Adds as many of the n bytes as fit; returns n.
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

bool sk_journal_is_newer(const char *id, int64_t epoch, const char *name)
{
    const char *at = strchr(name, '@');
    int64_t named = at == NULL ? epoch : strtoll(at + 1, NULL, 10);
    return epoch == named ? sk_journal_compare(id, name) > 0 : epoch > named;
}
