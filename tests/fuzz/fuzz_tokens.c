// SECKILL_ADMIN_TOKENS. Each accepted token has a name and roles, and no other text is a token. A rejection prints one
// line, which repeats nothing of the list.
#include <stdio.h>

#include "admin_tokens.h"
#include "fuzz.h"

enum { SAID_SIZE = 256, WORD_MIN = 16 };

// A rejection is one line of fixed text.
static void must_be_a_refusal(const char *said, const char *lines)
{
    static const char start[] = "seckill: SECKILL_ADMIN_TOKENS: line ";
    size_t len = strlen(said);
    MUST(strncmp(said, start, sizeof start - 1) == 0 && strchr(said, '\n') == said + len - 1);
    for (size_t i = 0; i < len - 1; i++)
        MUST(said[i] >= ' ' && said[i] <= '~');
    MUST(strlen(lines) < WORD_MIN || strstr(said, lines) == NULL);
}

// Each word that is a token has a valid name; there are no other tokens.
static void must_be_tokens(const struct sk_tokens *tokens, const char *lines)
{
    char word[SK_TOKEN_LEN_MAX + 1], name[SK_ADMIN_NAME_SIZE];
    for (const char *at = lines; *at != '\0'; at += strspn(at, " \t\r\n")) {
        size_t len = strcspn(at, " \t\r\n");
        if (len < sizeof word) {
            memcpy(word, at, len);
            word[len] = '\0';
            unsigned roles = sk_tokens_find(tokens, word, name);
            MUST(roles <= SK_ROLE_ANY && (roles == 0 || (len >= SK_TOKEN_LEN_MIN && sk_text_user(name))));
            MUST(roles == 0 || sk_tokens_any(tokens));
            word[len > 0 ? len - 1 : 0] ^= 1; // another line may differ in just this bit
            unsigned others = sk_tokens_find(tokens, word, name);
            MUST(others == 0 || strstr(lines, word) != NULL || strcmp(name, "admin") == 0);
        }
        at += len;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char said[SAID_SIZE] = "", single[] = "the-single-token", *lines = fuzz_text(data, size);
    struct sk_identity_options options = {.admin_token = size % 2 == 0 ? single : NULL, .admin_tokens = lines};
    FILE *err = fmemopen(said, sizeof said, "w");
    MUST(err != NULL);
    struct sk_tokens *tokens = sk_tokens_open(&options, err);
    (void)fclose(err);
    if (tokens == NULL)
        must_be_a_refusal(said, lines);
    else
        must_be_tokens(tokens, lines);
    sk_tokens_close(tokens);
    free(lines);
    return 0;
}
