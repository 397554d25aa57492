// How tests are written: each stands by itself, and main(), which is the harness's, runs those of a file in the order
// of their lines. A program with several files takes the name of one: `integration test_race`.
//
//   TEST(what_must_be_so)
//   {
//   }
#ifndef HARNESS_TEST_H
#define HARNESS_TEST_H

#include <check.h>
#include <signal.h>
#include <stdbool.h>

struct harness_test {
    const TTest *test;
    int times, signal;
};

#define HARNESS_TEST(name, times, signal)                                                                            \
    static void name(int _i CK_ATTRIBUTE_UNUSED);                                                                    \
    static const TTest name##_test = {#name, name, __BASE_FILE__, __LINE__};                                         \
    __attribute__((used, section("harness_tests"))) static const struct harness_test name##_entry = {&name##_test,   \
                                                                                                     times, signal}; \
    static void name(int _i CK_ATTRIBUTE_UNUSED)

#define TEST(name)                    HARNESS_TEST(name, 1, 0)
#define TEST_EACH(name, times)        HARNESS_TEST(name, times, 0) // with _i from 0 on
#define TEST_ABORTS(name)             HARNESS_TEST(name, 1, SIGABRT)
#define TEST_EACH_ABORTS(name, times) HARNESS_TEST(name, times, SIGABRT)

// At the end of the file, unless its tests need none of it.
#define SUITE(...)                                                                                               \
    static const struct harness_suite file_suite = {.file = __BASE_FILE__, __VA_ARGS__};                         \
    __attribute__((used, section("harness_suites"))) static const struct harness_suite *const file_suite_entry = \
        &file_suite

struct harness_suite {
    const char *file;
    int timeout_s;          // of a test; 0: Check's own, which CTest sets
    void (*begin)(void);    // before all tests: the place for stack_start() ...
    void (*end)(void);      // ... and after them
    void (*setup)(void);    // before each test ...
    void (*teardown)(void); // ... and after it
    bool in_one_process;    // else each test runs in a child of its own. A child would take along what it starts
};

#endif
