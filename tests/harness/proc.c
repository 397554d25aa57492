// The kernel signals our children when we die (PR_SET_PDEATHSIG). The scratch folder is the launcher's, which removes
// it.
#include "proc.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher.h"
#include "wait.h"

enum { LOG_TAIL_BYTES = 4000, ENV_MAX = 64, EXIT_CANNOT_START = 127 };

const char *proc_scratch(void)
{
    if (launcher_value("folder")[0] == '\0')
        ck_assert(launcher_do("folder"));
    return launcher_value("folder");
}

static void log_path(const char *name, char out[PROC_PATH_SIZE])
{
    int n = snprintf(out, PROC_PATH_SIZE, "%s/%s.log", proc_scratch(), name);
    ck_assert(n > 0 && n < PROC_PATH_SIZE);
}

void proc_read_log(const char *name, char *out, size_t size)
{
    char path[PROC_PATH_SIZE];
    log_path(name, path);
    FILE *file = fopen(path, "re");
    size_t n = file == NULL ? 0 : fread(out, 1, size - 1, file);
    out[n] = '\0';
    if (file != NULL)
        (void)fclose(file);
}

void proc_show_log(const char *name)
{
    char path[PROC_PATH_SIZE], tail[LOG_TAIL_BYTES];
    log_path(name, path);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return;
    if (fseek(file, -LOG_TAIL_BYTES, SEEK_END) != 0)
        rewind(file);
    size_t n = fread(tail, 1, sizeof tail, file);
    (void)fclose(file);
    (void)fprintf(stderr, "---- end of the log of %s\n%.*s----\n", name, (int)n, tail);
}

// ---- processes ----

// Our environment without the service's settings, plus what the caller asked for.
static void set_environment(const char *const *env)
{
    const char *names[ENV_MAX];
    int count = 0;
    for (char **at = environ; *at != NULL && count < ENV_MAX; at++) {
        if (strncmp(*at, "SECKILL_", 8) == 0 || strncmp(*at, "PG", 2) == 0)
            names[count++] = strndup(*at, strcspn(*at, "="));
    }
    while (count > 0)
        (void)unsetenv(names[--count]);
    for (; env != NULL && *env != NULL; env++)
        (void)putenv(strdup(*env));
}

static bool limit_descriptors(const struct proc_options *options)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return false;
    if (options->hard_descriptors != 0)
        limit.rlim_max = limit.rlim_cur = options->hard_descriptors;
    if (options->soft_descriptors != 0)
        limit.rlim_cur = options->soft_descriptors;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

static void become(const struct proc_options *options, int log_fd, pid_t parent)
{
    // exec does not write to its arguments; only its interface lacks the const.
    union {
        const char *const *in;
        char *const *out;
    } words = {.in = options->argv};
    sigset_t none;
    (void)dup2(options->out_fd == 0 ? log_fd : options->out_fd, STDOUT_FILENO);
    (void)dup2(options->err_fd > 0 ? options->err_fd : log_fd, STDERR_FILENO);
    if (!limit_descriptors(options)) {
        (void)fprintf(stderr, "cannot limit descriptors: %s\n", strerror(errno));
        _exit(EXIT_CANNOT_START);
    }
    (void)setsid();
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_CANNOT_START);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    set_environment(options->env);
    for (int fd = STDIN_FILENO; options->err_fd < 0 && fd <= STDERR_FILENO; fd++)
        (void)close(fd);
    (void)execvp(words.out[0], words.out);
    (void)fprintf(stderr, "cannot run %s: %s\n", words.out[0], strerror(errno));
    _exit(EXIT_CANNOT_START);
}

void proc_start(struct proc *proc, const struct proc_options *options)
{
    char path[PROC_PATH_SIZE];
    log_path(options->name, path);
    (void)snprintf(proc->name, sizeof proc->name, "%s", options->name);
    int log_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    ck_assert_int_ge(log_fd, 0);
    pid_t parent = getpid();
    proc->pid = fork();
    ck_assert_int_ge(proc->pid, 0);
    if (proc->pid == 0)
        become(options, log_fd, parent);
    (void)close(log_fd);
}

bool proc_running(struct proc *proc, int *status)
{
    if (proc->pid == 0)
        return false;
    if (waitpid(proc->pid, status, WNOHANG) == 0)
        return true;
    proc->pid = 0;
    return false;
}

void proc_signal(struct proc *proc, int signal)
{
    int status;
    if (!proc_running(proc, &status)) {
        proc_show_log(proc->name);
        ck_abort_msg("%s is not running any more", proc->name);
    }
    ck_assert_int_eq(kill(proc->pid, signal), 0);
}

int proc_wait(struct proc *proc)
{
    int status = 0;
    WAIT_FOR(!proc_running(proc, &status));
    return status;
}
