#include <stdlib.h>
#include <string.h>

#include "stack.h"
#include "test.h"

extern const struct harness_test first[] __asm__("__start_harness_tests"), end[] __asm__("__stop_harness_tests");

__attribute__((weak)) const struct harness_suite harness_suite;

static int main_compare(const void *a, const void *b)
{
    const struct harness_test *one = a, *other = b;
    return one->test->line - other->test->line;
}

static TCase *main_tests(size_t count)
{
    struct harness_test *tests = calloc(count, sizeof *tests);
    TCase *tcase = tcase_create(first->test->file);
    if (tests == NULL)
        abort();
    memcpy(tests, first, count * sizeof *tests);
    qsort(tests, count, sizeof *tests, main_compare); // compilers put them down in any order
    for (size_t i = 0; i < count; i++)
        _tcase_add_test(tcase, tests[i].test, tests[i].signal, 0, 0, tests[i].times);
    free(tests);
    return tcase;
}

// Ends the stack, too.
int main(void)
{
    TCase *tcase = main_tests((size_t)(end - first));
    Suite *suite = suite_create("seckill");
    (void)signal(SIGPIPE, SIG_IGN); // servers cut our connections, and some tests provoke it
    if (harness_suite.timeout_s > 0)
        tcase_set_timeout(tcase, harness_suite.timeout_s);
    tcase_add_unchecked_fixture(tcase, harness_suite.begin, harness_suite.end);
    tcase_add_checked_fixture(tcase, harness_suite.setup, harness_suite.teardown);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, harness_suite.in_one_process ? CK_NOFORK : CK_FORK);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    stack_end();
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
