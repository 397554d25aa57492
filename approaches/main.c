// seckill-approaches: runs the approaches one after the other, each with a crowd and then with its accidents. Reports
// whether each behaved as its file predicts. DATABASE_URL names a database in which it may create a schema.
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "accidents.h"
#include "crowd.h"
#include "queues.h"
#include "report.h"
#include "servers.h"

enum { APPROACHES_MAX = 64, QUEUES_MAX = 8, CROWD_MS = 1000 };

struct options {
    const char *json, *only;
    int crowd_ms;
    bool self_test;
};

static bool read_options(struct options *options, int argc, char **argv);
static bool make_schema(const struct place *place);
static int run_all(struct servers *servers, struct shared *shared, const struct options *options);
static int choose(const struct servers *servers, const char *only, const struct approach *chosen[APPROACHES_MAX]);
static const struct queue_way **choose_queues(const char *only, const struct queue_way *chosen[QUEUES_MAX]);
static bool is_chosen(int wanted, const char *only);
static bool run_one(struct servers *servers, const struct approach *approach, struct shared *shared,
                    const struct options *options, struct result *result);
static int test_oneself(struct servers *servers, struct shared *shared, const struct options *options);

int main(int argc, char **argv)
{
    static struct servers servers;
    struct options options;
    const char *url = getenv("DATABASE_URL");
    if (!read_options(&options, argc, argv) || url == NULL) {
        (void)fprintf(stderr, "usage: ./dev approaches [--only N,N...] [--crowd-ms MS] [--json FILE] | --self-test\n");
        return 2;
    }
    struct shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || setenv("PGOPTIONS", "-c lock_timeout=1000 -c client_min_messages=error", 1) != 0 ||
        signal(SIGPIPE, SIG_IGN) == SIG_ERR)
        return 2;
    servers.place.database_url = url;
    int surprises = -1;
    if (servers_start(&servers) && make_schema(&servers.place))
        surprises = options.self_test ? test_oneself(&servers, shared, &options) : run_all(&servers, shared, &options);
    servers_stop();
    return surprises == 0 ? 0 : surprises < 0 ? 2 : 1;
}

static bool read_options(struct options *options, int argc, char **argv)
{
    static const struct option known[] = {
        {"json", required_argument, NULL, 'j'},
        {"only", required_argument, NULL, 'o'},
        {"crowd-ms", required_argument, NULL, 'c'},
        {"self-test", no_argument, NULL, 's'},
        {0},
    };
    *options = (struct options){.crowd_ms = CROWD_MS};
    for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (c == 'j')
            options->json = optarg;
        else if (c == 'o')
            options->only = optarg;
        else if (c == 'c')
            options->crowd_ms = (int)strtol(optarg, NULL, 10);
        else if (c == 's')
            options->self_test = true;
        else
            return false;
    }
    return optind == argc && options->crowd_ms > 0;
}

static bool make_schema(const struct place *place)
{
    PGconn *pg = PQconnectdb(place->database_url);
    PGresult *result = PQexec(pg, sk_approach_sqls[APPROACH_SQL_SCHEMA].text);
    bool ok = PQresultStatus(result) == PGRES_COMMAND_OK;
    if (!ok)
        (void)fprintf(stderr, "approaches: %s", PQerrorMessage(pg));
    PQclear(result);
    PQfinish(pg);
    return ok;
}

// Returns how many did not behave as predicted; -1 if something failed.
static int run_all(struct servers *servers, struct shared *shared, const struct options *options)
{
    static struct result results[APPROACHES_MAX];
    const struct approach *chosen[APPROACHES_MAX] = {NULL};
    int count = choose(servers, options->only, chosen), surprises = 0;
    report_claim_head();
    for (int i = 0; i < count; i++)
        report_claim(chosen[i]);
    const struct queue_way *queues[QUEUES_MAX] = {NULL};
    queues_report_claims(choose_queues(options->only, queues));
    printf("\n");
    report_head();
    for (int i = 0; i < count; i++) {
        if (!run_one(servers, chosen[i], shared, options, &results[i]))
            return -1;
        surprises += !report_row(chosen[i], &results[i]);
    }
    report_legend();
    printf("\n%d of %d behaved as predicted\n", count - surprises, count);
    int of_queues = queues[0] == NULL ? 0 : queues_run(servers, shared, queues, options->crowd_ms);
    if (of_queues < 0)
        return -1;
    surprises += of_queues;
    if (options->json != NULL && !report_json(options->json, chosen, results))
        return -1;
    return surprises;
}

static int choose(const struct servers *servers, const char *only, const struct approach *chosen[APPROACHES_MAX])
{
    int count = 0;
    for (size_t i = 0; approaches[i] != NULL && count < APPROACHES_MAX - 1; i++) {
        if (!is_chosen(approaches[i]->number, only))
            continue;
        if (approaches[i]->lives == IN_ZOOKEEPER && servers->place.zookeeper[0] == '\0')
            printf("%-3d %s: ZooKeeper is not installed\n", approaches[i]->number, approaches[i]->title);
        else
            chosen[count++] = approaches[i];
    }
    return count;
}

static const struct queue_way **choose_queues(const char *only, const struct queue_way *chosen[QUEUES_MAX])
{
    int count = 0;
    for (int i = 0; queue_ways[i] != NULL && count < QUEUES_MAX - 1; i++) {
        if (is_chosen(queue_ways[i]->number, only))
            chosen[count++] = queue_ways[i];
    }
    return chosen;
}

static bool is_chosen(int wanted, const char *only)
{
    char number[12];
    (void)snprintf(number, sizeof number, "%d", wanted);
    for (const char *at = only; at != NULL && *at != '\0'; at += strcspn(at, ",") + (strchr(at, ',') != NULL)) {
        if (strcspn(at, ",") == strlen(number) && strncmp(at, number, strlen(number)) == 0)
            return true;
    }
    return only == NULL;
}

static bool run_one(struct servers *servers, const struct approach *approach, struct shared *shared,
                    const struct options *options, struct result *result)
{
    *result = (struct result){.killed_ms = NOT_TRIED, .killed_between_ms = NOT_TRIED};
    if (crowd_run(servers, approach, shared, options->crowd_ms, result) &&
        accidents_run(servers, approach, shared, result))
        return true;
    (void)fprintf(stderr, "approaches: %d, %s: the stores failed\n", approach->number, approach->title);
    return false;
}

// The control: a broken approach labelled correct, a correct one labelled broken, and a queue labelled as losing
// nothing. All three must be noticed.
static int test_oneself(struct servers *servers, struct shared *shared, const struct options *options)
{
    static struct result result;
    const struct approach *chosen[APPROACHES_MAX] = {NULL};
    int noticed = 0;
    if (choose(servers, "5,17", chosen) != 2)
        return -1;
    report_head();
    for (int i = 0; i < 2; i++) {
        struct approach mislabelled = *chosen[i];
        mislabelled.predicted = mislabelled.predicted == 0 ? OVERSELLS : 0;
        if (!run_one(servers, &mislabelled, shared, options, &result))
            return -1;
        noticed += !report_row(&mislabelled, &result);
    }
    const struct queue_way *queue[QUEUES_MAX] = {NULL};
    struct queue_way list = *choose_queues("40", queue)[0];
    list.predicted = 0;
    queue[0] = &list;
    noticed += queues_run(servers, shared, queue, options->crowd_ms) == 1;
    printf("%d of 3 wrong predictions were noticed\n", noticed);
    return 3 - noticed;
}
