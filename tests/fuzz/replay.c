// Takes libFuzzer's place where there is no clang: hands a target each file of the folders that are named, once.
// So what was found stays found, in every test run.
#include <dirent.h>
#include <stdio.h>

#include "fuzz.h"

enum { CASE_MAX_BYTES = 1 << 20, PATH_SIZE = 512 };

static void replay(const char *path)
{
    static uint8_t bytes[CASE_MAX_BYTES];
    FILE *file = fopen(path, "rbe");
    MUST(file != NULL);
    size_t size = fread(bytes, 1, sizeof bytes, file);
    MUST(!ferror(file) && size < sizeof bytes);
    (void)fclose(file);
    (void)fprintf(stderr, "%s\n", path); // the last one named is the one that failed
    (void)LLVMFuzzerTestOneInput(bytes, size);
}

static size_t replay_folder(const char *folder)
{
    size_t count = 0;
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return 0; // nothing was found for this target yet
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char path[PATH_SIZE];
        if (entry->d_name[0] == '.')
            continue;
        int len = snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        MUST(len > 0 && len < PATH_SIZE);
        replay(path);
        count++;
    }
    (void)closedir(dir);
    return count;
}

int main(int argc, char **argv)
{
    size_t count = 0;
    if (LLVMFuzzerInitialize != NULL)
        (void)LLVMFuzzerInitialize(&argc, &argv);
    for (int i = 1; i < argc; i++)
        count += replay_folder(argv[i]);
    (void)printf("%zu cases\n", count);
    return count > 0 ? 0 : 1;
}
