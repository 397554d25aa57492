// A world: its clock, its dice, the queue of what happens next, and the story of what has happened. One thread.
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MS = 1000000 }; // nanoseconds

// Begins the world of this seed. `told`: the story is printed as it happens.
void world_begin(uint64_t seed, bool told);

// ---- time ----
//
// The process's clocks are the world's: an instance that runs sees its own, which may be wrong.

uint64_t world_now(void); // ns since the world began
int64_t world_wall(void); // ns since 1970, of a clock that is right
void world_go_to(uint64_t at);

struct world_clock {
    int64_t wrong_ns;  // how far its wall clock is ahead of its monotonic one
    int64_t ahead_ns;  // how far both were ahead of the world's at `since`
    int64_t drift_ppm; // what they gain after it
    uint64_t since;
};
void world_drift(struct world_clock *clock, int64_t ppm); // from now on
void world_set_right(struct world_clock *clock);          // its wall clock, and it gains no more
void world_look_at(const struct world_clock *clock);      // NULL: at the right one

// ---- dice ----

void world_take_dice(uint64_t seed); // the same from here on, whatever was rolled before
uint64_t world_roll(uint64_t sides); // 0 to sides - 1
bool world_chance(unsigned per_mille);
uint64_t world_between(uint64_t least, uint64_t most); // inclusive

// ---- events ----

typedef void world_event(void *arg);
void world_at(uint64_t at, world_event *run, void *arg);
// The time of the next event; UINT64_MAX: the queue is empty.
uint64_t world_next(void);
void world_run_next(void);

// ---- the story ----

// A line of it. What the world did is all in it: two runs of a seed have the same.
void world_tell(const char *format, ...) __attribute__((format(printf, 1, 2)));
uint64_t world_story_hash(void);
uint64_t world_story_lines(void);

// Bytes that belong to it, but are no line.
void world_note(const void *bytes, size_t len);

// ---- what all worlds have met ----
//
// Counted by name, in memory that the worlds' processes share. `met` says whether a name was met.

enum { MET_MAX = 1024, MET_SIZE = 56 };
void world_met(const char *format, ...) __attribute__((format(printf, 1, 2)));
void world_met_open(void);
void world_met_print(void);

// The world has failed: says why, and ends the process.
_Noreturn void world_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Memory that belongs to no instance: never NULL, zeroed.
void *world_alloc(size_t size);
char *world_copy(const char *text); // of a text; NULL stays NULL
// An array with room for one more than `count` items: the same, or a larger copy.
void *world_grow(void *items, size_t count, size_t *room, size_t size);

#endif
