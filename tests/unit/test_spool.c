// The spool: lines come out complete and in order for each lane, also with several writers and a slow reader. Lines
// without room are dropped and counted, and no writer ever waits.
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "listening.h"
#include "spool.h"
#include "test.h"
#include "wait.h"

enum { LANES = 3, EACH = 10000, MANY = 10000, LOW_PRIORITY_MS = 20000 };

static const char what[] = "lines dropped";

static struct sk_spool *spool;
static int ends[2]; // both ends of a pipe

static void setup(void)
{
    (void)signal(SIGPIPE, SIG_IGN);
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
}

static void close_end(int i)
{
    if (ends[i] >= 0)
        (void)close(ends[i]);
    ends[i] = -1;
}

static void teardown(void)
{
    close_end(0);
    close_end(1);
}

static void put(size_t lane, int number)
{
    char line[SK_SPOOL_LINE_MAX];
    // Of different lengths, up to the longest.
    int n = snprintf(line, sizeof line, "lane=%zu number=%d %*s\n", lane, number, number % 480, "x");
    if (n >= (int)sizeof line) {
        n = sizeof line - 1;
        line[n - 1] = '\n';
    }
    sk_spool_put(sk_spool_lane(spool, lane), line, (size_t)n);
}

// ---- readers ----

struct reader {
    pthread_t thread;
    int last[LANES]; // of each lane; -1: none yet
    uint64_t lines, bad;
};

// Without assertions: these are only for the main thread.
static void read_line(struct reader *reader, const char *line)
{
    size_t lane = LANES, len = strlen(line);
    int number = 0;
    bool whole = sscanf(line, "lane=%zu number=%d ", &lane, &number) == 2 && lane < LANES && line[len - 1] == '\n' &&
                 (strchr(line, 'x') != NULL || len == SK_SPOOL_LINE_MAX - 1);
    if (!whole || number <= reader->last[lane]) {
        reader->bad++;
        return;
    }
    reader->last[lane] = number;
    reader->lines++;
}

static void *read_all(void *arg)
{
    struct reader *reader = arg;
    char line[2 * SK_SPOOL_LINE_MAX];
    FILE *file = fdopen(dup(ends[0]), "re");
    for (int i = 0; i < LANES; i++)
        reader->last[i] = -1;
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        read_line(reader, line);
    if (file != NULL)
        (void)fclose(file);
    return NULL;
}

static void *put_all(void *arg)
{
    size_t lane = (size_t)((char *)arg - (char *)NULL);
    for (int number = 0; number < EACH; number++)
        put(lane, number);
    return NULL;
}

TEST(lines_of_all_threads_come_out_whole)
{
    struct reader reader = {0};
    pthread_t threads[LANES];
    spool = sk_spool_open(ends[1], LANES, what);
    ck_assert_ptr_nonnull(spool);
    ck_assert_int_eq(pthread_create(&reader.thread, NULL, read_all, &reader), 0);
    for (size_t i = 0; i < LANES; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, put_all, (char *)NULL + i), 0);
    for (size_t i = 0; i < LANES; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    // The rings are written at the end; only lines without room are missing.
    uint64_t dropped = sk_spool_dropped(spool);
    ck_assert(sk_spool_close(spool, LOW_PRIORITY_MS));
    close_end(1);
    ck_assert_int_eq(pthread_join(reader.thread, NULL), 0);
    ck_assert_uint_gt(reader.lines, 0);
    ck_assert_uint_eq(reader.bad, 0);
    ck_assert_uint_eq(reader.lines + dropped, (uint64_t)LANES * EACH);
}

// A writer that waited would never return. Lines that fit neither the pipe nor the ring are dropped and reported.
TEST(a_reader_that_does_not_read_holds_up_nobody)
{
    struct reader reader = {0};
    begin_listening();
    spool = sk_spool_open(ends[1], LANES, what);
    for (int number = 0; number < MANY; number++)
        put(0, number);
    uint64_t dropped = sk_spool_dropped(spool);
    ck_assert_uint_gt(dropped, 0);
    WAIT_FOR(poll(&(struct pollfd){.fd = ends[0], .events = POLLIN}, 1, 0) == 1); // the pipe has data
    ck_assert(sk_spool_close(spool, 1));                                          // lines in the ring are dropped, too
    end_listening();
    close_end(1);
    (void)read_all(&reader);
    ck_assert_uint_gt(reader.lines, 0);
    ck_assert_uint_eq(reader.bad, 0);
    ck_assert_uint_lt(reader.lines, MANY - dropped);
    char all[64]; // the last report includes all
    (void)snprintf(all, sizeof all, "dropped_in_all=%" PRIu64 "\n", MANY - reader.lines);
    ck_assert_ptr_nonnull(strstr(heard, "level=warn msg=\"lines dropped\" dropped="));
    ck_assert_msg(strstr(heard, all) != NULL, "%s is not in %s", all, heard);
}

TEST(where_nothing_can_be_written_all_is_dropped)
{
    begin_listening();
    close_end(0);
    spool = sk_spool_open(ends[1], 1, what);
    for (int number = 0; number < 100; number++)
        put(0, number);
    WAIT_FOR(sk_spool_dropped(spool) == 100);
    ck_assert(sk_spool_close(spool, LOW_PRIORITY_MS));
    end_listening();
    ck_assert_ptr_nonnull(strstr(heard, "dropped_in_all=100\n"));
}

// Few lines are written before the end, too.
TEST(a_descriptor_that_does_not_block_is_waited_for)
{
    struct reader reader = {0};
    ck_assert(sk_spool_close(NULL, 0));
    ck_assert_int_eq(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
    spool = sk_spool_open(ends[1], 1, what);
    put(0, 0);
    WAIT_FOR(poll(&(struct pollfd){.fd = ends[0], .events = POLLIN}, 1, 0) == 1);
    for (int number = 1; number < 1000; number++) // more than the pipe's room, less than the ring's
        put(0, number);
    ck_assert_int_eq(pthread_create(&reader.thread, NULL, read_all, &reader), 0);
    ck_assert_uint_eq(sk_spool_dropped(spool), 0);
    ck_assert(sk_spool_close(spool, LOW_PRIORITY_MS));
    close_end(1);
    ck_assert_int_eq(pthread_join(reader.thread, NULL), 0);
    ck_assert_uint_eq(reader.lines, 1000);
    ck_assert_uint_eq(reader.bad, 0);
}

SUITE(.setup = setup, .teardown = teardown);
