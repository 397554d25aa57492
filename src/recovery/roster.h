// Which instances the living sessions belong to, for people. Each session writes it into a hash of Redis after it was
// taken, and then once a minute, so that lost entries come back. Nothing depends on it.
//
// The reactor's thread, as all functions.
#ifndef SK_RECOVERY_ROSTER_H
#define SK_RECOVERY_ROSTER_H

#include "sale.h"

struct sk_roster;

// NULL: out of memory.
struct sk_roster *sk_roster_open(const struct sk_sale *sale);
void sk_roster_close(struct sk_roster *roster); // after the links were closed; NULL is fine

// The text of a session: "version start ttl name", with blanks between. Times in ms, the start as Unix time; the name
// is the machine's with the port that it listens on.
enum { SK_ROSTER_WORD_MAX = 79 }; // of version and name, characters

struct sk_rostered {
    char version[SK_ROSTER_WORD_MAX + 1], name[SK_ROSTER_WORD_MAX + 1]; // of A-Z a-z 0-9 . _ : + ~ -
    uint64_t started_ms, ttl_ms;
};

// Any thread, as both. The name of the instance that listens there; NULL: without a port.
void sk_roster_name(const char *listen, char name[SK_ROSTER_WORD_MAX + 1]);
// Takes the next word off a text of such words; returns what follows it and a blank. NULL: it is not valid.
const char *sk_roster_word(const char *text, char word[SK_ROSTER_WORD_MAX + 1]);

// Any thread. False: the text is not valid.
bool sk_roster_read(const char *text, struct sk_rostered *rostered);

#endif
