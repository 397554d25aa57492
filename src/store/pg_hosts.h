// The servers that SECKILL_DATABASE_URL names. Each attempt to connect takes one of them: libpq would try them one
// after the other, and resolve each name, before it returns to the loop.
//
// All functions: any thread, one at a time.
#ifndef SK_STORE_PG_HOSTS_H
#define SK_STORE_PG_HOSTS_H

#include <stdbool.h>
#include <stddef.h>

struct pg_conn; // libpq's PGconn
struct sk_pg_hosts;

// Reads a URI or a connection string of libpq's. NULL: it is wrong, which is logged, or memory is short.
struct sk_pg_hosts *sk_pg_hosts_open(const char *url);
void sk_pg_hosts_close(struct sk_pg_hosts *hosts); // NULL is fine

size_t sk_pg_hosts_count(const struct sk_pg_hosts *hosts); // 1 at least

// The host as the URL has it, for people; "" if libpq chooses it.
const char *sk_pg_hosts_name(const struct sk_pg_hosts *hosts, size_t host);
// The name that must be resolved before a connection to the host begins; NULL: none.
const char *sk_pg_hosts_to_resolve(const struct sk_pg_hosts *hosts, size_t host);

// Whether a server that becomes read-only must be left: the URL requires sessions that can write, or names several
// hosts, of which all but one are standbys.
bool sk_pg_hosts_leave_read_only(const struct sk_pg_hosts *hosts);

// Begins to connect to this host alone. `address`: numeric; NULL: there was nothing to resolve. NULL: out of memory.
struct pg_conn *sk_pg_hosts_start(const struct sk_pg_hosts *hosts, size_t host, const char *address);

// The same for commands, which wait until the connection is there, or has failed. A standby is taken, too.
struct pg_conn *sk_pg_hosts_connect(const struct sk_pg_hosts *hosts, size_t host, const char *application, int most_s);

// For commands that write: waits for the first host that takes writes. NULL: the URL is wrong, which is logged, or
// memory is short.
struct pg_conn *sk_pg_hosts_connect_to_write(const char *url);

#endif
