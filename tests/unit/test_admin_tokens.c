// The list of tokens: its contents, the line named in a rejection, and that no message repeats a token.
#include <stdlib.h>
#include <string.h>

#include "admin_tokens.h"
#include "buf.h"
#include "test.h"

#define A16  "0123456789abcdef"
#define A64  A16 A16 A16 A16
#define A256 A64 A64 A64 A64

enum {
    READS = SK_ROLE_READ | SK_ROLE_METRICS,
    OPERATES = READS | SK_ROLE_OPERATE | SK_ROLE_REFUNDS,
};

static struct sk_tokens *tokens;
static char *said; // on the error stream

static bool open_tokens(const char *single, const char *lines)
{
    // The configuration's texts are not written to; the type only lacks the const.
    union {
        const char *in;
        char *out;
    } one = {.in = single}, all = {.in = lines};
    struct sk_identity_options options = {.admin_token = one.out, .admin_tokens = all.out};
    size_t size;
    free(said);
    sk_tokens_close(tokens);
    FILE *err = open_memstream(&said, &size);
    tokens = sk_tokens_open(&options, err);
    (void)fclose(err);
    return tokens != NULL;
}

static void teardown(void)
{
    sk_tokens_close(tokens);
    free(said);
}

static void must_have(const char *token, unsigned roles, const char *name)
{
    char found[SK_ADMIN_NAME_SIZE] = "none";
    ck_assert_msg(sk_tokens_find(tokens, token, found) == roles, "%s", token);
    ck_assert_str_eq(found, roles == 0 ? "none" : name);
}

TEST(without_tokens_there_are_none)
{
    static const char *const rows[] = {NULL, "\n", "#", "# a name read " A16 "\n\n \t\n\r\n\t# b\r\n"};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ck_assert_msg(open_tokens(NULL, rows[i]), "%s", said);
        ck_assert(!sk_tokens_any(tokens));
        must_have("", 0, NULL);
        must_have(A16, 0, NULL);
        ck_assert_str_eq(said, "");
    }
}

TEST(the_single_token_has_all_roles)
{
    ck_assert(open_tokens("the-single-token", NULL));
    ck_assert(sk_tokens_any(tokens));
    must_have("the-single-token", SK_ROLE_ANY, "admin");
    must_have("the-single-tokeN", 0, NULL);
    must_have("the-single-toke", 0, NULL);
    must_have("the-single-tokens", 0, NULL);
    must_have("", 0, NULL);
}

// A token of a few characters can be guessed.
TEST(the_single_token_has_the_form_of_the_others)
{
    static const char *const rows[][2] = {{"", "shorter than 16"},
                                          {"a", "shorter than 16"},
                                          {"0123456789abcde", "shorter than 16"},
                                          {A256 "0", "longer than 256"},
                                          {"0123456789abcde f", "visible ASCII"},
                                          {"0123456789abcde\xc3\xa9", "visible ASCII"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ck_assert_msg(!open_tokens(rows[i][0], NULL), "'%s'", rows[i][0]);
        ck_assert_msg(strstr(said, "SECKILL_ADMIN_TOKEN: ") != NULL && strstr(said, rows[i][1]) != NULL, "%s", said);
        ck_assert_ptr_null(strstr(said, "0123"));
    }
    ck_assert(open_tokens(A16, NULL) && open_tokens(A256, NULL));
}

TEST(lines_are_read)
{
    ck_assert(open_tokens("the-single-token", "# of the shop\n"
                                              "alice read " A16 "0\n"
                                              "\n"
                                              "  bob\toperate \t " A16 "#1 \t\r\n"
                                              "shop.side-2_X payments " A256 "\n"
                                              "carol payments,operate,read " A16 "3\n"
                                              "dave read,payments,read !~" A16 "\n"
                                              "scraper metrics " A16 "4\n"
                                              "desk refunds " A16 "5"));
    must_have("the-single-token", SK_ROLE_ANY, "admin");
    must_have(A16 "0", READS, "alice");
    must_have(A16 "#1", OPERATES, "bob");
    must_have(A256, SK_ROLE_PAYMENTS, "shop.side-2_X");
    must_have(A16 "3", SK_ROLE_ANY, "carol");
    must_have("!~" A16, READS | SK_ROLE_PAYMENTS, "dave");
    must_have(A16 "4", SK_ROLE_METRICS, "scraper");
    must_have(A16 "5", SK_ROLE_REFUNDS, "desk");
    must_have(A16, 0, NULL);
    must_have(A16 "2", 0, NULL);
    must_have("alice", 0, NULL);
    must_have(A256 "0", 0, NULL);
}

// Also if a token is a prefix or a repetition of another.
TEST(every_bit_of_a_token_counts)
{
    static const char *const texts[] = {A16, A16 A16, "fedcba9876543210"};
    ck_assert(open_tokens(NULL, "a read " A16 "\nb operate " A16 A16 "\nc payments fedcba9876543210"));
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char text[64];
        for (size_t at = 0; texts[i][at] != '\0'; at++) {
            for (int bit = 0; bit < 8; bit++) {
                (void)snprintf(text, sizeof text, "%s", texts[i]);
                text[at] = (char)(text[at] ^ 1 << bit);
                must_have(text, 0, NULL);
            }
        }
    }
    must_have(A16, READS, "a");
    must_have(A16 A16, OPERATES, "b");
    must_have("fedcba9876543210", SK_ROLE_PAYMENTS, "c");
}

// All for this reason, which names their last line.
static void must_be_refused(const char *line, const char *reason, const char *const *texts)
{
    for (; *texts != NULL; texts++) {
        ck_assert_msg(!open_tokens("the-single-token-1", *texts), "%s", *texts);
        ck_assert_msg(strstr(said, "SECKILL_ADMIN_TOKENS: ") != NULL, "%s", said);
        ck_assert_msg(strstr(said, line) != NULL && strstr(said, reason) != NULL, "%s -> %s", *texts, said);
        ck_assert_ptr_null(strstr(said, "0123"));
        ck_assert_ptr_null(strstr(said, "the-single"));
        ck_assert_ptr_eq(strchr(said, '\n'), said + strlen(said) - 1);
    }
}

TEST(wrong_lines_are_refused_by_number)
{
#define TEXTS(...) (const char *const[]){__VA_ARGS__, NULL}
    must_be_refused("line 1:", "form",
                    TEXTS("alice", "alice read", "alice " A16, "alice read " A16 " more", "alice read " A16 " # more",
                          "alice read, payments " A16));
    must_be_refused("line 4:", "form", TEXTS("# x\n\nalice read " A16 "\nbob\n"));
    must_be_refused("line 1:", "name", TEXTS("al:ice read " A16, "al\xc3\xa9 read " A16, A64 "0 read " A16));
    must_be_refused("line 1:", "roles",
                    TEXTS("alice write " A16, "alice READ " A16, "alice reads " A16, "alice rea " A16,
                          "alice read,, " A16, "alice ,read " A16, "alice read, " A16, "alice , " A16,
                          "alice read;operate " A16));
    must_be_refused("line 1:", "shorter than 16", TEXTS("alice read 0123456789abcde"));
    must_be_refused("line 1:", "longer than 256", TEXTS("alice read " A256 "0"));
    must_be_refused(
        "line 1:", "visible ASCII",
        TEXTS("alice read 0123456789abcde\xc3\xa9", "alice read 0123456789abcde\x7f", "alice read 01234567\r89abcdef"));
    must_be_refused("line 2:", "name is taken", TEXTS("alice read " A16 "\nalice read " A16 "1"));
    must_be_refused("line 2:", "token is taken", TEXTS("alice read " A16 "\nbob read " A16));
    must_be_refused("line 1:", "token is taken", TEXTS("bob read the-single-token-1"));
    must_be_refused("line 1:", "name is taken", TEXTS("admin read " A16));
}

TEST(there_is_a_most)
{
    struct sk_buf lines = {0};
    for (int i = 0; i < SK_TOKENS_MAX; i++)
        sk_buf_printf(&lines, "n%d read token-of-number-%03d\n", i, i);
    ck_assert(open_tokens(NULL, lines.data));
    must_have("token-of-number-000", READS, "n0");
    must_have("token-of-number-063", READS, "n63");
    ck_assert(!open_tokens("the-single-token", lines.data));
    ck_assert_ptr_nonnull(strstr(said, "line 64: there are more than 64"));
    sk_buf_puts(&lines, "one-more read token-of-number-999\n");
    ck_assert(!open_tokens(NULL, lines.data));
    ck_assert_ptr_nonnull(strstr(said, "line 65: there are more than 64"));
    sk_buf_free(&lines);
}

SUITE(.teardown = teardown);
