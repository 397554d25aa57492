// Whether a list of preferences asks for respond-async, and how long it waits.
#include <stddef.h>

#include "prefer.h"
#include "test.h"

#define ASYNC "respond-async"

TEST(respond_async_is_a_preference_of_its_own)
{
    static const char *const asked[] = {ASYNC, "Respond-ASYNC", " \t" ASYNC "\t ", "wait=5, " ASYNC, ASYNC ", wait=5",
                                        ASYNC ",wait=5", ",, " ASYNC " ,,",
                                        // parameters
                                        ASYNC "; foo=bar", ASYNC ";foo=\"a, b\";baz", ASYNC ";", ASYNC " ; ; wait",
                                        // behind quotes
                                        "foo; bar=\"x\\\"y, z\", " ASYNC, "foo=\"\", " ASYNC,
                                        "return=minimal;x=\"\\\\\", " ASYNC,
                                        // an empty value counts as none, and an invalid element affects only itself
                                        ASYNC "=\"\"", ASYNC " = \"\" ;x", "a b, " ASYNC, "=, " ASYNC, NULL};
    static const char *const not_asked[] = {// other names
                                            "", " ", ",", ";", "x" ASYNC, ASYNC "x", ASYNC "-x", "respond",
                                            // with a value
                                            ASYNC "=1", ASYNC "=", ASYNC "=\"1\"", ASYNC " x", ASYNC "\"\"",
                                            // in quotes, or of another preference
                                            "\"" ASYNC "\"", "foo=" ASYNC, "foo; " ASYNC, "foo=\"a, " ASYNC "\"",
                                            "foo=\"a, " ASYNC, "foo=\"a\\\", " ASYNC, "foo=\"\\", "wait=5 " ASYNC,
                                            "x;y=\"1\" " ASYNC, NULL};
    for (const char *const *value = asked; *value != NULL; value++)
        ck_assert_msg(sk_prefer_async(*value), "%s", *value);
    for (const char *const *value = not_asked; *value != NULL; value++)
        ck_assert_msg(!sk_prefer_async(*value), "%s", *value);
}

TEST(a_wait_has_a_number_of_seconds)
{
    static const struct {
        const char *value;
        int seconds; // -1: it has none
    } rows[] = {
        {"wait=5", 5},
        {"WAIT = 5", 5},
        {"respond-async, wait=10", 10},
        {"wait=\"7\"", 7},
        {"wait=0", 0},
        {"wait=5;x=y", 5},
        {"wait=86400", 86400},
        {"wait=2, wait=3", 2},
        {"wait=x, wait=3", 3}, // one that is invalid affects itself alone
        {"", -1},
        {"wait", -1},
        {"wait=", -1},
        {"wait=-1", -1},
        {"wait=05", -1},
        {"wait=5s", -1},
        {"wait=5.0", -1},
        {"wait=\"5", -1},
        {"wait=\"5\"x", -1},
        {"wait=86401", -1},
        {"wait=99999999999999999999", -1},
        {"x=\"wait=5\"", -1},
        {"x;wait=5", -1},
        {"await=5", -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        unsigned seconds = 77;
        bool has = sk_prefer_wait(rows[i].value, &seconds);
        ck_assert_msg(has == (rows[i].seconds >= 0), "%s", rows[i].value);
        ck_assert_msg(!has || seconds == (unsigned)rows[i].seconds, "%s: %u", rows[i].value, seconds);
    }
}
