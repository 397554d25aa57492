// The growing text buffer: complete and NUL-terminated at every size, and errors persist.
#include <string.h>

#include "buf.h"
#include "test.h"

TEST(text_is_whole_and_terminated_at_every_size)
{
    struct sk_buf buf = {0};
    for (size_t i = 0; i < 10000; i++) {
        char c = (char)('a' + i % 26);
        if (i % 2 == 0)
            sk_buf_add(&buf, &c, 1);
        else
            sk_buf_printf(&buf, "%c", c);
        ck_assert_uint_eq(buf.len, i + 1);
        ck_assert_uint_lt(buf.len, buf.room);
        ck_assert_int_eq(buf.data[i], c);
        ck_assert_int_eq(buf.data[buf.len], '\0');
    }
    for (size_t i = 0; i < 10000; i++)
        ck_assert_int_eq(buf.data[i], (char)('a' + i % 26));
    ck_assert(!buf.failed);
    sk_buf_free(&buf);
}

TEST(what_is_appended_may_have_any_length)
{
    struct sk_buf buf = {0};
    sk_buf_add(&buf, NULL, 0);
    ck_assert_str_eq(buf.data, "");
    sk_buf_puts(&buf, "");
    sk_buf_printf(&buf, "%s", "");
    ck_assert_str_eq(buf.data, "");
    sk_buf_puts(&buf, "one,");
    sk_buf_add(&buf, "t\0,...", 3); // bytes may be NUL
    sk_buf_printf(&buf, "%d,%s", 3, "four");
    ck_assert_uint_eq(buf.len, 13);
    ck_assert_mem_eq(buf.data, "one,t\0,3,four", 14);
    sk_buf_printf(&buf, "%0100000d", 7);
    ck_assert_uint_eq(buf.len, 100013);
    ck_assert_str_eq(buf.data + 100011, "07");
    sk_buf_free(&buf);
}

TEST(clearing_keeps_the_memory_and_freeing_does_not)
{
    struct sk_buf buf = {0};
    sk_buf_clear(&buf);
    ck_assert_ptr_null(buf.data);
    sk_buf_puts(&buf, "text");
    const char *data = buf.data;
    sk_buf_clear(&buf);
    ck_assert_ptr_eq(buf.data, data);
    ck_assert_str_eq(buf.data, "");
    sk_buf_free(&buf);
    ck_assert_ptr_null(buf.data);
    ck_assert_uint_eq(buf.room, 0);
    sk_buf_free(&buf); // freeing it again is harmless
}

TEST(a_failure_sticks_until_cleared)
{
    struct sk_buf buf = {0};
    sk_buf_puts(&buf, "before");
    buf.failed = true; // as after a failed allocation
    sk_buf_puts(&buf, "lost");
    sk_buf_add(&buf, "lost", 4);
    sk_buf_printf(&buf, "%s", "lost");
    ck_assert(buf.failed);
    ck_assert_str_eq(buf.data, "before");
    sk_buf_clear(&buf);
    ck_assert(!buf.failed);
    sk_buf_puts(&buf, "after");
    ck_assert_str_eq(buf.data, "after");
    sk_buf_free(&buf);
}
