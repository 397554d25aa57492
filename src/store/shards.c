// The last bits of a slot are the number of its shard: k bits for 2^k shards. For a number in between, slots whose last
// k bits are no shard's number use k - 1 bits. So shard n takes half of the slots of one other shard, and no slot moves
// between any two others: a new shard is a copy of that one, of which each keeps its half (deploy/split_shard.sql).
#include "shards.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "slot.h"

enum { FILE_MAX_BYTES = 65536, ID_SIZE = 24 };

// ---- the table ----

unsigned sk_shard_of_slot(unsigned slot, size_t count)
{
    unsigned most = 1;
    while (most < count)
        most *= 2;
    unsigned shard = slot & (most - 1);
    return shard < count ? shard : shard - most / 2;
}

unsigned sk_shard_of_voucher(int64_t voucher_id, size_t count)
{
    char tag[ID_SIZE];
    int len = snprintf(tag, sizeof tag, "%" PRId64, voucher_id);
    return count <= 1 ? 0 : sk_shard_of_slot(sk_slot(tag, (size_t)len), count);
}

// ---- the file ----

static enum sk_status shards_read_text(struct sk_shards *shards, const char *path, FILE *err)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        (void)fprintf(err, "seckill: SECKILL_SHARDS: %s: %s\n", path, strerror(errno));
        return SK_FAIL;
    }
    shards->text = calloc(1, FILE_MAX_BYTES);
    size_t n = shards->text == NULL ? 0 : fread(shards->text, 1, FILE_MAX_BYTES, file);
    (void)fclose(file);
    if (shards->text == NULL) {
        (void)fprintf(err, "seckill: out of memory\n");
        return SK_NO_MEM;
    }
    if (n == FILE_MAX_BYTES || strlen(shards->text) != n) {
        (void)fprintf(err, "seckill: SECKILL_SHARDS: %s: holds %d bytes or more, or NUL\n", path, FILE_MAX_BYTES);
        return SK_FAIL;
    }
    return SK_OK;
}

enum sk_status sk_shards_read(struct sk_shards *shards, const char *path, FILE *err)
{
    char *rest = NULL;
    *shards = (struct sk_shards){0};
    enum sk_status status = shards_read_text(shards, path, err);
    if (status != SK_OK)
        return status;
    for (char *line = strtok_r(shards->text, "\r\n", &rest); line != NULL; line = strtok_r(NULL, "\r\n", &rest)) {
        line += strspn(line, " \t");
        size_t len = strlen(line);
        while (len > 0 && strchr(" \t", line[len - 1]) != NULL)
            line[--len] = '\0';
        if (len == 0 || line[0] == '#')
            continue;
        if (shards->count == SK_SHARDS_MAX) {
            (void)fprintf(err, "seckill: SECKILL_SHARDS: %s: has more than %d URLs\n", path, SK_SHARDS_MAX);
            return SK_FAIL;
        }
        shards->urls[shards->count++] = line;
    }
    if (shards->count == 0) {
        (void)fprintf(err, "seckill: SECKILL_SHARDS: %s: has no URL\n", path);
        return SK_FAIL;
    }
    return SK_OK;
}

void sk_shards_free(struct sk_shards *shards)
{
    free(shards->text);
    *shards = (struct sk_shards){0};
}
