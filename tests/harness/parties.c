#include "parties.h"

#include <check.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stack.h"
#include "stores.h"

enum { PARTIES_MAX = 3, CHILDREN_MAX = 4, TURN_US = 500, WAITING_MAX = 4096 };

struct child {
    pid_t pid; // 0: none
    int says;  // its end of the pipe
};

static struct party parties[PARTIES_MAX];
static struct child children[CHILDREN_MAX];
static bool in_child;

static void party_on_turn(uv_prepare_t *turn);
static void party_on_change(void *arg, bool ready);
static void party_on_pong(void *arg, const struct sk_reply *reply);

// ---- parties ----

struct party *party_open(uint32_t redis_timeout_ms)
{
    int i = 0;
    while (i < PARTIES_MAX && parties[i].open)
        i++;
    must(i < PARTIES_MAX, "too many parties");
    struct party *party = &parties[i];
    *party = (struct party){.open = true};
    must(uv_loop_init(&party->loop) == 0, "loop");
    (void)uv_prepare_init(&party->loop, &party->turn);
    party->turn.data = party;
    (void)uv_prepare_start(&party->turn, party_on_turn);
    struct sk_nodes_options options = {
        .redis = {.url = stack_redis_url(), .timeout_ms = redis_timeout_ms, .most_waiting = WAITING_MAX},
        .on_orders = party_on_change,
        .on_queries = party_on_change,
        .arg = party};
    party->nodes = sk_nodes_open(&party->loop, &options);
    must(party->nodes != NULL, "links");
    RUN_UNTIL(sk_nodes_state(party->nodes).orders == 1 && sk_nodes_state(party->nodes).queries == 1);
    return party;
}

static void party_on_turn(uv_prepare_t *turn)
{
    struct party *party = turn->data;
    if (party->nodes != NULL)
        sk_nodes_flush(party->nodes);
}

static void party_on_change(void *arg, bool ready)
{
    (void)arg;
    (void)ready;
}

struct sk_redis *party_redis(const struct party *party)
{
    return sk_nodes_orders(party->nodes, 0);
}

void party_close(struct party *party)
{
    sk_nodes_end(party->nodes);
    if (party->part != NULL)
        party->close_part(party->part);
    sk_nodes_close(party->nodes);
    party->nodes = NULL;
    uv_close((uv_handle_t *)&party->turn, NULL);
    (void)uv_run(&party->loop, UV_RUN_DEFAULT);
    must(uv_loop_close(&party->loop) == 0, "handles are left");
    party->open = false;
}

void party_settle(struct party *party)
{
    const char *argv[] = {"PING"};
    bool answered = false;
    must(sk_redis_command(party_redis(party), 1, argv, NULL, party_on_pong, &answered) == SK_OK, "PING");
    RUN_UNTIL(answered);
}

static void party_on_pong(void *arg, const struct sk_reply *reply)
{
    (void)reply;
    *(bool *)arg = true;
}

void parties_run(void)
{
    for (int i = 0; i < PARTIES_MAX; i++) {
        if (parties[i].open && !parties[i].paused)
            (void)uv_run(&parties[i].loop, UV_RUN_NOWAIT);
    }
    (void)usleep(TURN_US);
}

void parties_give_up(void)
{
    for (int i = 0; i < CHILDREN_MAX; i++) {
        if (children[i].pid != 0) {
            (void)kill(children[i].pid, SIGKILL);
            (void)child_wait(&children[i]);
        }
    }
    memset(parties, 0, sizeof parties);
}

// A failed check in a child would return into the test runner.
void must(bool ok, const char *what)
{
    if (ok)
        return;
    if (in_child) {
        (void)fprintf(stderr, "in a child: %s\n", what);
        _exit(EXIT_FAILURE);
    }
    ck_abort_msg("%s", what);
}

// ---- processes ----

struct child *child_start(void (*body)(int says, void *arg), void *arg)
{
    int fds[2], i = 0;
    while (i < CHILDREN_MAX && children[i].pid != 0)
        i++;
    ck_assert_int_lt(i, CHILDREN_MAX);
    ck_assert_int_eq(pipe(fds), 0);
    pid_t parent = getpid(), pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        in_child = true;
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(EXIT_FAILURE);
        memset(parties, 0, sizeof parties); // the parent's
        body(fds[1], arg);
        _exit(EXIT_SUCCESS);
    }
    (void)close(fds[1]);
    children[i] = (struct child){pid, fds[0]};
    return &children[i];
}

void child_say(int says, char word)
{
    must(write(says, &word, 1) == 1, "the parent does not listen");
}

void child_must_say(const struct child *child, char word)
{
    struct pollfd waits = {.fd = child->says, .events = POLLIN};
    char said = 0;
    ck_assert_msg(poll(&waits, 1, PARTY_DEADLINE_MS) == 1, "the child does not say '%c'", word);
    ck_assert_msg(read(child->says, &said, 1) == 1, "the child ended before it said '%c'", word);
    ck_assert_int_eq(said, word);
}

void child_signal(const struct child *child, int signal)
{
    ck_assert_int_eq(kill(child->pid, signal), 0);
}

int child_wait(struct child *child)
{
    int status = 0;
    RUN_UNTIL(waitpid(child->pid, &status, WNOHANG) == child->pid);
    (void)close(child->says);
    child->pid = 0;
    return status;
}

int64_t redis_calls_of(const char *command)
{
    char stats[8192], name[32];
    ck_assert(redis_text(stats, sizeof stats, "INFO commandstats"));
    (void)snprintf(name, sizeof name, "cmdstat_%s:calls=", command);
    const char *at = strstr(stats, name);
    return at == NULL ? 0 : strtoll(at + strlen(name), NULL, 10);
}
