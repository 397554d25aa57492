// Runs worlds: each in a child of its own, so what a killed instance leaves behind ends with it.
//
// usage: sim FIRST_SEED WORLDS [--told] [--plan] [--file PLAN] [--spoil WHAT]
// --spoil WHAT damages what the judge reads: the world must fail.
// --plan prints what is to happen, and ends. --file reads that; the seed is then of the network alone.
// Each tenth seed is played twice, and must have the same story.
// The environment names the stores (main() has the names). tests/sim/run starts them.
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "instance.h"
#include "judge.h"
#include "log.h"
#include "people.h"
#include "plan.h"
#include "servers.h"
#include "stores.h"
#include "trouble.h"
#include "witness.h"
#include "world.h"

enum {
    WATCHDOG_S = 5,
    WATCHDOG_STATUS = 4, // the connections may be in the middle of something
    REST_CHECK_MS = 500,
    REST_MS = 60000,
    TRIES_MAX = 20,
    REFUSALS_MAX = 3,
    OVERDUE_MS = 8000,
    STALLED_MS = 14000,
    OWN_STALLED_MS = 3000,
    LOOPED_MS = 24000, // the sessions of its earlier lives have two thirds of the work of each life
    TWICE = 10,
    ANSWER_PAUSE_MS = 10
};

static uint64_t *story; // the hash of the last world's, shared with its process

static void sim_on_watchdog(int signal)
{
    (void)signal;
    _exit(WATCHDOG_STATUS);
}

// Runs until then.
static void sim_go_on(uint64_t until)
{
    static uint64_t steps;
    for (;;) {
        uint64_t event = world_next(), timer = instances_next();
        uint64_t next = event <= timer ? event : timer;
        if (next > until)
            break;
        if (steps++ % 64 == 0)
            (void)alarm(WATCHDOG_S);
        if (event <= timer)
            world_run_next();
        else
            instances_turn();
        if (stores_changed())
            judge_step();
    }
    world_go_to(until);
}

static void sim_look_around(void)
{
    uint64_t calm = troubles_calm();
    if (calm >= (uint64_t)OVERDUE_MS * MS)
        judge_overdue(OVERDUE_MS);
    if (troubles_looped_for() >= (uint64_t)LOOPED_MS * MS)
        judge_overdue(LOOPED_MS);
    if (calm >= (uint64_t)OWN_STALLED_MS * MS)
        witness_stalled(OWN_STALLED_MS, true);
    if (calm >= (uint64_t)STALLED_MS * MS)
        witness_stalled(STALLED_MS, false);
    judge_readiness();
}

static void sim_with_troubles(uint64_t until)
{
    while (world_now() < until) {
        uint64_t next = world_now() + (uint64_t)REST_CHECK_MS * MS;
        sim_go_on(next < until ? next : until);
        sim_look_around();
    }
}

static void sim_rest(void)
{
    char why[JUDGE_WHY_SIZE] = "";
    for (uint64_t ms = 0; ms < REST_MS; ms += REST_CHECK_MS) {
        sim_go_on(world_now() + (uint64_t)REST_CHECK_MS * MS);
        if (ms % (8 * REST_CHECK_MS) == 0)
            people_write_off_all();
        sim_look_around();
        if (!people_wait() && judge_rests(why))
            return;
    }
    world_fail("no rest within %d s: %s", REST_MS / 1000, why);
}

static void sim_wait_for(size_t number)
{
    while (people_call(number)->outcome == CALL_WAITS)
        sim_go_on(world_now() + (uint64_t)ANSWER_PAUSE_MS * MS);
}

// A unit that is left can be bought. A purchase whose outcome is unknown may take it later, and an order may be on its
// way back just then: so it must come to rest again.
static void sim_sell_the_rest(void)
{
    for (size_t i = 0; i < people_vouchers(); i++) {
        for (int tries = 0; people_voucher(i)->id != 0 && judge_sells(i); tries++) {
            size_t number = people_try(i);
            const struct call *call = people_call(number);
            sim_wait_for(number);
            if (call->outcome == CALL_DONE)
                break;
            if (tries == (call->outcome == CALL_UNKNOWN ? TRIES_MAX : REFUSALS_MAX))
                world_fail("P4: voucher %" PRId64 " has units left, and a buyer was told %s", people_voucher(i)->id,
                           call->code);
            sim_rest();
        }
    }
}

// Each order, by its user and by a stranger. An answer that is not known may be asked for again.
static void sim_look(size_t bought, bool stranger)
{
    char before[JUDGE_STATUS_SIZE];
    judge_status(people_call(bought)->order_id, before);
    size_t look = people_look(bought, stranger);
    sim_wait_for(look);
    for (int tries = 1; !stranger && people_call(look)->outcome == CALL_UNKNOWN && tries < TRIES_MAX; tries++) {
        sim_go_on(world_now() + (uint64_t)REST_CHECK_MS * MS);
        look = people_look(bought, stranger);
        sim_wait_for(look);
    }
    judge_look(people_call(look), stranger, before);
}

static void sim_look_at_orders(void)
{
    size_t count = people_calls();
    for (size_t i = 0; i < count; i++) {
        const struct call *call = people_call(i);
        if (call->kind == CALL_BUY && (call->outcome == CALL_DONE || call->outcome == CALL_TAKEN)) {
            sim_look(i, false);
            sim_look(i, true);
        }
    }
}

static void sim_read_feed(void)
{
    uint64_t until = world_now() + (uint64_t)REST_MS * MS;
    while (!judge_feed()) {
        if (world_now() > until)
            world_fail("the feed does not end within %d s", REST_MS / 1000);
        people_read_feed();
        sim_go_on(world_now() + (uint64_t)ANSWER_PAUSE_MS * MS);
    }
}

struct play {
    uint64_t seed;
    const char *file; // of the plan; NULL: it is drawn
    bool told, again, only_plan;
    const char *spoilt; // to check the judge; NULL: nothing is
};

// Spoils what the judge looks at.
static void sim_spoil(const char *what)
{
    static const struct {
        const char *what, *sql;
    } spoils[] = {
        {"row", "DELETE FROM voucher_order WHERE status = 'cancelled'"},
        {"event", "DELETE FROM order_event WHERE seq = (SELECT max(seq) FROM order_event)"},
        {"placed", "DELETE FROM order_placed WHERE seq = (SELECT max(seq) FROM order_placed)"},
        {"stock", "UPDATE voucher_stock SET units = units + 1, stock = stock + 1"},
        {"owner", "UPDATE voucher_order SET user_id = 'nobody' WHERE status = 'expired'"},
        {"size", "UPDATE voucher_order SET quantity = quantity + 1 WHERE status = 'expired'"},
        {"payment", "DELETE FROM payment WHERE state <> 'accepted'"},
        {"end", "DELETE FROM voucher_order WHERE status = 'expired'"},
        {"moved", "UPDATE voucher_order SET status = 'expired' WHERE status = 'cancelled';"
                  "UPDATE order_event SET status = 'expired' WHERE status = 'cancelled'"},
        {"secret",
         "WITH made AS (INSERT INTO voucher_order (id, slot, user_id, voucher_id, status)"
         " SELECT gen_random_uuid(), slot, user_id, voucher_id, 'expired' FROM voucher_order LIMIT 1 RETURNING *),"
         " placed AS (INSERT INTO order_placed (slot, voucher_id, ids) SELECT slot, voucher_id, ARRAY[id] FROM made)"
         " INSERT INTO order_event (slot, voucher_id, order_id, status, by_whom)"
         " SELECT slot, voucher_id, id, 'expired', 'nobody' FROM made"},
        {"bound", "WITH made AS (INSERT INTO voucher_order (id, slot, user_id, voucher_id, status)"
                  " SELECT gen_random_uuid(), 0, 'nobody', id, 'expired' FROM seckill_voucher, generate_series(1, 50)"
                  " RETURNING *), placed AS (INSERT INTO order_placed (slot, voucher_id, ids)"
                  " SELECT slot, voucher_id, ARRAY[id] FROM made)"
                  " INSERT INTO order_event (slot, voucher_id, order_id, status, by_whom)"
                  " SELECT slot, voucher_id, id, 'expired', 'nobody' FROM made"},
    };
    for (size_t i = 0; i < sizeof spoils / sizeof spoils[0]; i++) {
        if (strcmp(spoils[i].what, what) == 0)
            stores_spoil(spoils[i].sql);
    }
}

static _Noreturn void sim_world(const struct play *play)
{
    static struct plan plan;
    uint64_t seed = play->seed;
    world_begin(seed, play->told);
    (void)signal(SIGALRM, sim_on_watchdog);
    (void)alarm(WATCHDOG_S);
    if (play->file == NULL)
        plan_draw(&plan, seed);
    else if (!plan_read(&plan, play->file))
        _exit(2);
    if (play->only_plan) {
        plan_print(&plan);
        (void)fflush(stdout);
        _exit(0);
    }
    world_take_dice(seed + (play->again && play->spoilt != NULL && strcmp(play->spoilt, "dice") == 0));
    servers_open((enum servers_kind)plan.redis, plan.shards, plan.standbys);
    stores_empty(servers_nodes(), servers_shards());
    sk_log_set_level(play->told ? SK_LOG_WARN : SK_LOG_ERROR);
    people_open(&plan);
    uint64_t for_ns = plan.for_ms * MS;
    for (size_t i = 0; i < instances_count(); i++)
        instance_start(instance_at(i));
    people_begin();
    troubles_begin(&plan);
    sim_with_troubles(for_ns > troubles_over_at() ? for_ns : troubles_over_at());
    troubles_end();
    world_tell("all troubles are over");
    sim_rest();
    if (play->spoilt != NULL)
        sim_spoil(play->spoilt);
    judge_answers();
    sim_look_at_orders();
    sim_sell_the_rest();
    sim_rest();
    sim_read_feed();
    if (!play->again)
        (void)printf("seed %" PRIu64 " ok: %" PRIu64 " lines, %.1f s, %zu calls, %zu troubles, %016" PRIx64 "\n", seed,
                     world_story_lines(), (double)world_now() / 1e9, people_calls(), plan.trouble_count,
                     world_story_hash());
    (void)fflush(stdout);
    *story = world_story_hash();
    _exit(0);
}

// Returns the status of the world's process; *story is the hash of its story then.
static int sim_play(const struct play *play)
{
    int status = 0;
    (void)fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        sim_world(play);
    if (child < 0 || waitpid(child, &status, 0) != child)
        return -1;
    if (WIFSIGNALED(status))
        (void)printf("seed %" PRIu64 " FAILED: signal %d\n", play->seed, WTERMSIG(status));
    if (WIFEXITED(status) && WEXITSTATUS(status) == WATCHDOG_STATUS)
        (void)printf("seed %" PRIu64 " FAILED: nothing has moved for %d real seconds\n", play->seed, WATCHDOG_S);
    return status;
}

int main(int argc, char **argv)
{
    const struct stores_options options = {{getenv("SK_SIM_REDIS"), getenv("SK_SIM_REDIS_2")},
                                           {getenv("SK_SIM_POSTGRES"), getenv("SK_SIM_POSTGRES_2")},
                                           {getenv("SK_SIM_OWNER"), getenv("SK_SIM_OWNER_2")},
                                           getenv("SK_SIM_TIME")};
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, worlds = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    uint64_t failed = 0;
    struct play play = {0};
    for (int i = 3; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "0";
        play.told = play.told || strcmp(argv[i], "--told") == 0;
        play.only_plan = play.only_plan || strcmp(argv[i], "--plan") == 0;
        if (strcmp(argv[i], "--file") == 0)
            play.file = value;
        if (strcmp(argv[i], "--spoil") == 0)
            play.spoilt = value;
    }
    if (play.told)
        (void)setvbuf(stdout, NULL, _IOLBF, 0);
    world_met_open();
    story = mmap(NULL, sizeof *story, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (story == MAP_FAILED)
        return 2;
    judge_open(getenv("SK_SIM_JUDGE"), getenv("SK_SIM_ANSWERS"));
    stores_open(&options);
    for (play.seed = first; play.seed < first + worlds; play.seed++) {
        play.again = false;
        int status = sim_play(&play);
        uint64_t hash = *story;
        if (status == 0 && play.seed % TWICE == 0 && !play.told) {
            play.again = true;
            status = sim_play(&play);
            if (status == 0 && *story != hash) {
                (void)printf("seed %" PRIu64 " FAILED: a second run has another story\n", play.seed);
                failed++;
            }
        }
        failed += status != 0;
        if (status != 0 && (!WIFEXITED(status) || WEXITSTATUS(status) != 3))
            break;
    }
    world_met_print();
    return failed > 0;
}
