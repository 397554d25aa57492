// A socket with TLS, against a server under the test's control that cuts the connection after each byte, and passes on
// bytes one by one.
#include <arpa/inet.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "socket.h"
#include "stub.h"
#include "test.h"

enum { PULSE_MS = 100, DAY_S = 86400, SAID_MAX = 1024, RECORD_MAX = 4096, NO_CUT = -1, WORDS = 3 };

#define ANSWER "an answer"

static const char question[] = "question", answer[] = ANSWER, password[] = "password";

static uv_loop_t loop;
static uv_timer_t pulse; // so that a wait ends
static struct stub stub;
static SSL_CTX *context;
static SSL *tls; // of the connection that the server has
static EVP_PKEY *key;
static char ca[] = "/tmp/test_socket-ca.XXXXXX", locked[] = "/tmp/test_socket-key.XXXXXX";
static long cut_at; // hangs up after so many bytes; NO_CUT: never
static long sent;   // by this server, to the client it has
static bool one_by_one;

// ---- the server ----

// Sends what OpenSSL has written, up to the cut. False: the connection is cut.
static bool flush(void)
{
    char bytes[RECORD_MAX];
    for (int n; (n = BIO_read(SSL_get_wbio(tls), bytes, sizeof bytes)) > 0;) {
        bool cut = cut_at != NO_CUT && sent + n >= cut_at;
        size_t all = (size_t)(cut ? cut_at - sent : n), step = one_by_one ? 1 : all;
        for (size_t at = 0; at < all; at += step)
            stub_send(&stub, bytes + at, step);
        sent += (long)all;
        if (cut) {
            stub_hang_up(&stub); // after the bytes before it
            return false;
        }
    }
    return true;
}

static size_t receive(struct stub *of, const char *bytes, size_t n)
{
    char text[RECORD_MAX];
    (void)of;
    ck_assert_int_eq(BIO_write(SSL_get_rbio(tls), bytes, (int)n), (int)n);
    int got = SSL_read(tls, text, sizeof text); // the handshake first
    if (!flush())
        return 0; // the stub has forgotten them
    if (got <= 0)
        return n;
    ck_assert_int_eq(got, (int)strlen(question));
    for (int i = 0; i < WORDS; i++)
        ck_assert_int_gt(SSL_write(tls, answer, (int)strlen(answer)), 0);
    return flush() ? n : 0;
}

static void serve(void)
{
    stub_hang_up(&stub); // what the client before has still sent is not for this one
    SSL_free(tls);
    tls = SSL_new(context);
    ck_assert_ptr_nonnull(tls);
    SSL_set_bio(tls, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_accept_state(tls);
    sent = 0;
}

static X509 *make_certificate(void)
{
    X509 *made = X509_new();
    X509_NAME *name = X509_get_subject_name(made);
    X509V3_CTX about;
    ck_assert_int_eq(X509_set_version(made, 2), 1);
    ck_assert_int_eq(ASN1_INTEGER_set(X509_get_serialNumber(made), 1), 1);
    ck_assert_ptr_nonnull(X509_gmtime_adj(X509_getm_notBefore(made), -DAY_S));
    ck_assert_ptr_nonnull(X509_gmtime_adj(X509_getm_notAfter(made), DAY_S));
    ck_assert_int_eq(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"test", -1, -1, 0), 1);
    ck_assert_int_eq(X509_set_issuer_name(made, name), 1);
    ck_assert_int_eq(X509_set_pubkey(made, key), 1);
    X509V3_set_ctx(&about, made, made, NULL, NULL, 0);
    X509_EXTENSION *names = X509V3_EXT_conf_nid(NULL, &about, NID_subject_alt_name, "IP:127.0.0.1");
    ck_assert_int_eq(X509_add_ext(made, names, -1), 1);
    X509_EXTENSION_free(names);
    ck_assert_int_gt(X509_sign(made, key, NULL), 0);
    return made;
}

// ---- the client ----

static struct {
    int connected, ended;
    char said[SAID_MAX], why[SAID_MAX];
    size_t len;
    struct sk_socket *sock;
} seen;

static void on_connected(void *owner)
{
    (void)owner;
    ck_assert_int_eq(seen.ended, 0);
    seen.connected++;
    size_t taken = sk_socket_write(seen.sock, question, strlen(question));
    ck_assert(taken == strlen(question) || cut_at != NO_CUT); // the server may be gone already
}

static void on_bytes(void *owner, const char *bytes, size_t n)
{
    (void)owner;
    ck_assert_int_eq(seen.connected, 1);
    ck_assert_uint_lt(seen.len + n, sizeof seen.said);
    memcpy(seen.said + seen.len, bytes, n);
    seen.len += n;
}

static void on_writable(void *owner)
{
    (void)owner;
}

static void on_ended(void *owner, const char *why)
{
    (void)owner;
    seen.ended++;
    (void)snprintf(seen.why, sizeof seen.why, "%s", why);
    sk_socket_close(seen.sock);
    seen.sock = NULL;
}

static const struct sk_socket_events events = {on_connected, on_bytes, on_writable, on_ended};

static void open_socket(long cut)
{
    const struct sk_tls_files files = {.ca = ca};
    const struct sk_socket_target target = {"127.0.0.1", stub.port, &files, "127.0.0.1"};
    const char *why;
    cut_at = cut;
    serve();
    memset(&seen, 0, sizeof seen);
    seen.sock = sk_socket_open(&loop, &target, &events, NULL, &why);
    ck_assert_msg(seen.sock != NULL, "%s", why);
}

static void on_pulse(uv_timer_t *timer)
{
    (void)timer;
}

static void setup(void)
{
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    (void)uv_timer_init(&loop, &pulse);
    (void)uv_timer_start(&pulse, on_pulse, 0, PULSE_MS);
    stub_open(&stub, &loop, receive);
    key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519"); // its signatures have one length
    X509 *certificate = make_certificate();
    context = SSL_CTX_new(TLS_server_method());
    (void)SSL_CTX_set_options(context, SSL_OP_NO_TICKET); // tickets are numbers of sessions, and have one length, too
    ck_assert_int_eq(SSL_CTX_use_certificate(context, certificate), 1);
    ck_assert_int_eq(SSL_CTX_use_PrivateKey(context, key), 1);
    FILE *file = fdopen(mkstemp(ca), "w");
    ck_assert_int_eq(PEM_write_X509(file, certificate), 1);
    ck_assert_int_eq(fclose(file), 0);
    file = fdopen(mkstemp(locked), "w");
    ck_assert_int_eq(
        PEM_write_PKCS8PrivateKey(file, key, EVP_aes_128_cbc(), password, (int)strlen(password), NULL, NULL), 1);
    ck_assert_int_eq(fclose(file), 0);
    X509_free(certificate);
}

static void teardown(void)
{
    sk_socket_close(seen.sock);
    stub_close(&stub);
    uv_close((uv_handle_t *)&pulse, NULL);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    SSL_free(tls);
    SSL_CTX_free(context);
    EVP_PKEY_free(key);
    (void)unlink(ca);
    (void)unlink(locked);
}

// ---- the tests ----

static const char whole[] = ANSWER ANSWER ANSWER;

// What arrived before a cut is a part of what was sent, and the end is told once.
TEST_EACH(tls_is_cut_at_every_byte, 2)
{
    size_t longest = 0;
    ck_assert_int_eq(SSL_CTX_set_max_proto_version(context, _i == 0 ? TLS1_3_VERSION : TLS1_2_VERSION), 1);
    open_socket(NO_CUT);
    RUN_UNTIL(seen.len >= strlen(whole));
    long all = sent;
    for (long cut = 0; cut < all; cut++) {
        sk_socket_close(seen.sock);
        open_socket(cut);
        RUN_UNTIL(seen.ended == 1);
        ck_assert(strncmp(whole, seen.said, seen.len) == 0);
        longest = seen.len > longest ? seen.len : longest;
        ck_assert(seen.len < strlen(whole));
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        ck_assert_int_eq(seen.ended, 1);
    }
    ck_assert_uint_eq(longest, strlen(answer) * (WORDS - 1)); // the last record is cut
}

TEST(bytes_may_come_one_by_one)
{
    one_by_one = true;
    open_socket(NO_CUT);
    RUN_UNTIL(seen.len >= strlen(whole));
    ck_assert_str_eq(seen.said, whole);
    ck_assert_int_eq(seen.ended, 0);
}

// A server whose queue of new connections is full answers nothing: a call that waited for it would stop the loop.
TEST(connecting_waits_for_nobody)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    const char *why;
    int fds[4], full = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(full, (struct sockaddr *)&at, sizeof at), 0);
    ck_assert_int_eq(listen(full, 0), 0);
    ck_assert_int_eq(getsockname(full, (struct sockaddr *)&at, &len), 0);
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)connect(fds[i], (struct sockaddr *)&at, sizeof at);
    }
    const struct sk_socket_target target = {"127.0.0.1", ntohs(at.sin_port), NULL, "full"};
    seen.sock = sk_socket_open(&loop, &target, &events, NULL, &why);
    ck_assert_msg(seen.sock != NULL, "%s", why);
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    ck_assert_int_eq(seen.connected, 0);
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
        (void)close(fds[i]);
    (void)close(full);
}

TEST(an_older_tls_is_refused)
{
    SSL_CTX_set_security_level(context, 0);
    ck_assert_int_eq(SSL_CTX_set_min_proto_version(context, TLS1_VERSION), 1);
    ck_assert_int_eq(SSL_CTX_set_max_proto_version(context, TLS1_1_VERSION), 1);
    open_socket(NO_CUT);
    RUN_UNTIL(seen.ended == 1);
    ck_assert_int_eq(seen.connected, 0);
}

// OpenSSL would ask for the passphrase on a terminal, and the loop would wait for it.
TEST(a_key_with_a_passphrase_is_refused)
{
    const struct sk_tls_files files = {ca, ca, locked};
    const struct sk_socket_target target = {"127.0.0.1", stub.port, &files, "127.0.0.1"};
    const char *why = NULL;
    ck_assert_ptr_null(sk_socket_open(&loop, &target, &events, NULL, &why));
    ck_assert_msg(strstr(why, "cancelled") != NULL, "%s", why);
}

SUITE(.timeout_s = 120, .setup = setup, .teardown = teardown);
