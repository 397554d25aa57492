// What the conversation of contract.c needs of the world around it: once real (contract_real.c), once simulated
// (contract_sim.c). One thread.
#ifndef SIM_CONTRACT_H
#define SIM_CONTRACT_H

#include <stdbool.h>
#include <uv.h>

// Where the links run, and where they are to connect to.
extern uv_loop_t *ways_loop;
extern const char *ways_redis_url, *ways_postgres_url;

void ways_open(void);
// Runs the loop, and `turn` after each turn of it, until the condition holds. Ends the process after ten seconds.
void ways_run_until(bool (*met)(void), void (*turn)(void), const char *what);

void ways_redis_forgets(void); // its scripts
void ways_redis_hangs(bool hangs);
void ways_redis_breaks(void); // all connections
void ways_postgres_notifies(void);
void ways_postgres_hangs(bool hangs);
void ways_postgres_breaks(void);

#endif
