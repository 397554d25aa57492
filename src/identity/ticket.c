// HMAC is built here (RFC 2104) from OpenSSL's SHA-256, whose state is a plain struct: a secret is hashed into two of
// them once, which are copied for each MAC. Through EVP, which OpenSSL 3 prefers, each digest would allocate. Cheap
// checks come first, and the MAC last.
#define OPENSSL_SUPPRESS_DEPRECATED
#include "ticket.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>

#include "auth.h"
#include "base64url.h"

enum { VERSION = 1, SECRETS_MAX = 2, SECRET_MIN = 16, BLOCK_SIZE = 64, DIGEST_SIZE = 32, MAC_SIZE = 16 };
enum { KIND_AT = 0, VERSION_AT = 1, EXPIRY_AT = 2, VOUCHER_AT = 6, OFFER_AT = 14, MAC_AT = 22 };
enum { RAW_SIZE = MAC_AT + MAC_SIZE };
_Static_assert(SK_TICKET_CHARS == SK_BASE64URL_CHARS(RAW_SIZE), "a ticket's characters");

struct secret {
    SHA256_CTX inner, outer; // state after the padded key
};

struct sk_tickets {
    unsigned secrets;
    struct secret secret[SECRETS_MAX];
};

// A key that is longer than a block is replaced by its digest.
static void tickets_add_secret(struct sk_tickets *tickets, struct sk_span line)
{
    struct secret *secret = &tickets->secret[tickets->secrets++];
    unsigned char inner[BLOCK_SIZE] = {0}, outer[BLOCK_SIZE];
    if (line.len > BLOCK_SIZE)
        (void)SHA256((const unsigned char *)line.at, line.len, inner);
    else
        memcpy(inner, line.at, line.len);
    for (size_t i = 0; i < BLOCK_SIZE; i++) {
        outer[i] = inner[i] ^ 0x5c;
        inner[i] ^= 0x36;
    }
    (void)SHA256_Init(&secret->inner);
    (void)SHA256_Update(&secret->inner, inner, BLOCK_SIZE);
    (void)SHA256_Init(&secret->outer);
    (void)SHA256_Update(&secret->outer, outer, BLOCK_SIZE);
    OPENSSL_cleanse(inner, sizeof inner);
    OPENSSL_cleanse(outer, sizeof outer);
}

// Returns what is wrong with them; NULL: nothing.
static const char *tickets_read_secrets(struct sk_tickets *tickets, const char *lines)
{
    struct sk_span text = {lines, strlen(lines)}, line;
    while (sk_span_line(&text, &line)) {
        if (line.len < SECRET_MIN)
            return "a line is shorter than 16 bytes";
        if (tickets->secrets == SECRETS_MAX)
            return "there are more than two lines";
        tickets_add_secret(tickets, line);
    }
    return tickets->secrets == 0 ? "there is none" : NULL;
}

struct sk_tickets *sk_tickets_open(const struct sk_identity_options *options, FILE *err)
{
    struct sk_tickets *tickets = calloc(1, sizeof *tickets);
    if (tickets == NULL) {
        (void)fprintf(err, "seckill: out of memory\n");
        return NULL;
    }
    const char *wrong = options->ticket_secret == NULL ? NULL : tickets_read_secrets(tickets, options->ticket_secret);
    if (wrong != NULL) {
        (void)fprintf(err, "seckill: SECKILL_TICKET_SECRET: %s\n", wrong);
        sk_tickets_close(tickets);
        return NULL;
    }
    return tickets;
}

void sk_tickets_close(struct sk_tickets *tickets)
{
    if (tickets != NULL)
        OPENSSL_cleanse(tickets->secret, sizeof tickets->secret);
    free(tickets);
}

bool sk_tickets_on(const struct sk_tickets *tickets)
{
    return tickets->secrets > 0;
}

static void ticket_sign(const struct secret *secret, const unsigned char raw[MAC_AT], const char *user,
                        unsigned char mac[DIGEST_SIZE])
{
    SHA256_CTX inner = secret->inner, outer = secret->outer;
    (void)SHA256_Update(&inner, raw, MAC_AT);
    (void)SHA256_Update(&inner, user, strlen(user));
    (void)SHA256_Final(mac, &inner);
    (void)SHA256_Update(&outer, mac, DIGEST_SIZE);
    (void)SHA256_Final(mac, &outer);
}

static void ticket_put(unsigned char *at, size_t bytes, uint64_t number)
{
    for (size_t i = 0; i < bytes; i++)
        at[i] = (unsigned char)(number >> 8 * (bytes - 1 - i));
}

bool sk_tickets_make(const struct sk_tickets *tickets, const struct sk_ticket *ticket, char out[SK_TICKET_SIZE])
{
    unsigned char raw[RAW_SIZE], mac[DIGEST_SIZE];
    raw[KIND_AT] = (unsigned char)ticket->kind;
    raw[VERSION_AT] = VERSION;
    ticket_put(raw + EXPIRY_AT, VOUCHER_AT - EXPIRY_AT, ticket->expires_s);
    ticket_put(raw + VOUCHER_AT, OFFER_AT - VOUCHER_AT, (uint64_t)ticket->voucher_id);
    ticket_put(raw + OFFER_AT, MAC_AT - OFFER_AT, (uint64_t)ticket->offer);
    if (tickets->secrets == 0)
        return false;
    ticket_sign(&tickets->secret[0], raw, ticket->user, mac);
    memcpy(raw + MAC_AT, mac, MAC_SIZE);
    out[sk_base64url_put(raw, RAW_SIZE, out)] = '\0';
    return true;
}

static uint64_t ticket_get(const unsigned char *at, size_t bytes)
{
    uint64_t number = 0;
    for (size_t i = 0; i < bytes; i++)
        number = number << 8 | at[i];
    return number;
}

bool sk_tickets_check(const struct sk_tickets *tickets, const char *text, uint32_t now_s, struct sk_ticket *ticket)
{
    unsigned char raw[RAW_SIZE], mac[DIGEST_SIZE];
    size_t len;
    ticket->expires_s = 0;
    if (strnlen(text, SK_TICKET_SIZE) != SK_TICKET_CHARS ||
        !sk_base64url_read(text, SK_TICKET_CHARS, raw, RAW_SIZE, &len) || raw[KIND_AT] != (unsigned char)ticket->kind ||
        raw[VERSION_AT] != VERSION ||
        ticket_get(raw + VOUCHER_AT, OFFER_AT - VOUCHER_AT) != (uint64_t)ticket->voucher_id)
        return false;
    ticket->expires_s = (uint32_t)ticket_get(raw + EXPIRY_AT, VOUCHER_AT - EXPIRY_AT);
    ticket->offer = (int64_t)ticket_get(raw + OFFER_AT, MAC_AT - OFFER_AT);
    bool good = false;
    for (unsigned i = 0; ticket->expires_s > now_s && i < tickets->secrets && !good; i++) {
        ticket_sign(&tickets->secret[i], raw, ticket->user, mac);
        good = CRYPTO_memcmp(mac, raw + MAC_AT, MAC_SIZE) == 0;
    }
    return good;
}

bool sk_work_done(const char *challenge, const char *nonce, unsigned bits)
{
    unsigned char digest[DIGEST_SIZE];
    SHA256_CTX text;
    (void)SHA256_Init(&text);
    (void)SHA256_Update(&text, challenge, strlen(challenge));
    (void)SHA256_Update(&text, ".", 1);
    (void)SHA256_Update(&text, nonce, strlen(nonce));
    (void)SHA256_Final(digest, &text);
    return bits <= SK_WORK_BITS_MAX && (bits == 0 || ticket_get(digest, 4) >> (32 - bits) == 0);
}

// ---- numbers ----
