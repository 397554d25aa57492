// Preloaded into an instance of the service: resolving the name hangs.test never returns.
#include <dlfcn.h>
#include <netdb.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

typedef int lookup(const char *, const char *, const struct addrinfo *, struct addrinfo **);

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name)
int getaddrinfo(const char *restrict node, const char *restrict service, const struct addrinfo *restrict hints,
                struct addrinfo **restrict found)
{
    static const char line[] = "the resolver hangs\n";
    union {
        void *object;
        lookup *function;
    } real = {.object = dlsym(RTLD_NEXT, "getaddrinfo")};
    if (node != NULL && strcmp(node, "hangs.test") == 0) {
        (void)!write(STDERR_FILENO, line, sizeof line - 1);
        for (;;)
            (void)pause();
    }
    return real.function == NULL ? EAI_FAIL : real.function(node, service, hints, found);
}
// NOLINTEND(readability-inconsistent-declaration-parameter-name)
