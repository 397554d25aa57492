// An instance of the service in a world: a shop on a loop of its own, that runs when the world lets it. There is no
// HTTP; calls are made with a handle, and people.h hears of their results.
//
// One that is killed leaves its code at once, wherever it is, and its memory as it is. One thread.
#ifndef SIM_INSTANCE_H
#define SIM_INSTANCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memory.h"
#include "query.h"
#include "sale.h"
#include "world.h"

enum { INSTANCES_MAX = 3, FAILPOINT_SIZE = 40 };

enum instance_state { INSTANCE_OFF, INSTANCE_ON, INSTANCE_PAUSED };

struct instance;

// Results and answers of all instances.
struct instance_events {
    void (*on_result)(void *arg, uint64_t handle, const struct sk_purchase_result *result);
    void (*on_answer)(void *arg, uint64_t handle, const struct sk_answer *answer);
};

// So many that are off. Each has room for so many orders in progress.
void instances_open(size_t count, unsigned orders_max, const struct instance_events *events);
size_t instances_count(void);
struct instance *instance_at(size_t i);
size_t instance_number(const struct instance *instance);
char instance_letter(const struct instance *instance); // its name in the story
enum instance_state instance_state(const struct instance *instance);
uint64_t instance_life(const struct instance *instance); // another one after each start

void instance_start(struct instance *instance);
void instance_kill(struct instance *instance, const char *why); // also inside of its code
void instance_kill_at(struct instance *instance, const char *failpoint, unsigned nth);
void instance_pause(struct instance *instance);
void instance_go_on(struct instance *instance);
void instance_drain(struct instance *instance); // it ends by itself
bool instance_drains(const struct instance *instance);
bool instance_ready(const struct instance *instance); // as /readyz

struct world_clock *instance_clock(struct instance *instance);
struct memory *instance_memory(struct instance *instance);

// Runs something as the instance, then one turn of its loop. While it is paused that waits. False: it is off.
bool instance_run(struct instance *instance, world_event *run, void *arg);

// For what runs as an instance; NULL: none does.
struct instance *instance_running(void);
struct sk_control *instance_control(struct instance *instance);

// The earliest time at which a timer of an instance is due; UINT64_MAX: no timer runs. instances_turn() runs it.
uint64_t instances_next(void);
void instances_turn(void);

#endif
