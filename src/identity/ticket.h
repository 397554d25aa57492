// Texts that this service signs for its own clients, so that it can check them later without a query: tickets, which a
// purchase of some vouchers needs, and challenges, for the work that a ticket may require.
//
// Both have one form, 38 bytes as 51 characters of base64url (RFC 4648 5, without padding), numbers with the highest
// byte first:
//
//   kind 1 | version 1 | expiry, Unix seconds 4 | voucher 8 | offer 8 | MAC 16
//
// MAC: the first 16 bytes of HMAC-SHA256, under the secret, of all bytes before it, followed by the user's id. So a
// ticket is bound to its user, whose id is not in it. The kind states its purpose, so one kind never counts as another.
//
// The work: a nonce for which SHA-256(challenge "." nonce) begins with the required number of zero bits.
#ifndef SK_IDENTITY_TICKET_H
#define SK_IDENTITY_TICKET_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "identity_options.h"

enum sk_ticket_kind {
    SK_TICKET_PURCHASE = 1,
    SK_TICKET_PLACE = 2, // reserved for a place in a waiting room
    SK_TICKET_CHALLENGE = 3,
};

enum { SK_TICKET_CHARS = 51, SK_TICKET_SIZE = SK_TICKET_CHARS + 1, SK_WORK_BITS_MAX = 24 };

struct sk_ticket {
    enum sk_ticket_kind kind;
    int64_t voucher_id;
    const char *user;   // borrowed
    int64_t offer;      // the voucher's offer when the ticket was made
    uint32_t expires_s; // Unix seconds: invalid from then on
};

struct sk_tickets;

// One thread, as sk_tickets_close; all others: any thread. The configuration's ticket_secret has one or two lines. New
// tickets are signed with the first; a signature of either is valid. NULL: a line is wrong, which is printed on `err`,
// or out of memory.
struct sk_tickets *sk_tickets_open(const struct sk_identity_options *options, FILE *err);
void sk_tickets_close(struct sk_tickets *tickets); // NULL is fine

// Whether there is a secret. Without one no ticket is made, and none is valid.
bool sk_tickets_on(const struct sk_tickets *tickets);

// False: there is no secret.
bool sk_tickets_make(const struct sk_tickets *tickets, const struct sk_ticket *ticket, char out[SK_TICKET_SIZE]);

// Whether the text is valid for the ticket's kind, voucher and user, and has not expired. If so, fills in the rest; the
// caller checks whether the offer is still the voucher's. expires_s is also set if only the MAC is wrong, and is 0 if
// the text has another form, kind or voucher. Allocates nothing.
bool sk_tickets_check(const struct sk_tickets *tickets, const char *text, uint32_t now_s, struct sk_ticket *ticket);

// Whether the nonce solves the challenge, which is checked separately.
bool sk_work_done(const char *challenge, const char *nonce, unsigned bits);

#endif
