// Replies of Redis and of sentinels as raw bytes: the link's parser reads them, and each of our readers gets each reply
// as if it were the answer to its command. Anyone who can write to Redis controls their content.
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>

#include "fuzz.h"
#include "grant.h"
#include "journal.h"
#include "keys.h"
#include "redis_info.h"
#include "redis_reply.h"
#include "sentinels.h"
#include "slot_map.h"
#include "trust.h"
#include "voucher_books.h"

enum { RAW_MAX = 40 };
enum { ELEMENTS_MAX = 9999, USERS_MAX = 8 };

// hiredis allocates as many elements as an array's head announces. That is fine against one server, but would use up
// the fuzzer's memory.
static bool announces_too_much(const uint8_t *data, size_t size)
{
    for (size_t i = 0; i + 1 < size; i++) {
        long n = 0;
        for (size_t at = i + 1; data[i] == '*' && at < size && (isdigit(data[at]) || isspace(data[at])); at++) {
            n = isdigit(data[at]) ? n * 10 + (data[at] - '0') : n;
            if (n > ELEMENTS_MAX)
                return true;
        }
    }
    return false;
}

// ---- the accessors ----

// Sums up all bytes, so that a sanitizer sees each one read.
static size_t walk(const struct sk_reply *reply)
{
    size_t len = 0, sum = 0;
    int64_t number = 0;
    const char *error = sk_reply_error(reply), *text = sk_reply_text(reply, &len);
    MUST(error == NULL || text == NULL);
    for (size_t i = 0; text != NULL && i < len; i++)
        sum += (unsigned char)text[i];
    MUST(text == NULL || text[len] == '\0');
    if (error != NULL)
        sum += strlen(error);
    if (sk_reply_number(reply, &number) && text != NULL) {
        char printed[24];
        (void)snprintf(printed, sizeof printed, "%" PRId64, number);
        MUST(strcmp(printed, text) == 0);
    }
    MUST(sk_reply_at(reply, sk_reply_count(reply)) == NULL);
    MUST(sk_reply_at(reply, SIZE_MAX) == NULL);
    for (size_t i = 0; i < sk_reply_count(reply); i++)
        sum += walk(sk_reply_at(reply, i));
    return sum;
}

static void must_bear_what_is_missing(void)
{
    int64_t number;
    MUST(sk_reply_count(NULL) == 0);
    MUST(sk_reply_at(NULL, 0) == NULL);
    MUST(sk_reply_text(NULL, NULL) == NULL);
    MUST(!sk_reply_number(NULL, &number));
}

// ---- place_orders.lua ----

static void must_be_a_grant(struct sk_grant *grant, size_t users)
{
    struct sk_voucher voucher = {.id = 1};
    MUST(grant->last != NULL && grant->journal_id != NULL && grant->results != NULL);
    MUST(strlen(grant->results) == users);
    MUST(grant->offer >= 0 && grant->offer <= INT32_MAX);
    MUST(grant->epoch >= 0 && grant->epoch <= SK_TRUST_MAX);
    MUST(strchr(grant->results, 'p') == NULL || sk_trust_is_journal_id(grant->journal_id));
    for (size_t i = 0; i < users; i++) {
        bool other = grant->status == SK_GRANT_OTHER; // then nothing was granted
        MUST(strchr(other ? "oabsnefhumtkdq" : "pabsnefhumtkdq", grant->results[i]) != NULL);
        if (grant->results[i] == SK_GRANT_TOO_FEW) {
            int64_t left = sk_grant_next_left(grant);
            MUST(left >= 0 && left <= SK_TRUST_MAX);
        }
        if (!sk_grant_has_existing(grant->results[i]))
            continue;
        // It is copied into an answer unchanged.
        int64_t voucher_id;
        const char *existing = sk_grant_next_existing(grant, (enum sk_grant_result)grant->results[i], &voucher_id);
        MUST(voucher_id == 0 || (existing == NULL) || grant->results[i] == SK_GRANT_IN_SCOPE);
        MUST(existing == NULL || sk_uuid_valid(existing));
    }
    int64_t none;
    MUST(sk_grant_next_existing(grant, SK_GRANT_ALREADY, &none) == NULL && none == 0);
    sk_grant_remember(grant, &voucher);
    MUST(voucher.seen.last[0] == '\0' || sk_trust_is_version(voucher.seen.last));
    MUST(voucher.seen.epoch <= SK_TRUST_MAX);
}

static void read_as_grant(const struct sk_reply *reply)
{
    for (size_t users = 1; users <= USERS_MAX; users++) {
        struct sk_grant grant = sk_grant_read(reply, users);
        MUST(grant.status <= SK_GRANT_MALFORMED);
        if (grant.status == SK_GRANT_OK || grant.status == SK_GRANT_OTHER)
            must_be_a_grant(&grant, users);
    }
}

// ---- the journal ----

// "<length>:<bytes>," for each field and value, as a dead letter keeps them.
static void must_hold_every_field(const struct sk_reply *element, const struct sk_buf *raw)
{
    const struct sk_reply *fields = sk_reply_at(element, 1);
    const char *at = raw->data;
    for (size_t i = 0; i < sk_reply_count(fields); i++) {
        size_t len = 0;
        const char *text = sk_reply_text(sk_reply_at(fields, i), &len);
        char *colon = NULL;
        MUST(strtoull(at, &colon, 10) == len && *colon == ':');
        MUST(len == 0 || memcmp(colon + 1, text, len) == 0);
        MUST(colon[1 + len] == ',');
        at = colon + len + 2;
    }
    MUST(at == raw->data + raw->len);
}

static void count_order(void *arg, const struct sk_journal_order *order)
{
    const char *id = order->id, *user = order->user;
    int *count = arg;
    MUST(sk_uuid_valid(id));
    MUST(user[0] == '\0' || sk_text_user(user));
    MUST(user[0] == '\0' ? order->quantity == 0 : order->quantity >= 1 && order->quantity <= SK_QUANTITY_MAX);
    ++*count;
}

static void read_as_entry(const struct sk_reply *element)
{
    struct sk_journal_entry entry;
    struct sk_buf raw = {0};
    MUST(sk_journal_raw(element, SIZE_MAX, &raw) == raw.len);
    MUST(!raw.failed);
    must_hold_every_field(element, &raw);
    struct sk_buf cut = {0};
    MUST(sk_journal_raw(element, RAW_MAX, &cut) == raw.len);
    MUST(cut.len == (raw.len < RAW_MAX ? raw.len : RAW_MAX) && memcmp(cut.data, raw.data, cut.len) == 0);
    sk_buf_free(&cut);
    sk_buf_free(&raw);
    if (!sk_journal_read(element, &entry))
        return;
    int seen = 0;
    MUST(sk_trust_is_journal_id(entry.id) && strlen(entry.id) < SK_JOURNAL_ID_SIZE);
    MUST(entry.orders == NULL || (entry.epoch >= 0 && entry.epoch <= SK_TRUST_MAX));
    MUST((entry.orders != NULL) == (entry.count > 0));
    MUST(entry.orders == NULL || entry.session == NULL || sk_uuid_valid(entry.session));
    MUST(entry.orders == NULL || entry.offer >= 0);
    if (entry.orders != NULL && entry.move == NULL)
        MUST(sk_journal_parse(entry.orders, entry.orders_len, count_order, &seen) == entry.count);
    else if (entry.orders != NULL)
        MUST(sk_journal_parse_returns(entry.orders, entry.orders_len, count_order, &seen) == entry.count);
    MUST(entry.orders != NULL || entry.move == NULL);
    if (entry.move != NULL)
        MUST(sk_text_user(entry.by) && sk_text_utf8(entry.why));
    MUST(entry.orders == NULL || (seen == entry.count && seen <= SK_JOURNAL_ORDERS_MAX));
}

// ---- read_voucher.lua and INFO ----

static void read_as_snapshot(const struct sk_reply *reply)
{
    static const struct sk_snapshot never;
    const struct sk_account account = {.epoch = 7, .newest = "10-1", .stock = 5, .buyers = 3};
    struct sk_snapshot snapshot;
    if (!sk_snapshot_read(reply, &snapshot))
        return;
    MUST(snapshot.last[0] == '\0' || sk_trust_is_version(snapshot.last));
    MUST(!snapshot.same_run ||
         (snapshot.last[0] != '\0' && snapshot.epoch <= SK_TRUST_MAX && snapshot.stock <= SK_TRUST_MAX));
    MUST(snapshot.epoch >= 0 && snapshot.stock >= 0 && snapshot.buyers >= 0 && snapshot.journal >= 0);
    enum sk_books first = sk_books_compare(&account, &never, &snapshot),
                  second = sk_books_compare(&account, &snapshot, &snapshot);
    MUST(sk_books_name(first) != NULL && sk_books_name(second) != NULL);
    // Only if Redis is in its expected state may it continue selling after two checks.
    if (second == SK_BOOKS_AGREE)
        MUST(snapshot.present && !snapshot.loading && snapshot.same_run && snapshot.epoch == account.epoch);
    if (second == SK_BOOKS_AGREE && snapshot.journal == 0)
        MUST(snapshot.stock == account.stock && snapshot.buyers == account.buyers);
}

static void read_as_info(const struct sk_reply *reply)
{
    struct sk_redis_info info;
    const char *text = sk_reply_text(reply, NULL);
    if (text != NULL && sk_redis_info_read(text, &info))
        MUST(strlen(info.run) == strlen(SK_PROTOCOL "-") + 40 + (info.promotion[0] != '\0') + strlen(info.promotion));
}

// It goes to the resolver, into the log and into a certificate's check.
static void read_as_sentinel(const struct sk_reply *reply)
{
    struct sk_redis_host master;
    bool named = sk_sentinels_read(reply, &master);
    MUST(named == (master.port != 0) && named == (master.name[0] != '\0'));
    MUST(master.port >= 0 && master.port <= UINT16_MAX && strlen(master.name) < SK_REDIS_HOST_SIZE);
    for (const char *at = master.name; *at != '\0'; at++)
        MUST(isalnum((unsigned char)*at) || strchr(".:_-", *at) != NULL);
}

static void must_be_slots(void *arg, unsigned first, unsigned last, const struct sk_redis_host *at)
{
    (void)arg;
    MUST(first <= last && last < SK_SLOTS && at->port > 0 && at->name[0] != '\0');
    MUST(strspn(at->name, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.:_-") == strlen(at->name));
}

static void read_as_slots(const struct sk_reply *reply)
{
    static const struct sk_redis_host by = {"own", 7000};
    struct sk_moved moved;
    const char *error = sk_reply_error(reply);
    (void)sk_slots_read(reply, &by, must_be_slots, NULL);
    if (sk_redirect_of(error) == SK_REDIRECT_MOVED && sk_moved_read(error, &by, &moved))
        must_be_slots(NULL, moved.slot, moved.slot, &moved.to);
}

static void read_as_everything(const struct sk_reply *reply)
{
    (void)walk(reply);
    read_as_grant(reply);
    read_as_snapshot(reply);
    read_as_info(reply);
    read_as_sentinel(reply);
    read_as_slots(reply);
    read_as_entry(reply);
    for (size_t i = 0; i < sk_reply_count(reply); i++)
        read_as_entry(sk_reply_at(reply, i));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (announces_too_much(data, size))
        return -1; // not useful for the corpus
    struct sk_reader *reader = sk_reader_open();
    MUST(reader != NULL);
    must_bear_what_is_missing();
    // In two parts, as from a network.
    bool good = true;
    for (size_t fed = 0, part = size / 2; good && fed < size; fed += part, part = size - fed) {
        struct sk_reply *reply;
        const char *why;
        if (part > 0)
            sk_reader_feed(reader, (const char *)data + fed, part);
        while ((good = sk_reader_next(reader, &reply, &why)) && reply != NULL) {
            read_as_everything(reply);
            sk_reply_free(reply);
        }
        MUST(good || why[0] != '\0');
    }
    sk_reader_close(reader);
    return 0;
}
