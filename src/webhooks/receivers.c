// Unknown members are refused: one that is misspelt would be a receiver with other events than somebody meant.
#include "receivers.h"

#include <curl/curl.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "address.h"
#include "text.h"

enum { FILE_MAX_BYTES = 262144, URL_MAX_BYTES = 1024, EVENTS_MAX = 32 };

// ---- one member ----

static const char *receiver_read_name(struct sk_receiver *receiver, const json_t *value)
{
    receiver->name = json_string_value(value);
    return receiver->name != NULL && sk_text_user(receiver->name) ? NULL : "`name` is 1 to 64 of A-Z a-z 0-9 _ . -";
}

static bool receiver_is_near(const char *host)
{
    struct sk_address address;
    size_t len = strlen(host);
    if (strcmp(host, "localhost") == 0)
        return true;
    if (host[0] == '[' && host[len - 1] == ']') {
        host++;
        len -= 2;
    }
    return sk_address_parse(host, len, &address) && sk_address_is_loopback(&address);
}

static const char *receiver_check_url(CURLU *parts, bool *encrypted)
{
    char *scheme = NULL, *host = NULL, *user = NULL;
    const char *why = NULL;
    if (curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK ||
        curl_url_get(parts, CURLUPART_HOST, &host, 0) != CURLUE_OK)
        why = "`url` is no URL";
    else if (curl_url_get(parts, CURLUPART_USER, &user, 0) != CURLUE_NO_USER)
        why = "`url` has a user: a receiver checks the signature";
    else if (strcmp(scheme, "https") != 0 && strcmp(scheme, "http") != 0)
        why = "`url` is neither https nor http";
    else if (strcmp(scheme, "http") == 0 && !receiver_is_near(host))
        why = "`url` is http, and not of this machine: events have users' ids in them, so it must be https";
    *encrypted = scheme != NULL && strcmp(scheme, "https") == 0;
    curl_free(scheme);
    curl_free(host);
    curl_free(user);
    return why;
}

static const char *receiver_read_url(struct sk_receiver *receiver, const json_t *value)
{
    receiver->url = json_string_value(value);
    if (receiver->url == NULL || strlen(receiver->url) > URL_MAX_BYTES || !sk_text_within(receiver->url, '!', '~'))
        return "`url` is no URL of at most 1024 characters";
    CURLU *parts = curl_url();
    if (parts == NULL)
        return "out of memory";
    const char *why = curl_url_set(parts, CURLUPART_URL, receiver->url, CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK
                          ? "`url` is no URL"
                          : receiver_check_url(parts, &receiver->encrypted);
    curl_url_cleanup(parts);
    return why;
}

static const char *receiver_read_secrets(struct sk_receiver *receiver, const json_t *value)
{
    const char *why = json_array_size(value) == 0 ? "`secrets` is no list, or empty" : NULL;
    for (size_t i = 0; why == NULL && i < json_array_size(value); i++) {
        const char *text = json_string_value(json_array_get(value, i));
        why = text == NULL || strncmp(text, "whsec_", 6) != 0 ? "each of `secrets` is a text that begins with whsec_"
                                                              : sk_webhook_keys_add(&receiver->keys, text);
    }
    return why;
}

static const char *receiver_read_key(struct sk_receiver *receiver, const json_t *value)
{
    const char *text = json_string_value(value);
    return text == NULL || strncmp(text, "whsk_", 5) != 0 ? "`key` is a text that begins with whsk_"
                                                          : sk_webhook_keys_add(&receiver->keys, text);
}

// "order.placed", "order.*"
static bool receiver_is_event(const char *text)
{
    static const char *const firsts[] = {"order.", "payment.", "sale."};
    const char *rest = "";
    for (size_t i = 0; text != NULL && i < sizeof firsts / sizeof firsts[0]; i++) {
        if (strncmp(text, firsts[i], strlen(firsts[i])) == 0)
            rest = text + strlen(firsts[i]);
    }
    return strcmp(rest, "*") == 0 || (rest[0] != '\0' && strspn(rest, "abcdefghijklmnopqrstuvwxyz_") == strlen(rest));
}

static const char *receiver_read_events(struct sk_receiver *receiver, const json_t *value)
{
    size_t count = json_array_size(value);
    if (count == 0 || count > EVENTS_MAX)
        return "`events` is no list of 1 to 32 names";
    receiver->events = calloc(count, sizeof *receiver->events);
    if (receiver->events == NULL)
        return "out of memory";
    for (; receiver->events_count < count; receiver->events_count++) {
        const char *text = json_string_value(json_array_get(value, receiver->events_count));
        if (!receiver_is_event(text))
            return "each of `events` is a name as order.placed, or order.*";
        receiver->events[receiver->events_count] = text;
    }
    return NULL;
}

static const char *receiver_read_page(struct sk_receiver *receiver, const json_t *value)
{
    json_int_t number = json_integer_value(value); // 0 if it is none
    if (number < 1 || number > SK_RECEIVER_PAGE_MAX)
        return "`page` is no number from 1 to 100";
    receiver->page = (size_t)number;
    return NULL;
}

static const char *receiver_read_from(struct sk_receiver *receiver, const json_t *value)
{
    const char *text = json_string_value(value);
    if (text == NULL || (strcmp(text, "now") != 0 && strcmp(text, "first") != 0))
        return "`from` is neither \"now\" nor \"first\"";
    receiver->from_first = text[0] == 'f';
    return NULL;
}

static const char *receiver_read_ca(struct sk_receiver *receiver, const json_t *value)
{
    receiver->ca = json_string_value(value);
    FILE *file = receiver->ca == NULL ? NULL : fopen(receiver->ca, "re");
    if (file == NULL)
        return "`ca` is no file that can be read";
    (void)fclose(file);
    return NULL;
}

// ---- a receiver ----

static const char *receiver_read(struct sk_receiver *receiver, json_t *value)
{
    static const struct {
        const char *name;
        const char *(*read)(struct sk_receiver *receiver, const json_t *value);
    } members[] = {{"name", receiver_read_name}, {"url", receiver_read_url},       {"secrets", receiver_read_secrets},
                   {"key", receiver_read_key},   {"events", receiver_read_events}, {"page", receiver_read_page},
                   {"from", receiver_read_from}, {"ca", receiver_read_ca}};
    const char *why = json_is_object(value) ? NULL : "it is no object";
    size_t found = 0;
    receiver->page = SK_RECEIVER_PAGE_DEFAULT;
    for (size_t i = 0; why == NULL && i < sizeof members / sizeof members[0]; i++) {
        const json_t *member = json_object_get(value, members[i].name);
        found += member != NULL;
        if (member != NULL)
            why = members[i].read(receiver, member);
    }
    if (why == NULL && found < json_object_size(value))
        why = "it has a member that is none of name, url, secrets, key, events, page, from, ca";
    if (why == NULL && (receiver->name == NULL || receiver->url == NULL))
        why = "`name` and `url` are required";
    if (why == NULL && receiver->keys.count == 0 && receiver->keys.key == NULL)
        why = "`secrets` or `key` is required";
    return why;
}

// ---- the file ----

static void receivers_fail(char why[SK_RECEIVERS_WHY_SIZE], size_t place, const char *name, const char *what)
{
    (void)snprintf(why, SK_RECEIVERS_WHY_SIZE, "receivers[%zu]%s%s: %s", place, name == NULL ? "" : ", ",
                   name == NULL ? "" : name, what);
}

// Of fewer than FILE_MAX_BYTES.
static json_t *receivers_load(const char *path, char why[SK_RECEIVERS_WHY_SIZE])
{
    json_error_t error = {.text = ""};
    json_t *document = NULL;
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        (void)snprintf(why, SK_RECEIVERS_WHY_SIZE, "cannot be opened: %s", strerror(errno));
        return NULL;
    }
    char *text = malloc(FILE_MAX_BYTES);
    size_t len = text == NULL ? 0 : fread(text, 1, FILE_MAX_BYTES, file);
    bool whole = text != NULL && len < FILE_MAX_BYTES && !ferror(file);
    if (whole)
        document = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
    if (!whole)
        (void)snprintf(why, SK_RECEIVERS_WHY_SIZE, "cannot be read, or has 256 KiB or more");
    else if (document == NULL)
        (void)snprintf(why, SK_RECEIVERS_WHY_SIZE, "line %d: %.150s", error.line, error.text);
    free(text);
    (void)fclose(file);
    return document;
}

// False: one is wrong.
static bool receivers_read_all(struct sk_receivers *receivers, char why[SK_RECEIVERS_WHY_SIZE])
{
    json_t *list = json_object_get(receivers->document, "receivers");
    size_t count = json_array_size(list);
    if (count == 0 || count > SK_RECEIVERS_MAX || json_object_size(receivers->document) != 1) {
        (void)snprintf(why, SK_RECEIVERS_WHY_SIZE,
                       "is not an object with a list of 1 to 16 `receivers` and nothing else");
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        struct sk_receiver *receiver = &receivers->each[receivers->count++];
        const char *wrong = receiver_read(receiver, json_array_get(list, i));
        for (size_t j = 0; wrong == NULL && j < i; j++)
            wrong = strcmp(receivers->each[j].name, receiver->name) == 0 ? "there are two of this name" : NULL;
        if (wrong != NULL) {
            receivers_fail(why, i, receiver->name, wrong);
            return false;
        }
    }
    return true;
}

struct sk_receivers *sk_receivers_open(const char *path, char why[SK_RECEIVERS_WHY_SIZE])
{
    struct sk_receivers *receivers = calloc(1, sizeof *receivers);
    if (receivers == NULL) {
        (void)snprintf(why, SK_RECEIVERS_WHY_SIZE, "out of memory");
        return NULL;
    }
    receivers->document = receivers_load(path, why);
    if (receivers->document != NULL && receivers_read_all(receivers, why))
        return receivers;
    sk_receivers_close(receivers);
    return NULL;
}

void sk_receivers_close(struct sk_receivers *receivers)
{
    if (receivers == NULL)
        return;
    for (size_t i = 0; i < receivers->count; i++) {
        sk_webhook_keys_free(&receivers->each[i].keys);
        free(receivers->each[i].events);
    }
    json_decref(receivers->document);
    free(receivers);
}

const struct sk_receiver *sk_receivers_find(const struct sk_receivers *receivers, const char *name)
{
    for (size_t i = 0; i < receivers->count; i++) {
        const struct sk_receiver *receiver = &receivers->each[i];
        if (strcmp(receiver->name, name) == 0 || strcmp(receiver->url, name) == 0)
            return receiver;
    }
    return NULL;
}

// ---- what it wants ----

static bool receiver_fits(const char *pattern, const char *event)
{
    size_t len = strlen(pattern);
    return pattern[len - 1] == '*' ? strncmp(pattern, event, len - 1) == 0 : strcmp(pattern, event) == 0;
}

bool sk_receiver_wants(const struct sk_receiver *receiver, const char *event)
{
    for (size_t i = 0; i < receiver->events_count; i++) {
        if (receiver_fits(receiver->events[i], event))
            return true;
    }
    return receiver->events_count == 0;
}

// Of one pattern. "order.*" is of two kinds.
static const char *receiver_kind_of(const char *pattern)
{
    if (strncmp(pattern, "sale.", 5) == 0)
        return "sales";
    if (strcmp(pattern, "order.placed") == 0)
        return "placed";
    return strcmp(pattern, "order.*") == 0 ? NULL : "moves";
}

const char *sk_receiver_kind(const struct sk_receiver *receiver)
{
    const char *kind = receiver->events_count == 0 ? NULL : receiver_kind_of(receiver->events[0]);
    for (size_t i = 1; kind != NULL && i < receiver->events_count; i++) {
        const char *other = receiver_kind_of(receiver->events[i]);
        kind = other != NULL && strcmp(kind, other) == 0 ? kind : NULL;
    }
    return kind;
}
