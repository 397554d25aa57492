// The shards: PostgreSQL servers that share the vouchers. Each is a whole database, and has the vouchers of some slots,
// by a fixed table. One database is one shard with all slots.
#ifndef SK_STORE_SHARDS_H
#define SK_STORE_SHARDS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "status.h"

// SK_SHARD_LINKS: of a reactor to each of them (sale/shard.h).
enum { SK_SHARDS_MAX = 16, SK_SHARD_LINKS = 3 };

// Their addresses, in the order of their numbers, which begin with 0.
struct sk_shards {
    size_t count;
    const char *urls[SK_SHARDS_MAX]; // secret
    char *text;                      // owned: the file's text; NULL: there is no file
};

// Reads a file with one URL a line. Blank lines, and lines that begin with #, are skipped. SK_FAIL, SK_NO_MEM: the
// reason is on `err`. In any case pass *shards to sk_shards_free().
enum sk_status sk_shards_read(struct sk_shards *shards, const char *path, FILE *err) SK_MUST_CHECK;
void sk_shards_free(struct sk_shards *shards);

// The shard that has a slot, of `count` shards. Any thread, as both functions. shard_of_slot() in SQL is the same.
unsigned sk_shard_of_slot(unsigned slot, size_t count);
// The shard that has a voucher which is not in the catalogue: new ids are drawn so that their own tag leads there.
unsigned sk_shard_of_voucher(int64_t voucher_id, size_t count);

#endif
