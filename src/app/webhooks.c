// `seckill webhooks`: a delivery for each receiver and shard (src/webhooks), until a signal; and what operators do with
// receivers. It needs no Redis, and the service needs no process of it: what is not sent waits in the feed.
#include "commands.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "delivery.h"
#include "findings.h"
#include "log.h"
#include "message.h"
#include "metrics_text.h"
#include "pg_once.h"
#include "post.h"
#include "text_server.h"

enum { LABELS_SIZE = 128, MS_DIGITS = 3 };

struct webhooks {
    const struct sk_shards *shards;
    const struct sk_receivers *receivers;
    struct sk_delivery **deliveries; // of each receiver those of all shards
    size_t started;
};

// ---- metrics ----

static void webhooks_labels(const struct webhooks *all, size_t i, const char *more, char labels[LABELS_SIZE])
{
    (void)snprintf(labels, LABELS_SIZE, "receiver=\"%s\",shard=\"%zu\"%s",
                   all->receivers->each[i / all->shards->count].name, i % all->shards->count, more);
}

static void webhooks_put_metrics(const struct webhooks *all, struct sk_buf *out)
{
    static const char unsent[] = "seckill_webhook_unsent_seconds", stopped[] = "seckill_webhook_stopped",
                      active[] = "seckill_webhook_active", posts[] = "seckill_webhook_posts_total",
                      events[] = "seckill_webhook_events_total";
    const struct sk_metrics_text text = {out, false};
    struct sk_delivery_seen seen[SK_RECEIVERS_MAX * SK_SHARDS_MAX];
    char labels[LABELS_SIZE];
    for (size_t i = 0; i < all->started; i++)
        sk_delivery_read(all->deliveries[i], &seen[i]);
    sk_metrics_text_family(&text, unsent, SK_FAMILY_GAUGE, "Age of the oldest event that is still to be sent; 0: none");
    for (size_t i = 0; i < all->started; i++) {
        webhooks_labels(all, i, "", labels);
        sk_metrics_text_decimal(&text, unsent, labels, seen[i].unsent_ms, MS_DIGITS);
    }
    sk_metrics_text_family(&text, stopped, SK_FAMILY_GAUGE, "1: the receiver answered 410, and gets nothing");
    for (size_t i = 0; i < all->started; i++) {
        webhooks_labels(all, i, "", labels);
        sk_metrics_text_number(&text, stopped, labels, seen[i].stopped);
    }
    sk_metrics_text_family(&text, active, SK_FAMILY_GAUGE,
                           "1: this process sends to the receiver; 0: another one does");
    for (size_t i = 0; i < all->started; i++) {
        webhooks_labels(all, i, "", labels);
        sk_metrics_text_number(&text, active, labels, !seen[i].elsewhere);
    }
    sk_metrics_text_family(&text, posts, SK_FAMILY_COUNTER, "Posts to receivers, by result");
    for (size_t i = 0; i < all->started; i++) {
        webhooks_labels(all, i, ",result=\"taken\"", labels);
        sk_metrics_text_number(&text, posts, labels, seen[i].taken);
        webhooks_labels(all, i, ",result=\"refused\"", labels);
        sk_metrics_text_number(&text, posts, labels, seen[i].refused);
        webhooks_labels(all, i, ",result=\"failed\"", labels);
        sk_metrics_text_number(&text, posts, labels, seen[i].failed);
    }
    sk_metrics_text_family(&text, events, SK_FAMILY_COUNTER, "Events that receivers have taken");
    for (size_t i = 0; i < all->started; i++) {
        webhooks_labels(all, i, "", labels);
        sk_metrics_text_number(&text, events, labels, seen[i].events);
    }
    sk_metrics_text_end(&text);
}

// The texts of the process.
static bool webhooks_show(void *arg, const char *path, struct sk_buf *out)
{
    bool metrics = strcmp(path, "/metrics") == 0, health = strcmp(path, "/healthz") == 0;
    if (metrics)
        webhooks_put_metrics(arg, out);
    if (health)
        sk_buf_puts(out, "ok\n");
    return metrics || health;
}

// ---- sending ----

static enum sk_status webhooks_start(struct webhooks *all)
{
    size_t count = all->receivers->count * all->shards->count;
    all->deliveries = calloc(count, sizeof(struct sk_delivery *));
    if (all->deliveries == NULL)
        return SK_NO_MEM;
    for (; all->started < count; all->started++) {
        size_t shard = all->started % all->shards->count;
        all->deliveries[all->started] =
            sk_delivery_start(all->shards, shard, &all->receivers->each[all->started / all->shards->count]);
        if (all->deliveries[all->started] == NULL)
            return SK_FAIL;
    }
    return SK_OK;
}

static void webhooks_end(struct webhooks *all)
{
    for (size_t i = 0; i < all->started; i++)
        sk_delivery_stop(all->deliveries[i]);
    for (size_t i = 0; i < all->started; i++)
        sk_delivery_end(all->deliveries[i]);
    free(all->deliveries);
}

static int webhooks_send(const struct sk_config *config, const struct sk_receivers *receivers)
{
    struct webhooks all = {.shards = &config->stores.shards, .receivers = receivers};
    struct sk_text_server *texts = NULL;
    sigset_t signals;
    int caught = 0;
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGINT);
    (void)pthread_sigmask(SIG_BLOCK, &signals, NULL); // before the threads, so that only sigwait() gets them
    (void)signal(SIGPIPE, SIG_IGN);
    bool good = webhooks_start(&all) == SK_OK;
    if (good && config->webhooks_listen != NULL) {
        texts = sk_text_server_open(config->webhooks_listen, webhooks_show, &all);
        good = texts != NULL;
    }
    if (good) {
        sk_log(SK_LOG_INFO, "sending webhooks", "receivers=%zu shards=%zu listen=%s", receivers->count,
               all.shards->count, config->webhooks_listen == NULL ? "none" : config->webhooks_listen);
        good = sigwait(&signals, &caught) == 0;
        sk_log(SK_LOG_INFO, "stopping", "signal=%d", caught);
    }
    sk_text_server_close(texts);
    webhooks_end(&all);
    return good ? 0 : 1;
}

// ---- --check ----

static void webhooks_check_places(struct sk_findings *findings, const struct sk_receivers *receivers,
                                  const struct sk_shards *shards, size_t shard)
{
    const struct sk_rows *rows = NULL;
    struct sk_pg_once *pg = sk_pg_once_open(shards, shard);
    if (pg == NULL || sk_pg_once_run(pg, SK_KEEPING_WEBHOOK_RECEIVERS, 0, NULL, &rows) != SK_OK)
        sk_find(findings, SK_FINDING_FAIL, "shard", "%zu: cannot be asked; the reason is on standard error", shard);
    for (size_t i = 0; rows != NULL && i < sk_rows_count(rows); i++) {
        const char *name = sk_rows_text(rows, i, 0), *state = sk_rows_text(rows, i, 1);
        int64_t unsent_ms = sk_rows_number(rows, i, 3);
        int64_t since_s = unsent_ms == 0 ? 0 : ((int64_t)sk_wall_ms() - unsent_ms) / 1000;
        if (sk_receivers_find(receivers, name) == NULL)
            sk_find(findings, SK_FINDING_WARN, "place",
                    "%s is in no file, and holds back `seckill archive` at shard %zu: "
                    "`seckill webhooks --forget %s`",
                    name, shard, name);
        else
            SK_FIND_UNLESS(findings, strcmp(state, "sending") == 0, SK_FINDING_WARN, "place",
                           "%s at shard %zu: %s, oldest unsent event %" PRId64 " s, tries %" PRId64, name, shard, state,
                           since_s, sk_rows_number(rows, i, 2));
    }
    sk_pg_once_close(pg);
}

static int webhooks_check(const struct sk_config *config, const struct sk_receivers *receivers, FILE *out)
{
    struct sk_findings findings = {.out = out};
    char public_key[SK_WEBHOOK_PUBLIC_SIZE];
    for (size_t i = 0; i < receivers->count; i++) {
        const struct sk_receiver *receiver = &receivers->each[i];
        sk_webhook_keys_public(&receiver->keys, public_key);
        sk_find(&findings, SK_FINDING_OK, "receiver", "%s: %s, pages of %zu, %zu secrets%s%s", receiver->name,
                receiver->url, receiver->page, receiver->keys.count, public_key[0] == '\0' ? "" : ", public key ",
                public_key);
    }
    for (size_t i = 0; i < config->stores.shards.count; i++)
        webhooks_check_places(&findings, receivers, &config->stores.shards, i);
    return sk_check_end(&findings);
}

// ---- --test, --skip, --resume, --forget ----

static int webhooks_test(const struct sk_receiver *receiver, FILE *out)
{
    struct sk_message message = {0};
    struct sk_post_answer answer = {.why = "out of memory"};
    struct sk_poster *poster = sk_poster_open(receiver, NULL, NULL);
    if (poster != NULL && sk_message_make_test(&message, (int64_t)sk_wall_ms()) == SK_OK)
        sk_poster_send(poster, &message, &answer);
    (void)fprintf(out, "%s: %s\n", receiver->name, answer.why);
    sk_poster_close(poster);
    sk_message_free(&message);
    return answer.status >= 200 && answer.status < 300 ? 0 : 1;
}

// At one shard. False: it failed, which is logged. *done: there was something to do.
static bool webhooks_operate_at(const struct sk_shards *shards, size_t shard, const char *what, const char *name,
                                bool *done)
{
    const char *params[] = {name, what};
    const struct sk_rows *rows = NULL;
    struct sk_pg_once *pg = sk_pg_once_open(shards, shard);
    bool good = pg != NULL && sk_pg_once_run(pg, SK_KEEPING_WEBHOOK_OPERATE, 2, params, &rows) == SK_OK;
    *done = good && sk_rows_text(rows, 0, 0)[0] == 't';
    sk_pg_once_close(pg);
    return good;
}

static int webhooks_operate(const struct sk_shards *shards, const struct sk_receivers *receivers, const char *what,
                            const char *name, FILE *out)
{
    const struct sk_receiver *receiver = sk_receivers_find(receivers, name);
    bool forgets = strcmp(what, "forget") == 0, good = true;
    if ((receiver != NULL) == forgets) {
        (void)fprintf(out,
                      forgets ? "seckill: %s is in the file: remove it there first\n"
                              : "seckill: there is no receiver %s in the file\n",
                      name);
        return 1;
    }
    for (size_t i = 0; i < shards->count; i++) {
        bool done;
        good = webhooks_operate_at(shards, i, what, forgets ? name : receiver->name, &done) && good;
        (void)fprintf(out, "%s at shard %zu: %s\n", name, i, done ? what : "nothing to do");
    }
    return good ? 0 : 1;
}

// ---- the command ----

static int webhooks_run_with(const struct sk_config *config, const struct sk_receivers *receivers, FILE *out)
{
    const char *what = config->words[0], *name = config->words[1];
    if (what == NULL)
        return webhooks_send(config, receivers);
    if (strcmp(what, "--check") == 0 && name == NULL)
        return webhooks_check(config, receivers, out);
    if (strncmp(what, "--", 2) != 0 || name == NULL) {
        (void)fprintf(out, "seckill: webhooks takes --check, or --test, --skip, --resume or --forget with a NAME\n");
        return 1;
    }
    if (strcmp(what, "--test") != 0)
        return webhooks_operate(&config->stores.shards, receivers, what + 2, name, out);
    const struct sk_receiver *receiver = sk_receivers_find(receivers, name);
    if (receiver != NULL)
        return webhooks_test(receiver, out);
    (void)fprintf(out, "seckill: there is no receiver %s in the file\n", name);
    return 1;
}

int sk_webhooks_run(const struct sk_config *config, FILE *out)
{
    char why[SK_RECEIVERS_WHY_SIZE];
    if (config->webhooks == NULL) {
        sk_log(SK_LOG_ERROR, "SECKILL_WEBHOOKS names no file of receivers", "");
        return 2;
    }
    if (sk_posts_begin() != SK_OK) {
        sk_log(SK_LOG_ERROR, "libcurl does not start", "");
        return 1;
    }
    struct sk_receivers *receivers = sk_receivers_open(config->webhooks, why);
    if (receivers == NULL)
        sk_log_text(SK_LOG_ERROR, "SECKILL_WEBHOOKS", "reason", why);
    int code = receivers == NULL ? 2 : webhooks_run_with(config, receivers, out);
    sk_receivers_close(receivers);
    sk_posts_end();
    return code;
}
