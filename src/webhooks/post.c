#include "post.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "webhook_keys.h"

#ifndef SK_VERSION
#define SK_VERSION "0"
#endif

enum { CONNECT_MS = 10000, HEADER_SIZE = 320, RETRY_AFTER_MAX_S = 3600 };

struct sk_poster {
    CURL *curl; // owned
    const struct sk_receiver *receiver;
    bool (*given_up)(void *arg);
    void *arg;
};

enum sk_status sk_posts_begin(void)
{
    return curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK ? SK_OK : SK_FAIL;
}

void sk_posts_end(void)
{
    curl_global_cleanup();
}

static size_t post_drop(const char *bytes, size_t size, size_t n, void *arg)
{
    (void)bytes;
    (void)arg;
    return size * n;
}

// About once a second, also while nothing moves.
static int post_on_progress(void *arg, curl_off_t to_get, curl_off_t got, curl_off_t to_send, curl_off_t sent)
{
    const struct sk_poster *poster = arg;
    (void)to_get;
    (void)got;
    (void)to_send;
    (void)sent;
    return poster->given_up != NULL && poster->given_up(poster->arg);
}

// What stays the same for all posts.
static bool post_prepare(struct sk_poster *poster)
{
    CURL *curl = poster->curl;
    const struct sk_receiver *receiver = poster->receiver;
    bool done = curl_easy_setopt(curl, CURLOPT_URL, receiver->url) == CURLE_OK;
    done = done && curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, receiver->encrypted ? "https" : "http") == CURLE_OK;
    done = done && curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L) == CURLE_OK;
    done = done && curl_easy_setopt(curl, CURLOPT_PROXY, "") == CURLE_OK;
    done = done && curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L) == CURLE_OK;
    done = done && curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) == CURLE_OK;
    done = done && curl_easy_setopt(curl, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2) == CURLE_OK;
    done = done && curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS) == CURLE_OK;
    done = done && curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)SK_POST_MAX_MS) == CURLE_OK;
    done = done && curl_easy_setopt(curl, CURLOPT_USERAGENT, "seckill/" SK_VERSION) == CURLE_OK;
    done = done && curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, post_drop) == CURLE_OK;
    done = done && curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L) == CURLE_OK;
    done = done && curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, post_on_progress) == CURLE_OK;
    done = done && curl_easy_setopt(curl, CURLOPT_XFERINFODATA, poster) == CURLE_OK;
    return done && (receiver->ca == NULL || curl_easy_setopt(curl, CURLOPT_CAINFO, receiver->ca) == CURLE_OK);
}

struct sk_poster *sk_poster_open(const struct sk_receiver *receiver, bool (*given_up)(void *arg), void *arg)
{
    struct sk_poster *poster = calloc(1, sizeof *poster);
    if (poster == NULL)
        return NULL;
    *poster = (struct sk_poster){curl_easy_init(), receiver, given_up, arg};
    if (poster->curl != NULL && post_prepare(poster))
        return poster;
    sk_poster_close(poster);
    return NULL;
}

void sk_poster_close(struct sk_poster *poster)
{
    if (poster == NULL)
        return;
    curl_easy_cleanup(poster->curl);
    free(poster);
}

// False: out of memory; the list stays.
static bool post_add_header(struct curl_slist **headers, const char *name, const char *value)
{
    char line[HEADER_SIZE];
    int n = snprintf(line, sizeof line, "%s: %s", name, value);
    SK_ASSERT(n > 0 && (size_t)n < sizeof line);
    struct curl_slist *longer = curl_slist_append(*headers, line);
    *headers = longer == NULL ? *headers : longer;
    return longer != NULL;
}

static bool post_sign(const struct sk_poster *poster, const struct sk_message *message, struct curl_slist **headers)
{
    char timestamp[SK_PARAM_NUMBER_SIZE], signatures[SK_WEBHOOK_SIGNATURES_SIZE];
    const struct sk_webhook_message signed_text = {message->id,
                                                   sk_params_number(timestamp, (int64_t)(sk_wall_ms() / 1000)),
                                                   message->body.data, message->body.len};
    return sk_webhook_keys_sign(&poster->receiver->keys, &signed_text, signatures) == SK_OK &&
           post_add_header(headers, "content-type", "application/json") &&
           post_add_header(headers, "webhook-id", message->id) &&
           post_add_header(headers, "webhook-timestamp", timestamp) &&
           post_add_header(headers, "webhook-signature", signatures) &&
           post_add_header(headers, "expect", ""); // the body is sent at once
}

static void post_run(const struct sk_poster *poster, const struct sk_message *message, struct curl_slist *headers,
                     struct sk_post_answer *answer)
{
    CURL *curl = poster->curl;
    long status = 0;
    curl_off_t retry_after = 0;
    (void)curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)message->body.len);
    (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDS, message->body.data);
    CURLcode code = curl_easy_perform(curl);
    // A status of which the rest did not come counts no more than none.
    if (code == CURLE_OK)
        (void)curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    if (code == CURLE_OK)
        (void)curl_easy_getinfo(curl, CURLINFO_RETRY_AFTER, &retry_after);
    answer->status = (unsigned)status;
    answer->retry_after_s = (uint32_t)(retry_after < 0                   ? 0
                                       : retry_after > RETRY_AFTER_MAX_S ? RETRY_AFTER_MAX_S
                                                                         : retry_after);
    if (code == CURLE_OK)
        (void)snprintf(answer->why, sizeof answer->why, "HTTP %ld", status);
    else
        (void)snprintf(answer->why, sizeof answer->why, "%s", curl_easy_strerror(code));
    (void)curl_easy_setopt(curl, CURLOPT_HTTPHEADER, NULL);
}

void sk_poster_send(struct sk_poster *poster, const struct sk_message *message, struct sk_post_answer *answer)
{
    struct curl_slist *headers = NULL;
    *answer = (struct sk_post_answer){.why = "out of memory"};
    if (post_sign(poster, message, &headers))
        post_run(poster, message, headers, answer);
    curl_slist_free_all(headers);
}
