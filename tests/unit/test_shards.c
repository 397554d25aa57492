// Which shard has a slot or a voucher, and the file that lists the shards.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shards.h"
#include "slot.h"
#include "test.h"

TEST(each_slot_has_a_shard)
{
    for (size_t count = 1; count <= SK_SHARDS_MAX; count++) {
        size_t slots[SK_SHARDS_MAX] = {0};
        for (unsigned slot = 0; slot < SK_SLOTS; slot++) {
            unsigned shard = sk_shard_of_slot(slot, count);
            ck_assert_uint_lt(shard, count);
            slots[shard]++;
        }
        for (size_t i = 0; i < count; i++) // none has more than twice as many as another
            ck_assert(slots[i] * count <= (size_t)SK_SLOTS * 2 && slots[i] * count * 2 >= SK_SLOTS);
    }
}

TEST(a_new_shard_takes_slots_of_one_other)
{
    for (size_t count = 1; count < SK_SHARDS_MAX; count++) {
        unsigned from = SK_SHARDS_MAX;
        size_t moved = 0;
        for (unsigned slot = 0; slot < SK_SLOTS; slot++) {
            unsigned before = sk_shard_of_slot(slot, count), after = sk_shard_of_slot(slot, count + 1);
            if (before == after)
                continue;
            ck_assert_uint_eq(after, count);
            ck_assert(from == SK_SHARDS_MAX || from == before);
            from = before;
            moved++;
        }
        ck_assert_uint_gt(moved, 0);
        ck_assert_uint_eq(from, sk_shard_of_slot((unsigned)count, count)); // as docs/scale.md has it
    }
}

TEST(a_voucher_is_where_its_tag_leads)
{
    ck_assert_uint_eq(sk_shard_of_voucher(7, 1), 0);
    for (size_t count = 1; count <= SK_SHARDS_MAX; count++) {
        ck_assert_uint_eq(sk_shard_of_voucher(123456789, count), sk_shard_of_slot(0x31c3, count));
        ck_assert_uint_lt(sk_shard_of_voucher(INT64_MAX, count), count);
    }
}

static enum sk_status read_text(struct sk_shards *shards, const char *text, size_t len, char **said)
{
    char path[] = "/tmp/seckill-shards.XXXXXX";
    size_t size;
    int fd = mkstemp(path);
    ck_assert(fd >= 0 && write(fd, text, len) == (ssize_t)len && close(fd) == 0);
    FILE *err = open_memstream(said, &size);
    enum sk_status status = sk_shards_read(shards, path, err);
    (void)fclose(err);
    (void)unlink(path);
    return status;
}

TEST(a_file_has_one_url_a_line)
{
    static const char text[] = "# the shards\n\n postgresql://a/seckill \r\n\thost=b dbname=seckill\n#postgresql://c\n";
    struct sk_shards shards;
    char *said;
    ck_assert_int_eq(read_text(&shards, text, sizeof text - 1, &said), SK_OK);
    ck_assert_uint_eq(shards.count, 2);
    ck_assert_str_eq(shards.urls[0], "postgresql://a/seckill");
    ck_assert_str_eq(shards.urls[1], "host=b dbname=seckill");
    ck_assert_str_eq(said, "");
    sk_shards_free(&shards);
    free(said);
}

TEST(other_files_are_refused)
{
    char many[SK_SHARDS_MAX * 2 + 2], large[70000];
    for (size_t i = 0; i < sizeof many; i++)
        many[i] = i % 2 == 0 ? 'a' : '\n';
    memset(large, '#', sizeof large);
    const struct {
        const char *text;
        size_t len;
        const char *why;
    } cases[] = {
        {"", 0, "has no URL"},
        {"# none\n \n", 9, "has no URL"},
        {"a\0b", 3, "or NUL"},
        {many, sizeof many, "more than 16 URLs"},
        {large, sizeof large, "bytes or more"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sk_shards shards;
        char *said;
        ck_assert_int_eq(read_text(&shards, cases[i].text, cases[i].len, &said), SK_FAIL);
        ck_assert_msg(strstr(said, cases[i].why) != NULL, "%s", said);
        sk_shards_free(&shards);
        free(said);
    }
    struct sk_shards shards;
    ck_assert_int_eq(sk_shards_read(&shards, "/nowhere/shards", stderr), SK_FAIL);
    sk_shards_free(&shards);
}
