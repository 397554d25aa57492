
#include "target.h"
#include "test.h"

TEST(paths)
{
    static const struct {
        const char *target, *path;
    } rows[] = {
        {"/", "/"},
        {"/seckill/1", "/seckill/1"},
        {"//host/seckill/1", "//host/seckill/1"},
        {"/http://host/x", "/http://host/x"},
        {"http://host/seckill/1", "/seckill/1"},
        {"HTTP://host/seckill/1", "/seckill/1"},
        {"https://host:8443/seckill/1", "/seckill/1"},
        {"HttpS://[::1]:80/", "/"},
        {"http://host", "/"},
        {"http://host//seckill/1", "//seckill/1"},
        {"http://host/a@b:c", "/a@b:c"},
        {"http://", NULL},
        {"http:///seckill/1", NULL},
        {"http://:80/seckill/1", NULL},
        {"http://user@host/seckill/1", NULL},
        {"https://", NULL},
        {"https://user:word@host", NULL},
        {"*", "*"},
        {"", ""},
        {"host:443", "host:443"},
        {"seckill/1", "seckill/1"},
        {"ftp://host/seckill/1", "ftp://host/seckill/1"},
        {"http:/host/seckill/1", "http:/host/seckill/1"},
        {"http:host", "http:host"},
        {"xhttp://host/seckill/1", "xhttp://host/seckill/1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *path = sk_target_path(rows[i].target);
        if (rows[i].path == NULL)
            ck_assert_msg(path == NULL, "%s: %s", rows[i].target, path);
        else
            ck_assert_pstr_eq(path, rows[i].path);
    }
}
