// Child processes of a test program: they never outlive it, however it ends.
#ifndef HARNESS_PROC_H
#define HARNESS_PROC_H

#include <stdbool.h>
#include <sys/types.h>

enum { PROC_NAME_SIZE = 24, PROC_PATH_SIZE = 128 };

struct proc {
    pid_t pid; // 0: not running
    char name[PROC_NAME_SIZE];
};

struct proc_options {
    const char *name; // its output goes to <scratch>/<name>.log
    const char *const *argv;
    const char *const *env; // NAME=VALUE, added to ours; NULL: nothing
    // Its limits of file descriptors; 0: our own.
    unsigned soft_descriptors, hard_descriptors;
    int out_fd; // its standard output; 0: the log, too
    int err_fd; // its standard error; 0: the log; -1: none of the three standard streams is open
};

// Our own folder, created on first use and removed when the program ends, also after a crash.
const char *proc_scratch(void);

// Starts a program. The test fails if it cannot be forked; a missing program exits with 127.
void proc_start(struct proc *proc, const struct proc_options *options);

// Whether it is still running; if not, *status is that of waitpid and proc->pid is 0.
bool proc_running(struct proc *proc, int *status);

// Sends a signal to a process that must still be running.
void proc_signal(struct proc *proc, int signal);

// Waits until it ends, at most until the deadline. Returns the status of waitpid.
int proc_wait(struct proc *proc);

// Prints the last lines of its output to standard error.
void proc_show_log(const char *name);

// Reads all of its output, NUL-terminated and cut at size.
void proc_read_log(const char *name, char *out, size_t size);

#endif
