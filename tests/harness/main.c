#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stack.h"
#include "test.h"

extern const struct harness_test first[] __asm__("__start_harness_tests"), end[] __asm__("__stop_harness_tests");
extern const struct harness_suite *const first_suite[] __asm__("__start_harness_suites") __attribute__((weak)), *const
    end_suite[] __asm__("__stop_harness_suites") __attribute__((weak));

// Whether the file has this name, without its folder and ".c". NULL: any.
static bool main_is(const char *file, const char *name)
{
    const char *slash = strrchr(file, '/'), *base = slash == NULL ? file : slash + 1;
    return name == NULL || (strncmp(base, name, strlen(name)) == 0 && strcmp(base + strlen(name), ".c") == 0);
}

static struct harness_suite main_suite(const char *name)
{
    for (const struct harness_suite *const *suite = first_suite; suite < end_suite; suite++) {
        if (main_is((*suite)->file, name))
            return **suite;
    }
    return (struct harness_suite){.file = name};
}

static int main_compare(const void *a, const void *b)
{
    const struct harness_test *one = a, *other = b;
    return one->test->line - other->test->line;
}

// NULL: there are none.
static TCase *main_tests(const char *name)
{
    size_t count = 0;
    struct harness_test *tests = calloc((size_t)(end - first), sizeof *tests);
    if (tests == NULL)
        abort();
    for (const struct harness_test *test = first; test < end; test++) {
        if (main_is(test->test->file, name))
            tests[count++] = *test;
    }
    TCase *tcase = count == 0 ? NULL : tcase_create(tests[0].test->file);
    qsort(tests, count, sizeof *tests, main_compare); // compilers put them down in any order
    for (size_t i = 0; i < count; i++)
        _tcase_add_test(tcase, tests[i].test, tests[i].signal, 0, 0, tests[i].times);
    free(tests);
    return tcase;
}

static bool main_has_one_file(void)
{
    const struct harness_test *test = first;
    while (test < end && strcmp(test->test->file, first->test->file) == 0)
        test++;
    return test == end;
}

// Ends the stack, too.
int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : NULL;
    if (name == NULL && !main_has_one_file()) {
        (void)fprintf(stderr, "usage: %s test_NAME, which is a file\n", argv[0]);
        return EXIT_FAILURE;
    }
    const struct harness_suite of = main_suite(name);
    TCase *tcase = main_tests(name);
    if (tcase == NULL) {
        (void)fprintf(stderr, "no tests in %s.c\n", name);
        return EXIT_FAILURE;
    }
    Suite *suite = suite_create("seckill");
    (void)signal(SIGPIPE, SIG_IGN); // servers cut our connections, and some tests provoke it
    if (of.timeout_s > 0)
        tcase_set_timeout(tcase, of.timeout_s);
    tcase_add_unchecked_fixture(tcase, of.begin, of.end);
    tcase_add_checked_fixture(tcase, of.setup, of.teardown);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, of.in_one_process ? CK_NOFORK : CK_FORK);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    stack_end();
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
