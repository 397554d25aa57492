
#include "prefer.h"
#include "test.h"

TEST(lists)
{
    static const struct {
        const char *value;
        bool asked;
    } rows[] = {
        {"respond-async", true},
        {"Respond-ASYNC", true},
        {" \trespond-async\t ", true},
        {"wait=5, respond-async", true},
        {"respond-async, wait=5", true},
        {"respond-async,wait=5", true},
        {",, respond-async ,,", true},
        {"respond-async; foo=bar", true},
        {"respond-async;foo=\"a, b\";baz", true},
        {"respond-async;", true},
        {"respond-async ; ; wait", true},
        {"foo; bar=\"x\\\"y, z\", respond-async", true},
        {"foo=\"\", respond-async", true},
        {"return=minimal;x=\"\\\\\", respond-async", true},
        {"respond-async=\"\"", true}, // an empty value counts as none
        {"respond-async = \"\" ;x", true},
        {"a b, respond-async", true}, // an invalid element affects only itself
        {"=, respond-async", true},
        {"", false},
        {" ", false},
        {",", false},
        {";", false},
        {"xrespond-async", false},
        {"respond-asyncx", false},
        {"respond-async-x", false},
        {"respond", false},
        {"respond-async=1", false},
        {"respond-async=", false},
        {"respond-async=\"1\"", false},
        {"respond-async x", false},
        {"respond-async\"\"", false},
        {"\"respond-async\"", false},
        {"foo=respond-async", false},
        {"foo; respond-async", false},
        {"foo=\"a, respond-async\"", false},
        {"foo=\"a, respond-async", false},
        {"foo=\"a\\\", respond-async", false},
        {"foo=\"\\", false},
        {"wait=5 respond-async", false},
        {"x;y=\"1\" respond-async", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        ck_assert_msg(sk_prefer_async(rows[i].value) == rows[i].asked, "%s", rows[i].value);
}
