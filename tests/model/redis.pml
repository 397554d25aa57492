/* Redis: its data on the voucher, and the shared parts of scripts. */

#define MISSING    0
#define LOADING    1
#define OPEN       2
#define AT_AN_END  3 /* retired: a small mark, without buyers */
byte r_state = OPEN;
byte r_epoch = 1;
byte r_stock = UNITS;
byte buyer[USERS]; /* the claim: a user's order id */
bit journal[IDS];
byte j_epoch[IDS];
byte process = 1; /* the Redis process: its run id */
byte opened = 1;  /* the process under which the voucher was opened */

/* an earlier state of Redis, to which it may return */
byte s_state = OPEN, s_epoch = 1, s_stock = UNITS, s_opened = 1;
byte s_buyer[USERS];
bit s_journal[IDS];
byte s_j_epoch[IDS];

#ifdef BREAK_RUN
#define CAN_SELL (r_state == OPEN)
#else
#define CAN_SELL (r_state == OPEN && opened == process)
#endif
#define CAN_RECOVER (r_state == OPEN && opened == process && !NO_JOURNAL)
#define NO_PURCHASES (!journal[1] && !journal[2])
#define NO_JOURNAL   (NO_PURCHASES && NO_RETURNS)
#define IS_RETIRED  (RETIRED_IN_PG && r_state == AT_AN_END && opened == process)

/* An order that is granted again has another entry, which stays when the first is dropped. Without returns and a scope the
 * model may treat both as one: a live order needs neither. */
#if RETURNS > 0 || OTHERS > 0
byte j_number[IDS];
#define NEW_NUMBER(id)   j_number[id]++
#ifdef KEEPS
#define NOTE_NUMBER      number = j_number[id]; made = j_epoch[id]
#define FORGET_NUMBER    number = 0; made = 0
#else
#define NOTE_NUMBER      number = j_number[id]
#define FORGET_NUMBER    number = 0
#endif
#define HAS_NUMBER(id)   (j_number[id] == number)
#define NUMBERS_AGAIN    j_number[1] = 0; j_number[2] = 0 /* a new process whose clock is behind */
#define STILL_OURS(mine) (r_epoch == mine)
#else
#define NEW_NUMBER(id)   skip
#define NOTE_NUMBER      skip
#define HAS_NUMBER(id)   true
#define FORGET_NUMBER    skip
#define NUMBERS_AGAIN    skip
#define STILL_OURS(mine) true
#endif

/* After a sale reopens nothing is sold until earlier cached refusals have expired, since their filters lack its next
 * buyer. Each step that reopens it records that, as reopen() of shared/voucher.lua does.
 */
#ifdef MARKS
bit marked[2];  /* an instance refuses from memory */
bit older[2];   /* ... by a refusal from before the last reopening */
bit reopened;
#define IS_HELD reopened
#define REOPEN  reopened = 1; older[0] = marked[0]; older[1] = marked[1]

/* Redis's clock: the hold ends when those refusals have expired, or later. */
proctype Hold()
{
end_over:
	do
	:: atomic { reopened && !older[0] && !older[1] -> reopened = 0 }
	od
}
#else
#define IS_HELD false
#define REOPEN  skip
#endif

#ifdef BREAK_REOPEN_UNIT
#define REOPEN_BY_UNIT skip
#else
#define REOPEN_BY_UNIT REOPEN
#endif
#ifdef BREAK_REOPEN_REBUILD
#define REOPEN_BY_REBUILD skip
#else
#define REOPEN_BY_REBUILD REOPEN
#endif
#ifdef BREAK_REOPEN_RESUME
#define REOPEN_BY_RESUME skip
#else
#define REOPEN_BY_RESUME REOPEN
#endif

inline unit_comes()
{
	if
	:: r_stock == 0 -> REOPEN_BY_UNIT
	:: else
	fi;
	r_stock++
}

/* The sale is paused and resumed; an earlier start or a later end has the same effect. */
#if RESUMES > 0
bit r_paused;
#define IS_PAUSED r_paused

proctype Operator()
{
end_rest:
	do
	:: atomic { resumes > 0 && !r_paused -> r_paused = 1 }
	:: atomic { r_paused -> resumes--; r_paused = 0; REOPEN_BY_RESUME }
	od
}
#else
#define IS_PAUSED false
#endif

/* place_orders.lua, new or again: claims the user, takes the unit, notes both in the journal */
inline redis_grant(id, user)
{
	assert_claim(id, user);
	r_stock--; buyer[user] = id; journal[id] = 1; NEW_NUMBER(id); j_epoch[id] = r_epoch; lock_name(id)
}

/* settle_entry.lua: the unit returns, and the user's other order, if any, replaces this one */
inline correct_redis(id, user, outcome, instead)
{
	buyer[user] = instead;
	if
	:: outcome == DUPLICATE || outcome == ENDED || outcome == GONE ->
		assert(RETURNS > 0 || status[id] != NO_UNIT); /* there was no unit, and none came */
		unit_comes()
	:: else
	fi
}
