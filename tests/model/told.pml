/* What was told to clients and what was lost: the model's own notes, which no part of the service can read. */

/* Where a promise is put to the test: pan prints its letter the first time. One that is never met proves nothing. */
#define SESSION_GONE 8
#define CLAIMED      9
#define ORPHAN       10
#define RETIRE       11
#define MAYBE        12
#define NOT_FOUND    13
#define RETURN       14 /* B, for back */
#define LATE_PAY     15 /* Y */
c_decl {
	static char met[16];
}
#define MET(promise, when) \
	if \
	:: when -> c_code { if (!met[promise]) met[promise] = printf("met %c\n", "..234567SCORUNBY"[promise]); } \
	:: else \
	fi

bit accepted[IDS], created[IDS]; /* 202, 201 */
bit won[USERS];                  /* heard 201, or ALREADY_ORDERED of a live order */
bit entry_lost[IDS];             /* Redis has lost its journal entry */
bit holder_died[IDS];            /* or gave it up, because the reply was lost */
bit lost_twice[IDS]; /* both, and no other had it: the one case that P5 leaves out */
byte holders[IDS];

/* No instance has the order any more, and no journal: two faults at once. */
#define NOTE_LOST_TWICE(id) \
	if \
	:: status[id] == UNKNOWN && holders[id] == 0 && !journal[id] && entry_lost[id] && holder_died[id] -> lost_twice[id] = 1 \
	:: else \
	fi
