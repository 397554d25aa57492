#include "launcher.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { VALUES_MAX = 32, LINE_SIZE = 256, EXIT_CANNOT_START = 127 };

static struct {
    pid_t pid;
    FILE *commands, *answers;           // NULL: there is no child
    char values[VALUES_MAX][LINE_SIZE]; // NAME=VALUE; empty: none from here on
} launcher;

static void launcher_become(int commands, int answers)
{
    sigset_t none;
    (void)setsid(); // not reached by Ctrl-C
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)dup2(commands, STDIN_FILENO);
    (void)dup2(answers, STDOUT_FILENO);
    // Debian's own, and without what a site adds: it starts in a fraction of the time.
    (void)execl("/usr/bin/python3", "python3", "-SE", LAUNCHER, LAUNCHER_ARGUMENT, (char *)NULL);
    _exit(EXIT_CANNOT_START);
}

static bool launcher_start(void)
{
    int commands[2], answers[2];
    if (pipe2(commands, O_CLOEXEC) != 0 || pipe2(answers, O_CLOEXEC) != 0)
        return false;
    launcher.pid = fork();
    if (launcher.pid == 0)
        launcher_become(commands[0], answers[1]);
    (void)close(commands[0]);
    (void)close(answers[1]);
    launcher.commands = fdopen(commands[1], "w");
    launcher.answers = fdopen(answers[0], "r");
    return launcher.pid > 0 && launcher.commands != NULL && launcher.answers != NULL;
}

// The line with that name, or where it has its place.
static char *launcher_find(const char *name, size_t len)
{
    int at = 0;
    while (at < VALUES_MAX - 1 && launcher.values[at][0] != '\0' &&
           (strncmp(launcher.values[at], name, len) != 0 || launcher.values[at][len] != '='))
        at++;
    return launcher.values[at];
}

bool launcher_do(const char *format, ...)
{
    char line[LINE_SIZE];
    va_list args;
    if (launcher.commands == NULL && !launcher_start())
        return false;
    va_start(args, format);
    (void)vfprintf(launcher.commands, format, args);
    va_end(args);
    (void)fputc('\n', launcher.commands);
    (void)fflush(launcher.commands);
    while (fgets(line, sizeof line, launcher.answers) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        size_t len = strcspn(line, "=");
        if (line[len] == '\0')
            return strcmp(line, "ok") == 0;
        memcpy(launcher_find(line, len), line, sizeof line);
    }
    return false; // it has ended
}

const char *launcher_value(const char *name)
{
    size_t len = strlen(name);
    const char *line = launcher_find(name, len);
    return line[0] == '\0' ? "" : line + len + 1;
}

void launcher_end(void)
{
    if (launcher.commands == NULL)
        return;
    (void)fputs("end\n", launcher.commands); // a child of ours may keep its input open
    (void)fclose(launcher.commands);
    (void)fclose(launcher.answers);
    (void)waitpid(launcher.pid, NULL, 0);
    memset(&launcher, 0, sizeof launcher);
}
