// A client's ticket, the work for it, and the configured secrets. Only the ticket made for exactly this purpose is
// valid, and flipping a bit makes it invalid.
#include <stdio.h>

#include "fuzz.h"
#include "ticket.h"

#define SECRET "0123456789abcdef"

enum { NOW_S = 1800000000, USER_MAX = 64, SAID_SIZE = 128, SECRET_MIN = 16 };

static struct sk_tickets *open_with(char *secret, char said[SAID_SIZE])
{
    struct sk_identity_options options = {0};
    options.ticket_secret = secret;
    FILE *err = fmemopen(said, SAID_SIZE, "w");
    MUST(err != NULL);
    struct sk_tickets *tickets = sk_tickets_open(&options, err);
    (void)fclose(err);
    return tickets;
}

// A valid text is the only one for its ticket.
static void must_be_the_one(struct sk_tickets *tickets, const char *text, enum sk_ticket_kind kind)
{
    struct sk_ticket ticket = {.kind = kind, .voucher_id = 7, .user = "alice"};
    char again[SK_TICKET_SIZE];
    if (!sk_tickets_check(tickets, text, NOW_S, &ticket))
        return;
    MUST(ticket.expires_s > NOW_S && sk_tickets_make(tickets, &ticket, again));
    MUST(strcmp(again, text) == 0);
}

static void must_be_good_once(struct sk_tickets *tickets, const uint8_t *data, size_t size)
{
    uint64_t number = 0;
    char user[USER_MAX + 1] = "", made[SK_TICKET_SIZE];
    for (size_t i = 0; i < size; i++)
        number = number * 131 + data[i];
    memcpy(user, data, size < USER_MAX ? size : USER_MAX);
    struct sk_ticket ticket = {.kind = number % 2 == 0 ? SK_TICKET_PURCHASE : SK_TICKET_CHALLENGE,
                               .voucher_id = (int64_t)(number >> 1),
                               .user = user,
                               .offer = (int64_t)(number >> 33),
                               .expires_s = NOW_S + 1 + (uint32_t)(number & 0xffff)};
    struct sk_ticket read = {.kind = ticket.kind, .voucher_id = ticket.voucher_id, .user = user};
    MUST(sk_tickets_make(tickets, &ticket, made));
    MUST(sk_tickets_check(tickets, made, NOW_S, &read));
    MUST(read.offer == ticket.offer && read.expires_s == ticket.expires_s);
    MUST(!sk_tickets_check(tickets, made, ticket.expires_s, &read));
    char *wrong = &made[number % SK_TICKET_CHARS];
    *wrong = (char)(*wrong ^ 1 << number % 7);
    MUST(!sk_tickets_check(tickets, made, NOW_S, &read));
}

static void must_be_work(const char *text)
{
    bool before = true;
    for (unsigned bits = 0; bits <= SK_WORK_BITS_MAX + 1; bits++) {
        bool solved = sk_work_done(text, text, bits);
        MUST(before || !solved);
        before = solved;
    }
    MUST(!before && sk_work_done(text, text, 0));
}

static void must_be_secrets(char *lines)
{
    char said[SAID_SIZE] = "";
    struct sk_tickets *tickets = open_with(lines, said);
    if (tickets == NULL) {
        MUST(strncmp(said, "seckill: SECKILL_TICKET_SECRET: ", 32) == 0 && said[strlen(said) - 1] == '\n');
        MUST(strlen(lines) < SECRET_MIN || strstr(said, lines) == NULL);
        return;
    }
    size_t first = strcspn(lines, "\n");
    MUST(sk_tickets_on(tickets) && first >= SECRET_MIN);
    must_be_good_once(tickets, (const uint8_t *)lines, first);
    sk_tickets_close(tickets);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char secret[] = SECRET, said[SAID_SIZE] = "", *text = fuzz_text(data, size);
    struct sk_tickets *tickets = open_with(secret, said);
    MUST(tickets != NULL);
    must_be_the_one(tickets, text, SK_TICKET_PURCHASE);
    must_be_the_one(tickets, text, SK_TICKET_PLACE);
    must_be_the_one(tickets, text, SK_TICKET_CHALLENGE);
    must_be_good_once(tickets, data, size);
    must_be_work(text);
    must_be_secrets(text);
    sk_tickets_close(tickets);
    free(text);
    return 0;
}
