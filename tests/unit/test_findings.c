// The lines that a check prints, and how far apart two clocks are.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "findings.h"
#include "test.h"

TEST(each_finding_is_one_line)
{
    char *text = NULL, longest[2000];
    size_t size = 0;
    struct sk_findings findings = {.out = open_memstream(&text, &size)};
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    sk_find(&findings, SK_FINDING_OK, "one", "%d", 1);
    sk_find(&findings, SK_FINDING_WARN, "two", "%s", "a server\n says\t\x1b[31mmuch\xff\n");
    SK_FIND_UNLESS(&findings, 1 > 2, SK_FINDING_FAIL, "three", "%s; so all is lost", "no");
    SK_FIND_UNLESS(&findings, 2 > 1, SK_FINDING_FAIL, "four", "%s; so all is lost", "yes");
    (void)fflush(findings.out);
    ck_assert_str_eq(
        text, "ok   one: 1\nwarn two: a server  says  [31mmuch\nfail three: no; so all is lost\nok   four: yes\n");
    size_t before = size;
    sk_find(&findings, SK_FINDING_OK, "long", "%s", longest);
    (void)fclose(findings.out);
    ck_assert_uint_lt(size - before, 600);
    ck_assert_int_eq(text[size - 1], '\n');
    ck_assert_uint_eq(findings.counts[SK_FINDING_OK], 3);
    ck_assert_uint_eq(findings.counts[SK_FINDING_WARN], 1);
    ck_assert_uint_eq(findings.counts[SK_FINDING_FAIL], 1);
    free(text);
}

static void of_ipv4(struct sockaddr_in *out, const char *text)
{
    *out = (struct sockaddr_in){.sin_family = AF_INET};
    ck_assert_int_eq(inet_pton(AF_INET, text, &out->sin_addr), 1);
}

TEST(what_others_can_read_is_found)
{
    char *text = NULL;
    size_t size = 0;
    struct sk_findings findings = {.out = open_memstream(&text, &size)};
    struct sockaddr_in near, far;
    const struct sockaddr local = {.sa_family = AF_UNIX};
    of_ipv4(&near, "127.0.0.9");
    of_ipv4(&far, "10.0.0.7");
    sk_find_way(&findings, "a", &local, false);
    sk_find_way(&findings, "b", (const struct sockaddr *)&near, false);
    sk_find_way(&findings, "c", (const struct sockaddr *)&far, false);
    sk_find_way(&findings, "d", (const struct sockaddr *)&far, true);
    (void)fclose(findings.out);
    ck_assert_str_eq(text, "ok   a: this machine\nok   b: this machine\n"
                           "warn c: 10.0.0.7; without TLS its password and the orders can be read on the way\n"
                           "ok   d: 10.0.0.7, by TLS\n");
    free(text);
}

TEST(clocks_are_compared_in_the_middle_of_the_question)
{
    static const struct {
        int64_t says_ms;
        uint64_t asked_ms, answered_ms;
        int64_t ahead_ms;
        uint64_t within_ms;
    } rows[] = {
        {1000, 1000, 1000, 0, 0},     {1050, 1000, 1100, 0, 100}, {6050, 1000, 1100, 5000, 100},
        {50, 1000, 1100, -1000, 100}, {1000, 1000, 900, 0, 0}, // our clock went back meanwhile
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct sk_clock_seen seen = sk_clock_compare(rows[i].says_ms, rows[i].asked_ms, rows[i].answered_ms);
        ck_assert(seen.known);
        ck_assert_int_eq(seen.ahead_ms, rows[i].ahead_ms);
        ck_assert_uint_eq(seen.within_ms, rows[i].within_ms);
    }
}

// PostgreSQL is ahead of both nodes: of these the one behind is farther from it, though the other is from us.
TEST(of_several_nodes_the_farthest_clock_counts)
{
    static const struct sk_clock_seen ours, postgres = {true, 900, 1}, unknown = {false, -9000, 0};
    static const int64_t nodes_ms[] = {300, -400, 600};
    struct sk_clocks_seen clocks = {.least.known = false};
    sk_clocks_note(&clocks, &unknown);
    ck_assert(!sk_clocks_farthest(&clocks, &ours)->known);
    for (size_t i = 0; i < sizeof nodes_ms / sizeof nodes_ms[0]; i++) {
        const struct sk_clock_seen seen = {true, nodes_ms[i], 1};
        sk_clocks_note(&clocks, &seen);
    }
    ck_assert_int_eq(sk_clocks_farthest(&clocks, &postgres)->ahead_ms, -400);
    ck_assert_int_eq(sk_clocks_farthest(&clocks, &ours)->ahead_ms, 600);
}
