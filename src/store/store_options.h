// The addresses of the stores, and the time limits of their answers.
#ifndef SK_STORE_STORE_OPTIONS_H
#define SK_STORE_STORE_OPTIONS_H

#include <stdint.h>

#include "shards.h"

struct sk_store_options {
    char *database_url;      // secret; NULL: the shards are in a file
    char *shards_file;       // path; NULL: database_url is the only one
    struct sk_shards shards; // of whichever of the two is set
    char *redis_url;         // secret
    char *sentinel_password; // secret; NULL: none
    char *redis_ca;          // paths (socket.h); NULL: none
    char *redis_cert, *redis_key;
    int64_t redis_timeout_ms;
    int64_t pg_timeout_ms;
};

#endif
