// What this service signs for its own clients, so that it can check it later without asking anything: tickets, which a
// purchase of some vouchers needs, and challenges, which a ticket may take work for.
//
// Both have one form, 38 bytes as 51 characters of base64url (RFC 4648 5, without padding), numbers with the highest
// byte first:
//
//   kind 1 | version 1 | expiry, Unix seconds 4 | voucher 8 | offer 8 | MAC 16
//
// MAC: the first 16 bytes of HMAC-SHA256, under the secret, of all that is before it and the user's id behind that. So
// it is bound to its user, who is not in it, and the kind says what it is for: one is never taken for another.
//
// The work: a nonce of which SHA-256(challenge "." nonce) begins with so many bits 0.
#ifndef SK_IDENTITY_TICKET_H
#define SK_IDENTITY_TICKET_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "identity_options.h"

enum sk_ticket_kind {
    SK_TICKET_PURCHASE = 1,
    SK_TICKET_PLACE = 2, // kept for a place in a waiting room
    SK_TICKET_CHALLENGE = 3,
};

enum { SK_TICKET_CHARS = 51, SK_TICKET_SIZE = SK_TICKET_CHARS + 1, SK_WORK_BITS_MAX = 24 };

struct sk_ticket {
    enum sk_ticket_kind kind;
    int64_t voucher_id;
    const char *user;   // borrowed
    int64_t offer;      // of the voucher, when it was made
    uint32_t expires_s; // Unix seconds: from then on it is none
};

struct sk_tickets;

// One thread, as sk_tickets_close; all others any. The configuration's ticket_secret: one line, or two: what is made is
// signed with the first, and what either has signed is good. NULL: a line is wrong, which is said on `err`, or out of
// memory.
struct sk_tickets *sk_tickets_open(const struct sk_identity_options *options, FILE *err);
void sk_tickets_close(struct sk_tickets *tickets); // NULL is fine

// Whether there is a secret. Without one nothing is made, and nothing is good.
bool sk_tickets_on(const struct sk_tickets *tickets);

// False: there is no secret.
bool sk_tickets_make(const struct sk_tickets *tickets, const struct sk_ticket *ticket, char out[SK_TICKET_SIZE]);

// Whether the text is one of the ticket's kind, for its voucher and its user, and has not expired. If so fills in the
// rest; whether the offer is still the voucher's is the caller's to say. expires_s is also that of a text which only
// says so, and 0 if it says nothing of the kind. Allocates nothing.
bool sk_tickets_check(const struct sk_tickets *tickets, const char *text, uint32_t now_s, struct sk_ticket *ticket);

// Whether the nonce solves the challenge, which is checked apart.
bool sk_work_done(const char *challenge, const char *nonce, unsigned bits);

#endif
