// Read at the start, and again at each reload. A list with any error is rejected as a whole: an operator who believes
// that a token is gone, or has fewer roles, must not be mistaken.
//
// A token is compared with all of them, to the end, whatever it matches. So the time that takes reveals neither how
// much of a token was guessed, nor which line it is in.
#include "admin_tokens.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auth.h"
#include "identity_options.h"
#include "text.h"

enum {
    ROLES_OF_READ = SK_ROLE_READ | SK_ROLE_METRICS,
    ROLES_OF_OPERATE = ROLES_OF_READ | SK_ROLE_OPERATE | SK_ROLE_REFUNDS,
    ALL_ROLES = ROLES_OF_OPERATE | SK_ROLE_PAYMENTS
};

const struct sk_role_name sk_role_names[SK_ROLE_NAMES] = {{"read", SK_ROLE_READ, ROLES_OF_READ},
                                                          {"operate", SK_ROLE_OPERATE, ROLES_OF_OPERATE},
                                                          {"refunds", SK_ROLE_REFUNDS, SK_ROLE_REFUNDS},
                                                          {"payments", SK_ROLE_PAYMENTS, SK_ROLE_PAYMENTS},
                                                          {"metrics", SK_ROLE_METRICS, SK_ROLE_METRICS}};

struct token {
    char name[SK_ADMIN_NAME_SIZE];
    struct sk_span text; // borrowed from the configuration
    unsigned roles;
};

struct sk_tokens {
    size_t count, longest;
    struct token all[SK_TOKENS_MAX];
};

static const char *tokens_read_name(const struct sk_tokens *tokens, struct sk_span word, struct token *token)
{
    if (word.len > SK_ADMIN_NAME_MAX)
        return "the name is too long";
    memcpy(token->name, word.at, word.len);
    if (!sk_text_user(token->name))
        return "the name has other characters than A-Za-z0-9_.-";
    for (size_t i = 0; i < tokens->count; i++) {
        if (strcmp(tokens->all[i].name, token->name) == 0)
            return "the name is taken";
    }
    return NULL;
}

// 0: one of them is not a role.
static unsigned tokens_read_roles(struct sk_span word)
{
    unsigned roles = 0;
    for (size_t from = 0; from <= word.len;) {
        const char *role = word.at + from, *comma = memchr(role, ',', word.len - from);
        size_t len = comma == NULL ? word.len - from : (size_t)(comma - role), i = 0;
        while (i < SK_ROLE_NAMES &&
               (strlen(sk_role_names[i].name) != len || memcmp(sk_role_names[i].name, role, len) != 0))
            i++;
        if (i == SK_ROLE_NAMES)
            return 0;
        roles |= sk_role_names[i].includes;
        from += len + 1;
    }
    return roles;
}

// Returns what is wrong with its text; NULL: nothing.
static const char *tokens_add(struct sk_tokens *tokens, struct token token)
{
    struct sk_span text = token.text;
    if (text.len < SK_TOKEN_LEN_MIN)
        return "the token is shorter than 16 characters";
    if (text.len > SK_TOKEN_LEN_MAX)
        return "the token is longer than 256 characters";
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] <= ' ' || text.at[i] > '~')
            return "the token has other characters than visible ASCII";
    }
    for (size_t i = 0; i < tokens->count; i++) {
        if (tokens->all[i].text.len == text.len && memcmp(tokens->all[i].text.at, text.at, text.len) == 0)
            return "the token is taken";
    }
    if (tokens->count == SK_TOKENS_MAX)
        return "there are more than 64 tokens";
    tokens->all[tokens->count++] = token;
    if (text.len > tokens->longest)
        tokens->longest = text.len;
    return NULL;
}

static const char *tokens_read_line(struct sk_tokens *tokens, struct sk_span line)
{
    struct sk_span name = sk_span_word(&line), roles = sk_span_word(&line);
    struct token token = {.text = sk_span_word(&line)};
    bool more = sk_span_word(&line).len > 0;
    if (name.len == 0 || *name.at == '#')
        return NULL;
    if (token.text.len == 0 || more)
        return "is not of the form: name role[,role...] token";
    const char *wrong = tokens_read_name(tokens, name, &token);
    if (wrong != NULL)
        return wrong;
    token.roles = tokens_read_roles(roles);
    if (token.roles == 0)
        return "the roles are not a list of read, operate, payments, refunds and metrics, parted by commas";
    return tokens_add(tokens, token);
}

struct sk_tokens *sk_tokens_open(const struct sk_identity_options *options, FILE *err)
{
    const char *single = options->admin_token, *lines = options->admin_tokens, *wrong = NULL;
    struct sk_tokens *tokens = calloc(1, sizeof *tokens);
    if (tokens == NULL) {
        (void)fprintf(err, "seckill: out of memory\n");
        return NULL;
    }
    if (single != NULL)
        wrong = tokens_add(tokens, (struct token){"admin", {single, strlen(single)}, ALL_ROLES});
    if (wrong != NULL) {
        (void)fprintf(err, "seckill: SECKILL_ADMIN_TOKEN: %s\n", wrong);
    } else if (lines != NULL) {
        struct sk_span text = {lines, strlen(lines)}, line;
        unsigned number = 0;
        for (; wrong == NULL && sk_span_line(&text, &line); number++)
            wrong = tokens_read_line(tokens, line);
        if (wrong != NULL)
            (void)fprintf(err, "seckill: SECKILL_ADMIN_TOKENS: line %u: %s\n", number, wrong);
    }
    if (wrong == NULL)
        return tokens;
    sk_tokens_close(tokens);
    return NULL;
}

void sk_tokens_close(struct sk_tokens *tokens)
{
    free(tokens);
}

bool sk_tokens_any(const struct sk_tokens *tokens)
{
    return tokens->count > 0;
}

// 0: they are equal. Takes equally long in both cases.
static unsigned tokens_difference(struct sk_span a, struct sk_span b)
{
    unsigned difference = a.len != b.len;
    for (size_t i = 0; i < a.len; i++)
        difference |= (unsigned char)(a.at[i] ^ b.at[i % b.len]);
    return difference;
}

unsigned sk_tokens_find(const struct sk_tokens *tokens, const char *token, char name[SK_ADMIN_NAME_SIZE])
{
    struct sk_span text = {token, strlen(token)};
    size_t found = 0;
    if (text.len > tokens->longest)
        return 0;
    for (size_t i = 0; i < tokens->count; i++) {
        // All ones if they are equal: a difference is at most one byte, so only 0 - 1 sets the higher bits.
        size_t equal = (size_t)0 - ((tokens_difference(text, tokens->all[i].text) - 1) >> 8 & 1);
        found |= equal & (i + 1);
    }
    if (found == 0)
        return 0;
    memcpy(name, tokens->all[found - 1].name, SK_ADMIN_NAME_SIZE);
    return tokens->all[found - 1].roles;
}
