// Which servers a URL names, and which URLs are refused.
#include <libpq-fe.h>
#include <string.h>

#include "pg_hosts.h"
#include "test.h"

#define COUNT(rows) (sizeof(rows) / sizeof(rows)[0])

static const struct {
    const char *url;
    const char *names; // of its hosts, with a star at each that must be resolved; NULL: the URL is refused
    bool leaves;       // a server that becomes read-only
} urls[] = {
    {"postgresql://u:p@db.example/d", "db.example*", false},
    {"postgresql://u@db.example/d?target_session_attrs=read-write", "db.example*", true},
    {"postgresql://u@db.example/d?target_session_attrs=any", "db.example*", false},
    {"postgresql:///d", "", false},
    {"host=/run/postgresql dbname=d", "/run/postgresql", false},
    {"hostaddr=192.0.2.1", "192.0.2.1", false},
    {"postgresql://u@a.example:1,b.example/d", "a.example* b.example*", true},
    {"postgresql://u@a.example,b.example/d?target_session_attrs=primary", "a.example* b.example*", false},
    {"postgresql://u@[::1]:1,192.0.2.1:2/d", "::1* 192.0.2.1*", true},
    {"host=a.example,/run/postgresql,c.example port=1,2,3", "a.example* /run/postgresql c.example*", true},
    {"host=a.example,b.example port=5433", "a.example* b.example*", true},
    {"host=a.example,b.example hostaddr=192.0.2.1,", "a.example b.example*", true},
    {"hostaddr=192.0.2.1,192.0.2.2", "192.0.2.1 192.0.2.2", true},
    {"host=a.example,", "a.example* ", true},
    {"postgresql://u@a.example,b.example/d?target_session_attrs=any", NULL, false},
    {"postgresql://u@a.example,b.example/d?target_session_attrs=standby", NULL, false},
    {"host=a.example,b.example,c.example port=1,2", NULL, false},
    {"host=a.example port=1,2", NULL, false},
    {"host=a.example,b.example hostaddr=192.0.2.1", NULL, false},
    {"host=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", NULL, false},
    {"made_up=1", NULL, false},
    {"redis://a.example", NULL, false},
    {"postgresql://u:p%2Fs%40w@a.example/d", "a.example*", false},
    {"postgresql://u:p/s@a.example/d", NULL, false}, // libpq would print a part of the password
    {"postgresql://u:p@s@a.example/d", NULL, false},
    {"postgres://u:1/s@a.example/d", NULL, false},
    {"postgresql:///d?host=@abstract", "@abstract", false},
};

TEST_EACH(a_url_names_its_hosts, (int)COUNT(urls))
{
    struct sk_pg_hosts *hosts = sk_pg_hosts_open(urls[_i].url);
    char names[128] = "";
    ck_assert_msg((hosts != NULL) == (urls[_i].names != NULL), "%s", urls[_i].url);
    for (size_t i = 0; hosts != NULL && i < sk_pg_hosts_count(hosts); i++) {
        const char *resolve = sk_pg_hosts_to_resolve(hosts, i), *name = sk_pg_hosts_name(hosts, i);
        ck_assert(resolve == NULL || strcmp(resolve, name) == 0);
        size_t n = strlen(names);
        (void)snprintf(names + n, sizeof names - n, "%s%s%s", i == 0 ? "" : " ", name, resolve != NULL ? "*" : "");
    }
    ck_assert_str_eq(names, urls[_i].names == NULL ? "" : urls[_i].names);
    ck_assert(hosts == NULL || sk_pg_hosts_leave_read_only(hosts) == urls[_i].leaves);
    sk_pg_hosts_close(hosts);
}

// What libpq gets: one host and its port, and the rest of the URL.
TEST(each_host_is_tried_alone)
{
    struct sk_pg_hosts *hosts = sk_pg_hosts_open(
        "postgresql://u:p@a.example:1,b.example:2,%2Ftmp%2Fnone/d?sslmode=disable&options=-c%20jit%3Don");
    static const struct {
        const char *host, *port;
    } each[] = {{"a.example", "1"}, {"b.example", "2"}, {"/tmp/none", "5432"}};
    ck_assert_ptr_nonnull(hosts);
    for (size_t i = 0; i < COUNT(each); i++) {
        PGconn *conn = sk_pg_hosts_start(hosts, i, i < 2 ? "127.0.0.1" : NULL);
        ck_assert_ptr_nonnull(conn);
        ck_assert_str_eq(PQhost(conn), each[i].host);
        ck_assert_str_eq(PQport(conn), each[i].port);
        ck_assert_str_eq(PQuser(conn), "u");
        ck_assert_str_eq(PQpass(conn), "p");
        ck_assert_str_eq(PQdb(conn), "d");
        ck_assert_str_eq(PQoptions(conn), "-c jit=on");
        PQfinish(conn);
    }
    sk_pg_hosts_close(hosts);
}
