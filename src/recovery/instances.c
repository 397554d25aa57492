// One hash: session -> its text. Whoever writes a text also removes those of sessions that no longer live. One script
// does both, so it uses the list of that very moment.
#include "instances.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "histogram.h"
#include "keys.h"
#include "text.h"
#include "timer.h"

#define SCOPES "+scopes" // behind the version

enum { TICK_MS = 200, AGAIN_MS = 60000, NUMBER_SIZE = 24, TEXT_SIZE = 2 * SK_INSTANCE_WORD_MAX + 2 * NUMBER_SIZE };
enum { FIRST = 1, TEXT = 2, COLUMNS = 3 }; // of list_instances.lua

static const char word_chars[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:+~-";

struct sk_instances {
    const struct sk_sale *sale;
    struct sk_timer *timer; // owned
    uint64_t published;     // the taking of the session that was published last; 0: none
    uint64_t again_ms;      // when to publish again
    char text[TEXT_SIZE];
};

// ---- publishing ----

static void instances_on_published(void *arg, const struct sk_reply *reply)
{
    struct sk_instances *instances = arg;
    if (reply == NULL) // the link has died
        instances->published = 0;
}

static void instances_on_time(void *arg)
{
    struct sk_instances *instances = arg;
    const struct sk_sale *sale = instances->sale;
    struct sk_redis *redis = sk_sale_ask_shared(sale);
    uint64_t taken = sk_session_taken(sale->session);
    bool due = taken != instances->published || sk_monotonic_ms() >= instances->again_ms;
    const char *argv[] = {SK_KEY_SESSIONS, SK_KEY_INSTANCES, sk_session_id(sale->session), instances->text};
    if (!due || !sk_session_held(sale->session) || !sk_redis_ready(redis) ||
        sk_redis_script(redis, SK_SCRIPT_PUBLISH_INSTANCE, 2, 4, argv, NULL, instances_on_published, instances) !=
            SK_OK)
        return;
    instances->published = taken;
    instances->again_ms = sk_monotonic_ms() + AGAIN_MS;
}

struct sk_instances *sk_instances_open(const struct sk_sale *sale)
{
    char name[SK_INSTANCE_WORD_MAX + 1];
    struct sk_instances *instances = calloc(1, sizeof *instances);
    if (instances != NULL)
        instances->timer = sk_timer_open(sale->loop, TICK_MS, instances_on_time, instances);
    if (instances == NULL || instances->timer == NULL) {
        free(instances);
        return NULL;
    }
    instances->sale = sale;
    sk_instances_name(sale->instance, name);
    (void)snprintf(instances->text, sizeof instances->text, "%.*s" SCOPES " %" PRId64 " %" PRId64 " %s",
                   SK_INSTANCE_WORD_MAX, SK_VERSION, sk_durations_since_ms(), sale->options->lock_ttl_ms, name);
    return instances;
}

// Replaces each character that is not in word_chars by `-`.
void sk_instances_name(const char *listen, char name[SK_INSTANCE_WORD_MAX + 1])
{
    char host[SK_INSTANCE_WORD_MAX - sizeof ":65535" + 2] = "";
    const char *port = listen == NULL ? NULL : strrchr(listen, ':');
    (void)gethostname(host, sizeof host - 1); // cannot fail, but may truncate
    (void)snprintf(name, SK_INSTANCE_WORD_MAX + 1, "%s%.6s", host[0] == '\0' ? "-" : host, port == NULL ? "" : port);
    for (char *c = name; *c != '\0'; c++) {
        if (strchr(word_chars, *c) == NULL)
            *c = '-';
    }
}

void sk_instances_close(struct sk_instances *instances)
{
    if (instances == NULL)
        return;
    sk_timer_close(instances->timer);
    free(instances);
}

// ---- reading ----

// Takes the next word off a text; returns what follows it and a blank. NULL: there is none, it is too long, or it has
// other characters.
static const char *instances_word(const char *text, char word[SK_INSTANCE_WORD_MAX + 1])
{
    size_t len = strspn(text, word_chars);
    if (len == 0 || len > SK_INSTANCE_WORD_MAX || (text[len] != ' ' && text[len] != '\0'))
        return NULL;
    memcpy(word, text, len);
    word[len] = '\0';
    return text + len + (text[len] == ' ');
}

bool sk_instances_read(const char *text, struct sk_instance *instance)
{
    char started[SK_INSTANCE_WORD_MAX + 1], ttl[SK_INSTANCE_WORD_MAX + 1];
    text = instances_word(text, instance->version);
    char *scopes = text == NULL ? NULL : strstr(instance->version, SCOPES);
    instance->scopes = scopes != NULL;
    if (scopes != NULL)
        *scopes = '\0';
    text = text == NULL ? NULL : instances_word(text, started);
    text = text == NULL ? NULL : instances_word(text, ttl);
    text = text == NULL ? NULL : instances_word(text, instance->name);
    return text != NULL && text[0] == '\0' && sk_text_number(started, SK_TIME_MAX_MS, &instance->started_ms) &&
           sk_text_number(ttl, UINT32_MAX, &instance->ttl_ms);
}

bool sk_instances_know_scopes(const struct sk_reply *reply)
{
    struct sk_instance one;
    for (size_t i = FIRST; i + COLUMNS <= sk_reply_count(reply); i += COLUMNS) {
        const char *text = sk_reply_text(sk_reply_at(reply, i + TEXT), NULL);
        if (text == NULL || !sk_instances_read(text, &one) || !one.scopes)
            return false;
    }
    return true;
}
