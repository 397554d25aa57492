// SECKILL_CORS_ORIGINS. An accepted list consists of its words, each an origin as browsers send it, and no other origin
// matches. A rejected list prints one line.
#include <stdio.h>

#include "cors.h"
#include "fuzz.h"

enum { SAID_SIZE = 256 };

static const char *origin; // of the request

// Replaces the server's function.
const char *sk_request_header(const struct sk_request *request, const char *name, unsigned *count)
{
    (void)request;
    MUST(strcmp(name, "origin") == 0);
    *count = 1;
    return origin;
}

static unsigned origin_of(const struct sk_cors *cors, const char *value)
{
    static const struct sk_request request;
    origin = value;
    return sk_cors_origin_of(cors, &request);
}

static void must_be_a_refusal(const char *said)
{
    static const char start[] = "seckill: SECKILL_CORS_ORIGINS: origin ";
    size_t len = strlen(said);
    MUST(strncmp(said, start, sizeof start - 1) == 0 && strchr(said, '\n') == said + len - 1);
}

static void must_be_an_origin(const char *word)
{
    const char *host = strstr(word, "://");
    MUST(host != NULL && host > word && host[3] != '\0');
    MUST(strpbrk(host + 3, "/?#@*\\ ") == NULL);
    for (; *word != '\0'; word++)
        MUST(*word > ' ' && *word <= '~' && !(*word >= 'A' && *word <= 'Z'));
}

static void must_be_origins(const struct sk_cors *cors, const char *list)
{
    char word[SK_CORS_ORIGIN_SIZE];
    unsigned count = 0;
    for (const char *at = list; *at != '\0'; at += strspn(at, ", \t\r\n")) {
        size_t len = strcspn(at, ", \t\r\n");
        if (len > 0) {
            MUST(len < sizeof word);
            memcpy(word, at, len);
            word[len] = '\0';
            must_be_an_origin(word);
            MUST(origin_of(cors, word) == ++count);
            word[len - 1] ^= 1;
            unsigned other = origin_of(cors, word);
            MUST(other != count && (other == 0 || strstr(list, word) != NULL));
        }
        at += len;
    }
    MUST(count == sk_cors_count(cors) && count >= 1 && count <= SK_CORS_ORIGINS_MAX);
    MUST(origin_of(cors, "") == 0 && origin_of(cors, "null") == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char said[SAID_SIZE] = "", *list = fuzz_text(data, size);
    FILE *err = fmemopen(said, sizeof said, "w");
    MUST(err != NULL);
    struct sk_cors *cors = sk_cors_open(list, err);
    (void)fclose(err);
    if (cors == NULL)
        must_be_a_refusal(said);
    else
        must_be_origins(cors, list);
    sk_cors_close(cors);
    free(list);
    return 0;
}
