// Slots are those of Redis Cluster: the results of CLUSTER KEYSLOT, and the check value of CRC-16/XMODEM.
#include <string.h>

#include "keys.h"
#include "slot.h"
#include "test.h"

TEST(slots_are_those_of_redis_cluster)
{
    static const struct {
        const char *tag;
        unsigned slot;
    } cases[] = {{"123456789", 0x31c3}, {"foo", 12182}, {"somekey", 11058}, {"", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        ck_assert_uint_eq(sk_slot(cases[i].tag, strlen(cases[i].tag)), cases[i].slot);
}

TEST(the_tag_stands_in_braces_in_each_key)
{
    struct sk_voucher_keys keys;
    char lock[SK_KEY_SIZE];
    sk_keys_of_voucher(INT64_MAX, "9223372036854775807", &keys);
    ck_assert_str_eq(keys.voucher, "seckill:{9223372036854775807}:voucher");
    ck_assert_str_eq(keys.buyers, "seckill:{9223372036854775807}:buyers");
    ck_assert_str_eq(keys.journal, "seckill:{9223372036854775807}:journal");
    sk_key_of_lock("rebuild", 7, "7", lock);
    ck_assert_str_eq(lock, "seckill:lock:rebuild:{7}");
}

TEST(a_voucher_in_the_scope_of_another_has_keys_in_its_slot)
{
    struct sk_voucher_keys keys;
    char lock[SK_KEY_SIZE];
    sk_keys_of_voucher(INT64_MAX, "9223372036854775806", &keys);
    ck_assert_str_eq(keys.buyers, "seckill:{9223372036854775806}{9223372036854775807}:buyers");
    ck_assert_uint_eq(sk_key_slot(keys.buyers), sk_slot("9223372036854775806", 19));
    sk_key_of_lock("recover", INT64_MAX, "9223372036854775806", lock);
    ck_assert_str_eq(lock, "seckill:lock:recover:{9223372036854775806}{9223372036854775807}");
    sk_keys_of_voucher(77, "7", &keys);
    ck_assert_str_eq(keys.journal, "seckill:{7}{77}:journal");
    sk_keys_of_voucher(0, "check-3", &keys); // of none
    ck_assert_str_eq(keys.ended, "seckill:{check-3}:ended");
}

TEST(keys_of_no_voucher_have_one_slot)
{
    char session[SK_KEY_SIZE];
    sk_key_of_session("018bcfe5-6800-7000-8000-00000000005e", session);
    ck_assert_str_eq(session, "seckill:{shared}:session:018bcfe5-6800-7000-8000-00000000005e");
    const char *keys[] = {session, SK_KEY_SESSIONS, SK_KEY_PROTOCOL, SK_KEY_CLOCK, SK_KEY_BUSY, SK_KEY_INSTANCES};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        ck_assert_uint_eq(sk_key_slot(keys[i]), SK_SHARED_SLOT);
    ck_assert_uint_eq(sk_key_slot("seckill:lock:rebuild:{7}"), sk_slot("7", 1));
    ck_assert_uint_eq(sk_key_slot("foo"), 12182);
    ck_assert_uint_eq(sk_key_slot("{}foo"), sk_slot("{}foo", 5));
}
