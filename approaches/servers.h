// The servers for the accidents: five Redis servers, of which the first is "the" Redis, and one ZooKeeper. They use
// Unix sockets, a loopback port and data in a scratch folder, and end with the program (servers.py).
#ifndef APPROACH_SERVERS_H
#define APPROACH_SERVERS_H

#include "worker.h"

struct servers {
    struct place place;
    bool keeps_files; // Redis: each write is on disk before it is answered
};

// False, with a line on standard error: one does not start. ZooKeeper is skipped where it is not installed.
bool servers_start(struct servers *servers);
void servers_stop(void);

bool servers_kill_redis(int i);
bool servers_start_redis(const struct servers *servers, int i); // empty, or with its file
// Gives server `i` a replica that has all its data, and then receives no more of it.
bool servers_lag(int i);
// Server `i` dies, and its replica takes its place.
bool servers_promote(int i);
bool servers_step_clock(int i, int seconds);

#endif
