// Whether a list of preferences asks for respond-async.
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
