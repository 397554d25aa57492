// The file descriptor is watched with uv_poll. One event reads at most READ_MAX bytes, so that a fast sender cannot
// hold the loop; the rest brings the next event. That is the most that a TLS record carries, and OpenSSL reads no
// further than one record: so what is left always waits in the descriptor, never in OpenSSL.
#include "socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "status.h"

enum { READ_MAX = 16 * 1024 };

enum socket_state { SOCKET_CONNECTING, SOCKET_GREETING, SOCKET_OPEN, SOCKET_CLOSED };

struct sk_socket {
    uv_poll_t poll;
    int fd;
    SSL *tls; // NULL: without TLS
    enum socket_state state;
    bool full; // the last write did not take all bytes
    const struct sk_socket_events *events;
    void *owner;
};

// ---- TLS ----

// The first error of OpenSSL: those after it say less.
static const char *socket_tls_reason(void)
{
    static _Thread_local char text[256];
    unsigned long error = ERR_peek_error();
    if (error == 0)
        return "out of memory";
    ERR_error_string_n(error, text, sizeof text);
    return text;
}

// OpenSSL's own asks for a key's passphrase on the terminal, and the loop would wait.
static int socket_no_passphrase(char *passphrase, int size, int writing, void *arg)
{
    if (size > 0)
        passphrase[0] = '\0';
    (void)writing;
    (void)arg;
    return -1;
}

static bool socket_load_files(SSL_CTX *context, const struct sk_tls_files *files)
{
    if ((files->ca == NULL ? SSL_CTX_set_default_verify_paths(context)
                           : SSL_CTX_load_verify_locations(context, files->ca, NULL)) != 1)
        return false;
    SSL_CTX_set_default_passwd_cb(context, socket_no_passphrase);
    return files->cert == NULL || (SSL_CTX_use_certificate_chain_file(context, files->cert) == 1 &&
                                   SSL_CTX_use_PrivateKey_file(context, files->key, SSL_FILETYPE_PEM) == 1);
}

// The certificate must be for this name, or for this address if it is one.
static bool socket_expect(SSL *tls, const char *name)
{
    X509_VERIFY_PARAM *expected = SSL_get0_param(tls);
    if (X509_VERIFY_PARAM_set1_ip_asc(expected, name) == 1)
        return true;
    ERR_clear_error(); // not an address
    return SSL_set1_host(tls, name) == 1 && SSL_set_tlsext_host_name(tls, name) == 1;
}

static SSL *socket_open_tls(const struct sk_socket_target *target)
{
    ERR_clear_error();
    SSL *tls = NULL;
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    if (context != NULL && SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1 &&
        socket_load_files(context, target->tls)) {
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
        (void)SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION); // so that no write ever waits for bytes to read
        (void)SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
        tls = SSL_new(context);
    }
    SSL_CTX_free(context); // the connection keeps it
    if (tls != NULL && !socket_expect(tls, target->name)) {
        SSL_free(tls);
        return NULL;
    }
    return tls;
}

// ---- opening ----

// -1: not an address, or no file descriptor.
static int socket_connect(const char *address, int port)
{
    union {
        struct sockaddr any;
        struct sockaddr_un local;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } to = {.local = {.sun_family = AF_UNIX}};
    socklen_t len = sizeof to.local;
    if (port == 0) {
        if (strlen(address) >= sizeof to.local.sun_path) {
            errno = ENAMETOOLONG;
            return -1;
        }
        memcpy(to.local.sun_path, address, strlen(address) + 1);
    } else if (uv_ip4_addr(address, port, &to.v4) == 0) {
        len = sizeof to.v4;
    } else if (uv_ip6_addr(address, port, &to.v6) == 0) {
        len = sizeof to.v6;
    } else {
        errno = EINVAL;
        return -1;
    }
    int fd = socket(to.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;
    if (fd >= 0 && port != 0)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); // without it, commands would only be slower
    if (fd >= 0 && connect(fd, &to.any, len) != 0 && errno != EINPROGRESS) {
        int error = errno;
        (void)close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static void socket_on_poll(uv_poll_t *poll, int status, int events);

static int socket_watch(struct sk_socket *sock)
{
    bool writing = sock->state == SOCKET_CONNECTING || sock->full;
    return uv_poll_start(&sock->poll, writing ? UV_READABLE | UV_WRITABLE : UV_READABLE, socket_on_poll);
}

struct sk_socket *sk_socket_open(uv_loop_t *loop, const struct sk_socket_target *target,
                                 const struct sk_socket_events *events, void *owner, const char **why)
{
    struct sk_socket *sock = calloc(1, sizeof *sock);
    *why = "out of memory";
    if (sock == NULL)
        return NULL;
    *sock = (struct sk_socket){.fd = -1, .events = events, .owner = owner};
    if (target->tls != NULL && (sock->tls = socket_open_tls(target)) == NULL) {
        *why = socket_tls_reason();
        goto failed;
    }
    sock->fd = socket_connect(target->address, target->port);
    if (sock->fd < 0) {
        *why = strerror(errno);
        goto failed;
    }
    if ((sock->tls != NULL && SSL_set_fd(sock->tls, sock->fd) != 1) || uv_poll_init(loop, &sock->poll, sock->fd) != 0)
        goto failed;
    sock->poll.data = sock;
    (void)socket_watch(sock); // fails only for a descriptor that is not open
    return sock;
failed:
    SSL_free(sock->tls);
    if (sock->fd >= 0)
        (void)close(sock->fd);
    free(sock);
    return NULL;
}

// ---- events ----

static void socket_end(struct sk_socket *sock, int error)
{
    sock->events->ended(sock->owner, error == 0 ? "it has closed the connection" : strerror(error));
}

// After a call that failed: it must be repeated when bytes can be read or written, or the connection has ended.
static void socket_tls_wait(struct sk_socket *sock, int result)
{
    int error = SSL_get_error(sock->tls, result);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
        if (sock->full != (error == SSL_ERROR_WANT_WRITE) && sock->state == SOCKET_GREETING) {
            sock->full = error == SSL_ERROR_WANT_WRITE;
            (void)socket_watch(sock);
        }
        return;
    }
    long verified = SSL_get_verify_result(sock->tls);
    const char *why = "it has closed the connection";
    if (verified != X509_V_OK)
        why = X509_verify_cert_error_string(verified);
    else if (error == SSL_ERROR_SSL)
        why = socket_tls_reason();
    SSL_set_quiet_shutdown(sock->tls, 1); // after an error nothing may be sent
    sock->events->ended(sock->owner, why);
}

static void socket_greet(struct sk_socket *sock)
{
    ERR_clear_error();
    int result = SSL_connect(sock->tls);
    if (result != 1) {
        socket_tls_wait(sock, result);
        return;
    }
    sock->state = SOCKET_OPEN;
    sock->full = false;
    (void)socket_watch(sock);
    sock->events->connected(sock->owner);
}

static void socket_on_connected(struct sk_socket *sock)
{
    int error = 0;
    socklen_t len = sizeof error;
    if (getsockopt(sock->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
        error = errno;
    if (error != 0) {
        socket_end(sock, error);
        return;
    }
    sock->state = sock->tls == NULL ? SOCKET_OPEN : SOCKET_GREETING;
    (void)socket_watch(sock);
    if (sock->tls == NULL)
        sock->events->connected(sock->owner);
    else
        socket_greet(sock);
}

static void socket_read(struct sk_socket *sock)
{
    char bytes[READ_MAX];
    ssize_t n;
    if (sock->tls == NULL) {
        n = recv(sock->fd, bytes, sizeof bytes, 0);
    } else {
        ERR_clear_error();
        n = SSL_read(sock->tls, bytes, sizeof bytes);
    }
    if (n > 0)
        sock->events->received(sock->owner, bytes, (size_t)n);
    else if (sock->tls != NULL)
        socket_tls_wait(sock, (int)n);
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        socket_end(sock, n == 0 ? 0 : errno);
}

// Each callback may close the socket. Its memory stays until this function has returned.
static void socket_on_poll(uv_poll_t *poll, int status, int events)
{
    struct sk_socket *sock = poll->data;
    bool writing = status < 0 || (events & UV_WRITABLE) != 0, reading = status < 0 || (events & UV_READABLE) != 0;
    if (sock->state == SOCKET_CONNECTING) {
        if (writing)
            socket_on_connected(sock);
    } else if (sock->state == SOCKET_GREETING) {
        socket_greet(sock);
    } else {
        if (reading)
            socket_read(sock);
        if (writing && sock->state == SOCKET_OPEN && sock->full) {
            sock->full = false;
            (void)socket_watch(sock);
            sock->events->writable(sock->owner);
        }
    }
    if (status < 0 && sock->state != SOCKET_CLOSED)
        (void)socket_watch(sock); // libuv has stopped to watch; the next read returns the error
}

// ---- bytes ----

size_t sk_socket_write(struct sk_socket *sock, const char *bytes, size_t n)
{
    size_t done = 0;
    if (sock->tls == NULL) {
        ssize_t taken = send(sock->fd, bytes, n, MSG_NOSIGNAL);
        done = taken < 0 ? 0 : (size_t)taken;
    } else {
        ERR_clear_error();
        while (done < n) { // a record at a time
            size_t taken = 0;
            if (SSL_write_ex(sock->tls, bytes + done, n - done, &taken) != 1)
                break;
            done += taken;
        }
    }
    if (done < n && !sock->full) { // if the connection has ended, the next event says so
        sock->full = true;
        (void)socket_watch(sock);
    }
    return done;
}

int sk_socket_fd(const struct sk_socket *sock)
{
    return sock->fd;
}

// ---- closing ----

static void socket_on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void sk_socket_close(struct sk_socket *sock)
{
    if (sock == NULL)
        return;
    SK_ASSERT(sock->state != SOCKET_CLOSED);
    if (sock->tls != NULL && sock->state == SOCKET_OPEN)
        (void)SSL_shutdown(sock->tls); // tells the server, if the system takes it at once
    sock->state = SOCKET_CLOSED;
    (void)uv_poll_stop(&sock->poll);
    SSL_free(sock->tls);
    (void)close(sock->fd);
    uv_close((uv_handle_t *)&sock->poll, socket_on_closed);
}
