/* The answers to clients, and the losses: the model's own records, which no part of the service can read. */

/* Where a promise is tested: pan prints its letter the first time. A promise that is never tested proves nothing. */
#define SESSION_GONE 8
#define CLAIMED      9
#define ORPHAN       10
#define RETIRE       11
#define MAYBE        12
#define NOT_FOUND    13
#define RETURN       14 /* B, for back */
#define LATE_PAY     15 /* Y */
#define AWAY         16
#define IN_SCOPE     17 /* E, for elsewhere */
#define SCOPE_REFUSES 18 /* D, for duplicate */
#define PASSES_ON    19 /* H, for heir */
#define PROMOTES_ONE 20 /* P */
#define ASKS_AGAIN   21 /* W, for who has it by now */
c_decl {
	static char met[22];
}
#define MET(promise, when) \
	if \
	:: when -> c_code { if (!met[promise]) met[promise] = printf("met %c\n", "..234567SCORUNBYAEDHPW"[promise]); } \
	:: else \
	fi

bit accepted[IDS], created[IDS]; /* 202, 201 */
bit won[USERS];                  /* got 201, or ALREADY_ORDERED for a live order */
bit entry_lost[IDS];             /* Redis has lost its journal entry */
bit holder_died[IDS];            /* or gave up, because the reply was lost */
bit lost_twice[IDS]; /* both, and no other instance had it: the one case that P5 excludes */
byte holders[IDS];

/* Neither an instance nor the journal has the order any more: two faults at once. */
#define NOTE_LOST_TWICE(id) \
	if \
	:: status[id] == UNKNOWN && holders[id] == 0 && !journal[id] && entry_lost[id] && holder_died[id] -> lost_twice[id] = 1 \
	:: else \
	fi
