#include "process.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE_SIZE = 256 };

static uint64_t process_microseconds(struct timeval time)
{
    return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_usec;
}

static void process_read_memory(struct sk_process *process)
{
    char line[LINE_SIZE], *rest = line;
    uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL)
        return;
    if (fgets(line, sizeof line, file) != NULL) {
        process->virtual_bytes = strtoull(rest, &rest, 10) * page_bytes;
        process->resident_bytes = strtoull(rest, &rest, 10) * page_bytes;
    }
    (void)fclose(file);
}

// Since Linux 6.2 the folder's size is the number of its entries; before, they have to be counted.
static uint64_t process_count_descriptors(void)
{
    static const char folder[] = "/proc/self/fd";
    struct stat about;
    if (stat(folder, &about) == 0 && about.st_size > 0)
        return (uint64_t)about.st_size;
    DIR *open = opendir(folder);
    uint64_t count = 0;
    while (open != NULL && readdir(open) != NULL)
        count++;
    if (open != NULL)
        (void)closedir(open);
    return count < 3 ? 0 : count - 3; // ".", "..", and the folder itself
}

void sk_process_read(struct sk_process *process)
{
    struct rusage usage;
    struct rlimit limit;
    *process = (struct sk_process){0};
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        process->cpu_us = process_microseconds(usage.ru_utime) + process_microseconds(usage.ru_stime);
    process_read_memory(process);
    process->open_fds = process_count_descriptors();
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        process->max_fds = limit.rlim_cur;
}
