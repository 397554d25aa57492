// Redis commands as bytes, checked against hiredis.
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "redis_format.h"
#include "test.h"

enum { ARGS_MAX = 2000 };

static void must_be_the_same(int argc, const char **argv, const size_t *lens)
{
    char *expected = NULL;
    size_t len = 0;
    int expected_len = redisFormatCommandArgv(&expected, argc, argv, lens);
    char *command = sk_redis_format(argc, argv, lens, &len);
    ck_assert_ptr_nonnull(command);
    ck_assert_int_eq((int)len, expected_len);
    ck_assert_mem_eq(command, expected, len);
    free(command);
    free(expected);
}

TEST(a_command_is_what_hiredis_makes_of_it)
{
    const char *words[] = {"EVALSHA", "", "a", "{7}", "9 bytes!\r\n", "\xff\xfe"};
    must_be_the_same(1, words, NULL);
    must_be_the_same(sizeof words / sizeof words[0], words, NULL);
}

TEST(lengths_that_are_given_count)
{
    const char *words[] = {"SET", "k\0ey", "valuemore"};
    const size_t lens[] = {3, 4, 5};
    must_be_the_same(3, words, lens);
}

// Lengths of one digit, of several, and at each step between; and as many arguments as in a batch.
TEST(numbers_of_any_length)
{
    static const char *words[ARGS_MAX];
    static size_t lens[ARGS_MAX];
    static char text[100001];
    memset(text, 'x', sizeof text - 1);
    for (int i = 0; i < ARGS_MAX; i++) {
        words[i] = text;
        lens[i] = (size_t)i;
    }
    lens[0] = 9999;
    lens[1] = 10000;
    lens[2] = 99999;
    lens[3] = 100000;
    for (int argc = 4; argc <= ARGS_MAX; argc += argc < 101 ? 1 : 633)
        must_be_the_same(argc, words, lens);
}
