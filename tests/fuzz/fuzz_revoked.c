// The file of revoked tokens. Each of its lines that is not a comment revokes a token with that claim; another token is
// good. A file that is not accepted has a line of another form.
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../harness/key_texts.h"
#include "auth.h"
#include "base64url.h"
#include "buf.h"
#include "fuzz.h"
#include "text.h"
#include "user_tokens.h"

#define KEYS "a HS256 " SECRET_A

enum { NOW_S = 1000, PATH_SIZE = 40, CLAIM = 4 };

static char issuer[] = "i", audience[] = "shop", user[] = "user", keys_path[PATH_SIZE], revoked_path[PATH_SIZE];
static const struct sk_identity_options options = {.token_keys = keys_path,
                                                   .token_revoked = revoked_path,
                                                   .token_issuer = issuer,
                                                   .token_audience = audience,
                                                   .token_user = user};

static int make_file(const char *text, size_t size, char path[PATH_SIZE])
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    MUST(fd >= 0 && write(fd, text, size) == (ssize_t)size);
    (void)snprintf(path, PATH_SIZE, "/proc/self/fd/%d", fd);
    return fd;
}

static void put_part(struct sk_buf *token, const void *bytes, size_t len)
{
    char *text = malloc(SK_BASE64URL_CHARS(len) + 1);
    MUST(text != NULL);
    sk_buf_add(token, text, sk_base64url_put(bytes, len, text));
    free(text);
}

// A token with this claim, by name and text.
static enum sk_jwt_result check(struct sk_user_tokens *tokens, const struct sk_token_keys *keys, const char *name,
                                struct sk_span id)
{
    static const char header[] = "{\"alg\":\"HS256\",\"kid\":\"a\"}";
    unsigned char signature[SK_JWS_SIGNATURE_MAX];
    char who[SK_USER_SIZE];
    struct sk_buf token = {0}, claims = {0};
    sk_buf_printf(&claims, "{\"iss\":\"i\",\"aud\":\"shop\",\"user\":\"alice\",\"exp\":2000,\"%s\":\"", name);
    sk_buf_add(&claims, id.at, id.len);
    sk_buf_puts(&claims, "\"}");
    put_part(&token, header, sizeof header - 1);
    sk_buf_puts(&token, ".");
    put_part(&token, claims.data, claims.len);
    size_t len = sk_jws_sign(keys->all[0].jws, token.data, token.len, signature);
    sk_buf_puts(&token, ".");
    put_part(&token, signature, len);
    MUST(len > 0 && !token.failed && !claims.failed);
    enum sk_jwt_result result = sk_user_tokens_check(tokens, token.data, NOW_S, who);
    sk_buf_free(&token);
    sk_buf_free(&claims);
    return result;
}

static bool is_plain(struct sk_span text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] < ' ' || text.at[i] > '~' || text.at[i] == '"' || text.at[i] == '\\')
            return false;
    }
    return true;
}

// Whether the line revokes something; false also if it has another form, which makes *wrong true.
static bool take_line(struct sk_span line, const char **name, struct sk_span *id, bool *wrong)
{
    while (line.len > 0 && (line.at[line.len - 1] == ' ' || line.at[line.len - 1] == '\t'))
        line.len--;
    if (line.len == 0 || *line.at == '#')
        return false;
    bool jti = line.len > CLAIM && memcmp(line.at, "jti:", CLAIM) == 0;
    bool sub = line.len > CLAIM && memcmp(line.at, "sub:", CLAIM) == 0;
    bool blank = memchr(line.at, ' ', line.len) != NULL || memchr(line.at, '\t', line.len) != NULL;
    *wrong = *wrong || (!jti && !sub) || blank;
    *name = jti ? "jti" : "sub";
    *id = (struct sk_span){line.at + CLAIM, line.len - CLAIM};
    return (jti || sub) && !blank;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { TRIED_MAX = 20 };
    static const char other[] = "a-text-that-no-case-has", unnamed[] = "what no line can hold";
    char *text = fuzz_bytes(data, size);
    int keys_fd = make_file(KEYS, sizeof KEYS - 1, keys_path), fd = make_file(text, size, revoked_path);
    struct sk_token_ring *ring = sk_token_ring_open(&options, 1);
    struct sk_user_tokens *tokens = ring == NULL ? NULL : sk_user_tokens_open(&options, ring, 0, NULL);
    const struct sk_token_keys *keys = NULL;
    struct sk_span rest = {text, size}, line, id;
    const char *name;
    bool wrong = false;
    uint64_t version;
    if (ring != NULL)
        keys = sk_editions_take(sk_token_ring_keys(ring), &version);
    for (int tried = 0; sk_span_line(&rest, &line);) {
        if (!take_line(line, &name, &id, &wrong) || ring == NULL || tried++ > TRIED_MAX || !is_plain(id) ||
            id.len > SK_JWT_KID_MAX)
            continue;
        MUST(check(tokens, keys, name, id) == SK_JWT_REVOKED);
    }
    MUST(wrong == (ring == NULL));
    if (ring != NULL) {
        MUST(check(tokens, keys, "jti", (struct sk_span){other, sizeof other - 1}) == SK_JWT_GOOD);
        MUST(check(tokens, keys, "sub", (struct sk_span){unnamed, sizeof unnamed - 1}) == SK_JWT_NOT_REVOCABLE);
        sk_editions_give_back(sk_token_ring_keys(ring), keys);
    }
    sk_user_tokens_close(tokens);
    sk_token_ring_close(ring);
    (void)close(keys_fd);
    (void)close(fd);
    free(text);
    return 0;
}
