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

/* A `promote` entry (line.pml): one at a time in this model. */
#ifdef LINE
bit p_noted, s_p_noted;
byte p_epoch, s_p_epoch;
byte p_number; /* its journal id */
#define NO_PROMOTION (!p_noted)

/* An heir's field may still be taken: by an order of its user that is refused, or one of before. Then nothing is done yet. */
#ifdef BREAK_PROMOTE_TAKEN
#define MAY_INSTALL(heir) true
#else
#define MAY_INSTALL(heir) (buyer[owner[heir]] == 0 || buyer[owner[heir]] == heir)
#endif

/* A return of an order that got its unit so waits for the entry that gives it, unless Redis has it already. */
#ifdef BREAK_HEIR_CHAIN
#define CAME_BEFORE(id) true
#else
#define CAME_BEFORE(id) (!promoted[id] || buyer[owner[id]] == id || !EARLIER(id))
#endif
#define EARLIER(id) (before[id] == 0 -> p_noted && p_heirs[p_number] == id : noted[ENTRY(before[id], CANCEL)])
#define MAY_SETTLE(id) (CAME_BEFORE(id) && (buyer[owner[id]] != id || heir == 0 || MAY_INSTALL(heir)))
#define HAS_ENDED(heir) (heir != 0 && !IS_LIVE(heir))
#else
#define NO_PROMOTION true
#define MAY_SETTLE(id) true
#endif

#ifdef BREAK_RUN
#define CAN_SELL (r_state == OPEN)
#else
#define CAN_SELL (r_state == OPEN && opened == process)
#endif
#define CAN_RECOVER (r_state == OPEN && opened == process && !NO_JOURNAL)
#define NO_PURCHASES (!journal[1] && !journal[2])
#define NO_JOURNAL   (NO_PURCHASES && NO_RETURNS && NO_PROMOTION)
#define IS_RETIRED  (RETIRED_IN_PG && r_state == AT_AN_END && opened == process)

/* An order that is granted again has another entry, which stays when the first is dropped. Without returns and a scope the
 * model may treat both as one: a live order needs neither. */
#if RETURNS > 0 || OTHERS > 0 || defined(LINE)
byte j_number[IDS];
#define NEW_NUMBER(id)   j_number[id]++
#if defined(KEEPS) || defined(LINE)
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
