// The lines of outages: one at the begin, one every half minute, one at the end, for the process as a whole.
#include <stdio.h>
#include <string.h>

#include "listening.h"
#include "metrics.h"
#include "outages.h"
#include "test.h"

enum { REACTORS = 2, SECONDS = 200 };

static struct sk_metrics *reactors[REACTORS];
static struct sk_outages *outages;
static uint64_t now_ms;

static void setup(void)
{
    now_ms = 1000;
    outages = sk_outages_open();
    ck_assert_ptr_nonnull(outages);
    for (int i = 0; i < REACTORS; i++) {
        reactors[i] = sk_metrics_open();
        ck_assert_ptr_nonnull(reactors[i]);
        sk_metrics_set(reactors[i], SK_METRIC_REACTORS, 1);
        sk_metrics_set(reactors[i], SK_METRIC_REACTORS_READY, 1);
    }
}

static void teardown(void)
{
    for (int i = 0; i < REACTORS; i++)
        sk_metrics_close(reactors[i]);
    sk_outages_close(outages);
}

// A reactor's connections; redis NULL: none is known.
static void publish(int reactor, const char *redis, bool redis_up, bool postgresql_up)
{
    struct sk_server_rows rows = {.count = 0};
    sk_server_table_row(&rows, "postgresql", "0")->up = postgresql_up;
    if (redis != NULL)
        sk_server_table_row(&rows, "redis", redis)->up = redis_up;
    sk_server_table_publish(&reactors[reactor]->servers, &rows);
}

static void publish_all(const char *redis, bool redis_up, bool postgresql_up)
{
    for (int i = 0; i < REACTORS; i++)
        publish(i, redis, redis_up, postgresql_up);
}

// Lets so many seconds pass; the lines of them are in `heard`.
static void pass(int seconds)
{
    begin_listening();
    for (int i = 0; i < seconds * 10; i++, now_ms += 100)
        sk_outages_check(outages, now_ms);
    end_listening();
}

static int count(const char *text)
{
    int times = 0;
    for (const char *at = heard; (at = strstr(at, text)) != NULL; at++)
        times++;
    return times;
}

#define MUST_HAVE(times, text) ck_assert_msg(count(text) == (times), "%d times '%s': %s", count(text), text, heard)

TEST(an_outage_has_a_begin_a_pulse_and_an_end)
{
    pass(3); // no reactor has opened its links yet
    MUST_HAVE(0, "\n");
    publish_all("r:1", true, true);
    pass(SECONDS);
    MUST_HAVE(0, "\n");
    publish_all("r:1", false, true);
    pass(1);
    MUST_HAVE(0, "\n");
    publish_all("r:1", true, true); // away for a moment: the lines of its link are enough
    pass(SECONDS);
    MUST_HAVE(0, "\n");
    publish_all("r:1", true, false);
    sk_metrics_set(reactors[0], SK_METRIC_ORDERS_WAITING, 5);
    sk_metrics_set(reactors[1], SK_METRIC_ORDERS_REGRANTING, 7);
    pass(95);
    MUST_HAVE(4, "\n");
    MUST_HAVE(4, "level=error msg=\"PostgreSQL is away: purchases of its vouchers get 202, and their orders wait\" "
                 "server=0 for_s=");
    MUST_HAVE(1, "for_s=1 orders_waiting=12 at_most=12 reactors_connected=0/2\n");
    MUST_HAVE(1, "for_s=91 ");
    publish_all("r:1", true, true);
    sk_metrics_set(reactors[0], SK_METRIC_ORDERS_WAITING, 1);
    sk_metrics_set(reactors[1], SK_METRIC_ORDERS_REGRANTING, 0);
    pass(SECONDS);
    MUST_HAVE(1, "\n");
    MUST_HAVE(1, "level=info msg=\"PostgreSQL is back\" server=0 for_s=95 orders_waiting=1 at_most=12 "
                 "reactors_connected=2/2\n");
}

TEST(one_reactor_without_a_server_is_an_outage)
{
    publish(0, "r:1", true, true);
    publish(1, "r:1", false, true);
    pass(3);
    MUST_HAVE(1, "\n");
    MUST_HAVE(1, "level=error msg=\"Redis is away: purchases of its vouchers get 503\" server=r:1 ");
    MUST_HAVE(1, " reactors_connected=1/2\n");
}

TEST(a_start_without_postgresql_does_not_sell)
{
    sk_metrics_set(reactors[1], SK_METRIC_REACTORS_READY, 0);
    publish_all("r:1", true, false);
    pass(3);
    MUST_HAVE(1, "msg=\"PostgreSQL is away, and this instance is not ready\" server=0");
}

// Sentinels name another master; a cluster replaces one.
TEST(another_redis_ends_the_outage_of_the_old_one)
{
    publish_all(NULL, false, true);
    pass(3);
    MUST_HAVE(1, "msg=\"Redis is away: purchases of its vouchers get 503\" server=unknown ");
    publish_all("r:1", false, true);
    pass(3);
    MUST_HAVE(1, "msg=\"Redis is back\" server=unknown ");
    MUST_HAVE(1, "msg=\"Redis is away: purchases of its vouchers get 503\" server=r:1 ");
    publish_all("r:2", true, true);
    pass(3);
    MUST_HAVE(1, "\n");
    MUST_HAVE(1, "msg=\"another Redis has replaced it\" server=r:1 ");
}

SUITE(.setup = setup, .teardown = teardown);
