// The real parts of one test program: a private Redis, a private PostgreSQL and instances of the service,
// on their own loopback ports, with their data in a scratch folder.
//
// There is one stack per program, and a failure of it fails the running test. Start it in the suite's `begin`; main()
// stops it. Programs whose tests start, kill or restart parts run their tests in one process: a child would take its
// parts with it when it ends.
#ifndef HARNESS_STACK_H
#define HARNESS_STACK_H

#include <check.h>
#include <libpq-fe.h>
#include <stdbool.h>
#include <stddef.h>

enum stack_part { STACK_REDIS = 1, STACK_POSTGRES = 2, STACK_ALL = 3 };

// Starts the servers, unless they run, and waits until they answer. PostgreSQL is migrated and has a login for the
// service: it is a copy of the cluster named by the environment variable HARNESS_CLUSTER, or else a new one. A missing
// program is a failure.
void stack_start(unsigned parts);

// Ends the program before its first test, as one that was not run. Prints why.
void stack_skip_all(const char *why);

// For the first line of a test that makes no sense on a Redis Cluster, or on several shards: ends it. Prints why.
bool stack_skip(const char *test, const char *why);
#define STACK_SKIP_CLUSTER(why)                               \
    if (stack_redis_nodes() > 1 && stack_skip(__func__, why)) \
    return
#define STACK_SKIP_SHARDS(why)                           \
    if (stack_shards() > 1 && stack_skip(__func__, why)) \
    return

// For main(): kills what still runs, and removes the scratch folder.
void stack_end(void);

// For programs that do not test the service, before stack_start(): stack_redis_url() gets a user with all rights.
void stack_redis_with_all_rights(void);

// Addresses. The strings live as long as the stack.
const char *stack_redis_url(void);    // with the rights of deploy/redis.acl, or all
const char *stack_database_url(void); // of the service's login
const char *stack_keeper_url(void);   // of the login for archiving and erasing
const char *stack_owner_url(void);    // of the owner of the tables, who may do what the service may not
const char *stack_superuser_url(void);
// With TEST_SHARDS set, PostgreSQL is two servers that share the vouchers; the URLs are those of the first one then.
// What is done to PostgreSQL is done to both. These settings name all of them.
int stack_shards(void);
PGconn *stack_connect_to(int shard);      // as superuser
const char *stack_database_setting(void); // NAME=VALUE; of the service's login
const char *stack_keeper_setting(void);
int stack_redis_port(void);
// With TEST_REDIS_CLUSTER set, Redis is a cluster of several masters, each with an equal part of the slots. What is
// done to Redis is done to all of them.
int stack_redis_nodes(void);
int stack_redis_port_of(int node);
extern const char stack_redis_password[],
    stack_admin_token[]; // of Redis's users `seckill` and `tests`, who has all rights

// Faults. Servers that are stopped or killed keep their data.
void redis_kill(void);
void redis_start(void);
void redis_erase(void); // deletes its data; only while it is not running
void redis_pause(void);
void redis_resume(void);
void postgres_stop(void);
void postgres_start(void);

// Stops PostgreSQL, and keeps its cluster at this path for others to copy.
void postgres_keep(const char *path);

// ---- instances of the service ----

struct service;

// For `env`: ENV("SECKILL_REACTORS=2", ...). A name without a value unsets the variable.
#define ENV(...) ((const char *const[]){__VA_ARGS__, NULL})

// For ENV: short time-outs, so that others soon take over leftovers.
#define HASTY "SECKILL_LOCK_TTL_MS=300", "SECKILL_PG_TIMEOUT_MS=500", "SECKILL_REDIS_TIMEOUT_MS=500"

// service_launch starts an instance with more environment (NULL: none); service_start also waits until it is ready. The
// harness owns the instance.
struct service *service_launch(const char *const *env);
struct service *service_start(const char *const *env);

// The same with a separate listener for operators: *operators serves only as an address for requests. It is valid for
// the last such instance of a test.
struct service *service_start_apart(const char *const *env, const struct service **operators);

// For ENV together with LD_PRELOAD: a sanitizer insists on being loaded first, and would end the program.
const char *service_preload_options(void);

// Limits the file descriptors of instances started from now until the end of the test; 0: our own limits.
void service_limit_descriptors(unsigned soft, unsigned hard);

// Sets the standard output of instances started from now until the end of the test, which keeps it open; 0: their log.
void service_direct_output(int fd);
// The same for standard error; -1: none of their standard streams is open.
void service_direct_errors(int fd);

// Polls /readyz until the instance is ready and reaches every PostgreSQL, or until one of these is not so.
void service_await(struct service *service, bool whole);

int service_port(const struct service *service);
void service_signal(struct service *service, int signal); // must be running
void service_kill(struct service *service);               // with SIGKILL, and waits
int service_wait(struct service *service);                // until it ends; returns the exit code, or -1
void service_read_log(const struct service *service, char *out, size_t size);

// Stops all instances with SIGTERM; each must exit with 0. For a checked fixture: it also clears up after a failed test
// (resumes paused servers, starts stopped ones, releases held orders).
void service_stop_all(void);

// Runs the program to its end with these arguments; returns its exit code and its output.
int service_run(const char *const *words, const char *const *env, char *out, size_t size);

#endif
