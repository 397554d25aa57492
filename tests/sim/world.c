#include "world.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "memory.h"

enum { NS_PER_S = 1000000000, LINE_SIZE = 512, MONOTONIC_FIRST_S = 1000, FAILED = 3, GROW_FIRST = 256 };

// 2030-01-01: no time that anybody has now.
static const int64_t wall_first_s = 1893456000;

struct event {
    uint64_t at, number; // of two at the same time the earlier one comes first
    world_event *run;
    void *arg;
};

static struct {
    bool told;
    uint64_t seed, now, dice[2], random[2];
    struct world_clock clock;
    struct event *events; // a heap
    size_t count, room;
    uint64_t numbers;
    uint64_t hash, lines;
} world;

void world_begin(uint64_t seed, bool told)
{
    world.told = told;
    world.seed = seed;
    world.dice[0] = seed * 2 + 1;
    world.random[0] = seed * 2 + 2;
    world.hash = 14695981039346656037U;
}

// ---- time ----

uint64_t world_now(void)
{
    return world.now;
}

int64_t world_wall(void)
{
    return wall_first_s * NS_PER_S + (int64_t)world.now;
}

void world_go_to(uint64_t at)
{
    if (at > world.now)
        world.now = at;
}

void world_look_at(const struct world_clock *clock)
{
    world.clock = clock == NULL ? (struct world_clock){0} : *clock;
}

static int64_t world_ahead(const struct world_clock *clock)
{
    return clock->ahead_ns + (int64_t)((world.now - clock->since) / 1000000) * clock->drift_ppm;
}

void world_drift(struct world_clock *clock, int64_t ppm)
{
    clock->ahead_ns = world_ahead(clock);
    clock->since = world.now;
    clock->drift_ppm = ppm;
}

void world_set_right(struct world_clock *clock)
{
    world_drift(clock, 0);
    clock->wrong_ns = -clock->ahead_ns;
}

// libuv's and ours, from the first instruction of the program. The stores have theirs (store_time.c).
// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): the C library's are reserved
int clock_gettime(clockid_t id, struct timespec *out)
{
    int64_t passed = (int64_t)world.now + world_ahead(&world.clock);
    int64_t ns = (int64_t)MONOTONIC_FIRST_S * NS_PER_S + passed;
    if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)
        ns = wall_first_s * NS_PER_S + passed + world.clock.wrong_ns;
    *out = (struct timespec){ns / NS_PER_S, ns % NS_PER_S};
    return 0;
}

// ---- dice ----
//
// SplitMix64 (G. L. Steele, D. Lea, C. H. Flood, "Fast splittable pseudorandom number generators", 2014).

static uint64_t world_draw(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
}

void world_take_dice(uint64_t seed)
{
    world.dice[0] = seed * 2 + 1;
}

uint64_t world_roll(uint64_t sides)
{
    return world_draw(world.dice) % sides;
}

bool world_chance(unsigned per_mille)
{
    return world_roll(1000) < per_mille;
}

uint64_t world_between(uint64_t least, uint64_t most)
{
    return least + world_roll(most - least + 1);
}

// What instances draw is of a sequence of its own.
// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): as above
ssize_t getrandom(void *out, size_t n, unsigned flags)
{
    unsigned char *bytes = out;
    (void)flags;
    for (size_t i = 0; i < n; i++)
        bytes[i] = (unsigned char)world_draw(world.random);
    return (ssize_t)n;
}

// The host, as the story must be the same everywhere.
// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): as above
int gethostname(char *name, size_t size)
{
    (void)snprintf(name, size, "sim");
    return 0;
}

// ---- events ----

static bool world_is_before(const struct event *a, const struct event *b)
{
    return a->at != b->at ? a->at < b->at : a->number < b->number;
}

void world_at(uint64_t at, world_event *run, void *arg)
{
    world.events = world_grow(world.events, world.count, &world.room, sizeof *world.events);
    size_t i = world.count++;
    struct event event = {at < world.now ? world.now : at, world.numbers++, run, arg};
    for (; i > 0 && world_is_before(&event, &world.events[(i - 1) / 2]); i = (i - 1) / 2)
        world.events[i] = world.events[(i - 1) / 2];
    world.events[i] = event;
}

uint64_t world_next(void)
{
    return world.count == 0 ? UINT64_MAX : world.events[0].at;
}

void world_run_next(void)
{
    struct event first = world.events[0], last = world.events[--world.count];
    size_t i = 0, child;
    while ((child = 2 * i + 1) < world.count) {
        if (child + 1 < world.count && world_is_before(&world.events[child + 1], &world.events[child]))
            child++;
        if (!world_is_before(&world.events[child], &last))
            break;
        world.events[i] = world.events[child];
        i = child;
    }
    world.events[i] = last;
    world_go_to(first.at);
    first.run(first.arg);
}

// ---- the story ----

// FNV-1a.
void world_note(const void *bytes, size_t len)
{
    for (const unsigned char *at = bytes; at < (const unsigned char *)bytes + len; at++)
        world.hash = (world.hash ^ *at) * 1099511628211U;
}

void world_tell(const char *format, ...)
{
    char line[LINE_SIZE];
    va_list args;
    va_start(args, format);
    int n = snprintf(line, sizeof line, "%5" PRIu64 " %9.3f  ", ++world.lines, (double)world.now / MS);
    n += vsnprintf(line + n, sizeof line - (size_t)n, format, args);
    va_end(args);
    world_note(line, strlen(line));
    if (world.told)
        (void)printf("%s\n", line);
}

uint64_t world_story_hash(void)
{
    return world.hash;
}

uint64_t world_story_lines(void)
{
    return world.lines;
}

// ---- what all worlds have met ----

static struct met {
    char name[MET_SIZE];
    uint64_t count;
} * met;

void world_met_open(void)
{
    met = mmap(NULL, MET_MAX * sizeof *met, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (met == MAP_FAILED)
        abort();
}

void world_met(const char *format, ...)
{
    char name[MET_SIZE];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(name, sizeof name, format, args);
    va_end(args);
    uint64_t place = 14695981039346656037U;
    for (const char *at = name; *at != '\0'; at++)
        place = (place ^ (unsigned char)*at) * 1099511628211U;
    for (size_t i = 0; i < MET_MAX; i++) {
        struct met *one = &met[(place + i) % MET_MAX];
        if (one->count == 0)
            memcpy(one->name, name, sizeof name);
        else if (strcmp(one->name, name) != 0)
            continue;
        one->count++;
        return;
    }
}

void world_met_print(void)
{
    for (size_t i = 0; i < MET_MAX; i++) {
        if (met[i].count > 0)
            (void)printf("met %" PRIu64 " %s\n", met[i].count, met[i].name);
    }
}

void world_fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)printf("seed %" PRIu64 " FAILED at %.3f ms, line %" PRIu64 ": ", world.seed, (double)world.now / MS,
                 world.lines);
    (void)vprintf(format, args);
    va_end(args);
    (void)printf("\n");
    (void)fflush(stdout);
    _exit(FAILED);
}

void *world_alloc(size_t size)
{
    void *block = memory_real(size);
    if (block == NULL)
        world_fail("out of memory");
    return memset(block, 0, size);
}

char *world_copy(const char *text)
{
    size_t size = text == NULL ? 0 : strlen(text) + 1;
    return text == NULL ? NULL : memcpy(world_alloc(size), text, size);
}

void *world_grow(void *items, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return items;
    *room = *room == 0 ? GROW_FIRST : 2 * *room;
    void *grown = world_alloc(*room * size);
    return count == 0 ? grown : memcpy(grown, items, count * size);
}
