// Tickets and challenges: only one made for this kind, voucher and user that has not expired is valid. The format is
// part of the interface, so a ticket made by another implementation is included.
#include <ctype.h>
#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"
#include "ticket.h"

#define SECRET    "0123456789abcdef"
#define OLD       "an older secret of the same"
#define TICKET    "AQFrSdIAAAAAAAAAAAcAAAAAAAAABfNkN2HqpQvBW3YLcZcSgYI"
#define CHALLENGE "AwFrSdIAAAAAAAAAAAcAAAAAAAAABXTQVR7g8fS8mJWyq-eFIH4"
#define DIGITS    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

enum { NOW_S = 1799999999, EXPIRY_S = 1800000000, VOUCHER = 7, OFFER = 5, RAW_SIZE = 38, SIGNED_SIZE = 22 };

static struct sk_tickets *tickets;
static char said[128];

// NULL: rejected.
static struct sk_tickets *open_with(const char *secret)
{
    struct sk_identity_options options = {0};
    FILE *err = fmemopen(said, sizeof said, "w");
    options.ticket_secret = secret == NULL ? NULL : strdup(secret);
    struct sk_tickets *opened = sk_tickets_open(&options, err);
    (void)fclose(err);
    free(options.ticket_secret);
    return opened;
}

static void setup(void)
{
    tickets = open_with(SECRET);
    ck_assert_ptr_nonnull(tickets);
}

static void teardown(void)
{
    sk_tickets_close(tickets);
}

static struct sk_ticket wanted(void)
{
    return (struct sk_ticket){.kind = SK_TICKET_PURCHASE, .voucher_id = VOUCHER, .user = "alice"};
}

static bool is_good(const char *text)
{
    struct sk_ticket ticket = wanted();
    return sk_tickets_check(tickets, text, NOW_S, &ticket);
}

static void make(struct sk_tickets *by, enum sk_ticket_kind kind, int64_t voucher_id, const char *user,
                 char out[SK_TICKET_SIZE])
{
    const struct sk_ticket ticket = {
        .kind = kind, .voucher_id = voucher_id, .user = user, .offer = OFFER, .expires_s = EXPIRY_S};
    ck_assert(sk_tickets_make(by, &ticket, out));
    ck_assert_uint_eq(strlen(out), SK_TICKET_CHARS);
    ck_assert_uint_eq(strspn(out, DIGITS), SK_TICKET_CHARS);
}

// ---- the form ----

TEST(the_form_is_the_one_that_is_written_down)
{
    char made[SK_TICKET_SIZE];
    struct sk_ticket ticket = wanted();
    make(tickets, SK_TICKET_PURCHASE, VOUCHER, "alice", made);
    ck_assert_str_eq(made, TICKET);
    make(tickets, SK_TICKET_CHALLENGE, VOUCHER, "alice", made);
    ck_assert_str_eq(made, CHALLENGE);
    ck_assert(sk_tickets_check(tickets, TICKET, NOW_S, &ticket));
    ck_assert_int_eq(ticket.offer, OFFER);
    ck_assert_uint_eq(ticket.expires_s, EXPIRY_S);
}

static int digit_of(char c)
{
    return (int)(strchr(DIGITS, c) - DIGITS);
}

static void read_raw(const char *text, unsigned char raw[RAW_SIZE])
{
    for (int bit = 0; bit < RAW_SIZE * 8; bit++) {
        int on = digit_of(text[bit / 6]) >> (5 - bit % 6) & 1;
        raw[bit / 8] = (unsigned char)((raw[bit / 8] & ~(1 << (7 - bit % 8))) | on << (7 - bit % 8));
    }
}

// ticket.c builds HMAC itself: for secrets of every length it must equal OpenSSL's.
TEST(the_mac_is_hmac_sha256)
{
    char secret[201] = "", made[SK_TICKET_SIZE];
    for (size_t len = 1; len < sizeof secret; len++) {
        unsigned char raw[RAW_SIZE], text[SIGNED_SIZE + sizeof "bob"], mac[EVP_MAX_MD_SIZE];
        unsigned mac_len = 0;
        secret[len - 1] = (char)('!' + len % 90);
        struct sk_tickets *by = open_with(secret);
        ck_assert_int_eq(by != NULL, len >= 16);
        if (by == NULL)
            continue;
        make(by, SK_TICKET_PURCHASE, INT64_MAX, "bob", made);
        read_raw(made, raw);
        memcpy(text, raw, SIGNED_SIZE);
        memcpy(text + SIGNED_SIZE, "bob", sizeof "bob");
        ck_assert_ptr_nonnull(HMAC(EVP_sha256(), secret, (int)len, text, sizeof text - 1, mac, &mac_len));
        ck_assert_mem_eq(raw + SIGNED_SIZE, mac, RAW_SIZE - SIGNED_SIZE);
        sk_tickets_close(by);
    }
}

// ---- invalid tickets ----

TEST(only_its_user_its_voucher_and_its_kind)
{
    static const struct {
        enum sk_ticket_kind kind;
        int64_t voucher_id;
        const char *user, *text;
        uint32_t now_s;
        bool good;
    } rows[] = {
        {SK_TICKET_PURCHASE, VOUCHER, "alice", TICKET, NOW_S, true},
        {SK_TICKET_PURCHASE, VOUCHER, "alicf", TICKET, NOW_S, false},
        {SK_TICKET_PURCHASE, VOUCHER, "alice2", TICKET, NOW_S, false},
        {SK_TICKET_PURCHASE, VOUCHER, "", TICKET, NOW_S, false},
        {SK_TICKET_PURCHASE, VOUCHER + 1, "alice", TICKET, NOW_S, false},
        {SK_TICKET_PURCHASE, VOUCHER, "alice", CHALLENGE, NOW_S, false},
        {SK_TICKET_CHALLENGE, VOUCHER, "alice", CHALLENGE, NOW_S, true},
        {SK_TICKET_CHALLENGE, VOUCHER, "alice", TICKET, NOW_S, false},
        {SK_TICKET_PLACE, VOUCHER, "alice", TICKET, NOW_S, false},
        // it expires
        {SK_TICKET_PURCHASE, VOUCHER, "alice", TICKET, 0, true},
        {SK_TICKET_PURCHASE, VOUCHER, "alice", TICKET, EXPIRY_S - 1, true},
        {SK_TICKET_PURCHASE, VOUCHER, "alice", TICKET, EXPIRY_S, false},
        {SK_TICKET_PURCHASE, VOUCHER, "alice", TICKET, UINT32_MAX, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct sk_ticket ticket = {.kind = rows[i].kind, .voucher_id = rows[i].voucher_id, .user = rows[i].user};
        ck_assert_msg(sk_tickets_check(tickets, rows[i].text, rows[i].now_s, &ticket) == rows[i].good, "row %zu", i);
    }
}

// Every other character at every place: so each bit, each byte, and the unused bits.
TEST(no_other_text_is_good)
{
    char text[SK_TICKET_SIZE];
    int tried = 0;
    for (size_t i = 0; i < SK_TICKET_CHARS; i++) {
        for (int c = 1; c < 256; c++) {
            memcpy(text, TICKET, sizeof text);
            if ((char)c == text[i])
                continue;
            text[i] = (char)c;
            ck_assert_msg(!is_good(text), "%s", text);
            tried++;
        }
    }
    ck_assert_int_eq(tried, SK_TICKET_CHARS * 254);
}

TEST(no_part_of_it_is_good_and_nothing_longer)
{
    static const char *const others[] = {
        "", " ", TICKET "=", TICKET "A", TICKET " ", " " TICKET, TICKET TICKET, TICKET "\n",
        // A JSON web token.
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhbGljZSIsImV4cCI6MTgwMDAwMDAwMH0."
        "XbPfbIHMI6arZ3Y922BhjWgQzWXcXNrz0ogtVhfEd2o",
        "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbGljZSJ9.eyJhbGciO"};
    char text[SK_TICKET_SIZE];
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        ck_assert_msg(!is_good(others[i]), "%s", others[i]);
    for (size_t len = 0; len < SK_TICKET_CHARS; len++) {
        (void)snprintf(text, sizeof text, "%.*s", (int)len, TICKET);
        ck_assert(!is_good(text));
        ck_assert(!is_good(TICKET + SK_TICKET_CHARS - len));
    }
}

// ---- secrets ----

TEST(two_secrets_while_one_takes_over)
{
    char made[SK_TICKET_SIZE], by_other[SK_TICKET_SIZE];
    struct sk_tickets *old = open_with(OLD);
    make(old, SK_TICKET_PURCHASE, VOUCHER, "alice", by_other);
    ck_assert(!is_good(by_other));
    sk_tickets_close(tickets);
    tickets = open_with(OLD "\n" SECRET "\r\n");
    make(tickets, SK_TICKET_PURCHASE, VOUCHER, "alice", made);
    ck_assert_str_eq(made, by_other); // signed with the first secret
    ck_assert(is_good(made));
    ck_assert(is_good(TICKET));
    sk_tickets_close(old);
}

TEST(secrets_that_are_wrong)
{
    static const char *const wrong[] = {SECRET "\n\n", SECRET "\nshort", "\n" SECRET, SECRET "\n" OLD "\n" SECRET,
                                        // too short, or none
                                        "0123456789abcde\r\n", "0123456789abcde", "\n", ""};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        ck_assert_ptr_null(open_with(wrong[i]));
        ck_assert_msg(strncmp(said, "seckill: SECKILL_TICKET_SECRET: ", 32) == 0, "%s", said);
        ck_assert_ptr_null(strstr(said, "0123")); // nothing of the secret
    }
}

TEST(without_a_secret_nothing_is_good)
{
    char made[SK_TICKET_SIZE];
    const struct sk_ticket ticket = wanted();
    sk_tickets_close(tickets);
    tickets = open_with(NULL);
    ck_assert(!sk_tickets_on(tickets));
    ck_assert(!sk_tickets_make(tickets, &ticket, made));
    ck_assert(!is_good(TICKET));
    sk_tickets_close(tickets);
    tickets = open_with(SECRET);
    ck_assert(sk_tickets_on(tickets));
}

// ---- the work ----

// The nonces come from another implementation; each SHA-256 begins with exactly this many zero bits.
TEST(work_is_counted_in_bits)
{
    static const struct {
        const char *nonce;
        unsigned bits;
    } rows[] = {{"1", 0},       {"7", 1},     {"15", 2},      {"12", 3},      {"0", 4},
                {"14", 5},      {"204", 6},   {"176", 7},     {"6", 8},       {"225", 9},
                {"41", 10},     {"1188", 11}, {"4856", 12},   {"8609", 13},   {"27038", 14},
                {"107886", 15}, {"3745", 16}, {"330862", 17}, {"319331", 19}, {"784509", 23}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (unsigned bits = 0; bits <= SK_WORK_BITS_MAX; bits++)
            ck_assert_msg(sk_work_done(CHALLENGE, rows[i].nonce, bits) == (bits <= rows[i].bits), "%s, %u",
                          rows[i].nonce, bits);
    }
    ck_assert(!sk_work_done(CHALLENGE, "784509", SK_WORK_BITS_MAX + 1));
    ck_assert(!sk_work_done(TICKET, "784509", 23));
    ck_assert(!sk_work_done(CHALLENGE, "0784509", 23));
    ck_assert(!sk_work_done(CHALLENGE, "", 23));
}

// ---- memory ----

static long allocations;

static void *count_malloc(size_t n, const char *file, int line)
{
    (void)file;
    (void)line;
    allocations++;
    return malloc(n);
}

static void *count_realloc(void *old, size_t n, const char *file, int line)
{
    (void)file;
    (void)line;
    allocations++;
    return realloc(old, n);
}

static void count_free(void *old, const char *file, int line)
{
    (void)file;
    (void)line;
    free(old);
}

TEST(checking_allocates_nothing)
{
    char made[SK_TICKET_SIZE];
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned len;
    ck_assert_ptr_nonnull(HMAC(EVP_sha256(), SECRET, sizeof SECRET - 1, mac, 0, mac, &len));
    long before = allocations;
    ck_assert_int_gt(before, 0); // allocations are counted, and there were some
    for (int i = 0; i < 100; i++) {
        ck_assert(is_good(TICKET));
        ck_assert(!is_good(CHALLENGE));
        ck_assert(sk_work_done(CHALLENGE, "41", 10));
        make(tickets, SK_TICKET_PURCHASE, VOUCHER, "alice", made);
    }
    ck_assert_int_eq(allocations, before);
}

static void begin(void)
{
    ck_assert_int_eq(CRYPTO_set_mem_functions(count_malloc, count_realloc, count_free), 1);
}

SUITE(.begin = begin, .setup = setup, .teardown = teardown);
