/* PostgreSQL: its data and its functions. Each function is one statement and one commit. */

#define UNKNOWN   0
#define UNPAID    1
#define PAID      2
#define REFUSED   3
#define NO_UNIT   4 /* refused, because there was no unit */
#define CANCELLED 5 /* was live: cancelled, expired or refunded, and its unit returned */
#define UNIT_GONE 6 /* was live: refunded, and its unit did not return */
#define PASSED    7 /* was live: its unit went to the next in line */
#define IS_LIVE(id) (status[id] == UNPAID || status[id] == PAID)
byte pg_stock = UNITS;
byte pg_epoch = 1;
byte status[IDS];
byte owner[IDS];  /* the user of an order */
byte live[USERS]; /* their live order */
#if defined(KEEPS) || defined(LINE)
byte gone_epoch[IDS];  /* for those two: the epoch of the return's entry; 0: a reconcile settled it */
byte gone_number[IDS]; /* ... and the newest purchase's entry at the refund */
#endif
#ifdef RETIRES
bit pg_retired;
#define RETIRED_IN_PG pg_retired
#else
#define RETIRED_IN_PG false
#endif

#define PLACED    1
#define DUPLICATE 2
#define SOLD_OUT  3
#define STALE     4
#define ENDED     5
#define RETURNED  6
#define NOT_MOVED 7
#define GONE      8

/* The answer for an order that had ended before this call. Redis may have granted it again since: then the unit returns,
 * unless the order never had one and PostgreSQL has none now that it could be. If the unit is gone, a unit granted after
 * the refund returns, and the refund takes care of an earlier one.
 * ENDED_RETURNS is the simpler rule, right only while Redis never goes backwards unnoticed. */
#define NONE_FOR_IT(id) (status[id] == NO_UNIT && pg_stock == 0)
#if defined(BREAK_ENDED_KEEPS)
#define ENDED_BEFORE (status[id] == CANCELLED && pg_stock > 0 -> ENDED : SOLD_OUT)
#elif defined(BREAK_ENDED_BY_STOCK)
#define ENDED_BEFORE (pg_stock > 0 -> ENDED : SOLD_OUT)
#elif defined(ENDED_RETURNS)
#define ENDED_BEFORE ENDED
#else
#define ENDED_BEFORE (NONE_FOR_IT(id) -> SOLD_OUT : ENDED)
#endif

/* The user's live order may end before this answer reaches Redis: the field is deleted, not given to that order. Only the
 * order for which this one was refused gets it. */
#if defined(BREAK_INSTEAD)
#define NONE_INSTEAD skip
#elif defined(BREAK_INSTEAD_REFUSED)
#define NONE_INSTEAD instead = (status[id] >= CANCELLED -> 0 : instead)
#else
byte refused_for[IDS]; /* the order that was live then */
#define REFUSED_FOR(id, other) refused_for[id] = other
#define NONE_INSTEAD instead = (instead == refused_for[id] -> instead : 0)
#endif
#ifndef REFUSED_FOR
#define REFUSED_FOR(id, other) skip
#endif

/* P1, by PostgreSQL's own counts */
#define assert_books() \
	assert(pg_stock + IS_LIVE(1) + IS_LIVE(2) + (status[1] == UNIT_GONE) + (status[2] == UNIT_GONE) == UNITS)

/* Orders that wait in the line: line.pml */
#ifdef LINE
byte line[USERS];   /* the user's order that waits; 0: none */
byte heir_of[IDS];  /* the order that got its unit; 0: none */
bit promoted[IDS];  /* it waited once */
byte before[IDS];   /* whose unit it got; 0: one that a script took */
#define PROMOTES 4
byte p_last;        /* the newest `promote` entry that was carried out */
byte p_heirs[PROMOTES]; /* who got the unit of each; 0: nobody */
#define WAITS(user)    (line[user] != 0)
#define SOMEONE_WAITS  (line[0] != 0 || line[1] != 0)
#define NEXT_IN_LINE   (line[0] != 0 && (line[1] == 0 || line[0] < line[1]) -> line[0] : line[1])

/* Who has the unit by now: an heir that has ended has passed it on, or it has returned to the stock. */
inline last_heir(heir)
{
	do
	:: heir != 0 && status[heir] == PASSED -> heir = heir_of[heir]
	:: heir != 0 && status[heir] >= CANCELLED && status[heir] != PASSED -> heir = 0; break
	:: else -> break
	od
}

/* part of a step of PostgreSQL */
inline give_to_next(heir)
{
	heir = NEXT_IN_LINE;
	line[owner[heir]] = 0; status[heir] = UNPAID; promoted[heir] = 1;
	assert(live[owner[heir]] == 0); /* P2 */
	live[owner[heir]] = heir
}
#else
#define WAITS(user) false
#endif

/* The unique index of live orders: one of a user in the scope, which is this voucher and others (scope.pml). */
#if OTHERS > 0
bit elsewhere; /* user 0 has a live order of another voucher in the scope */
#define IS_ELSEWHERE(user) (user == 0 && elsewhere)
#define assert_one_in_scope() assert(!(live[0] != 0 && elsewhere))
#else
#define IS_ELSEWHERE(user) false
#define assert_one_in_scope() skip
#endif
#ifdef BREAK_SCOPE_INDEX
#define HAS_LIVE(user) (live[user] != 0)
#else
#define HAS_LIVE(user) (live[user] != 0 || WAITS(user) || IS_ELSEWHERE(user))
#endif

/* An order of another voucher never gets into the buyers of this one, and its unit returns. */
#ifdef BREAK_SCOPE_FIELD
#define LIVE_OF(user) (IS_ELSEWHERE(user) -> IDS : live[user])
#elif defined(LINE) && !defined(BREAK_HEIR_NAMED) /* nor does one that waited: its own entry brings it */
#define LIVE_OF(user) (promoted[live[user]] -> 0 : live[user])
#else
#define LIVE_OF(user) live[user]
#endif
#ifdef BREAK_SCOPE_UNIT
#define REFUSED_FOR_LIVE(user) (IS_ELSEWHERE(user) -> SOLD_OUT : DUPLICATE)
#else
#define REFUSED_FOR_LIVE(user) DUPLICATE
#endif

/* place_orders() */
inline pg_place(id, epoch, outcome, instead)
{
	instead = 0;
	if
#ifndef BREAK_EPOCH
	:: epoch != pg_epoch -> outcome = STALE
#endif
	:: else ->
		instead = LIVE_OF(owner[id]);
		if
		:: IS_LIVE(id) -> outcome = PLACED; MET(7, true)
#if defined(BREAK_CANCELLED)
		:: status[id] == CANCELLED -> outcome = PLACED
		:: status[id] == REFUSED || status[id] == NO_UNIT -> outcome = ENDED_BEFORE; NONE_INSTEAD
#elif defined(BREAK_REVIVE)
		:: status[id] == REFUSED || status[id] == NO_UNIT -> outcome = ENDED_BEFORE; NONE_INSTEAD
#else
		:: status[id] >= REFUSED && status[id] < UNIT_GONE -> outcome = ENDED_BEFORE; NONE_INSTEAD
#ifdef BREAK_PASSED_RETURNS
		:: status[id] == PASSED -> outcome = ENDED_BEFORE; NONE_INSTEAD
		:: status[id] == UNIT_GONE -> outcome = GONE; NONE_INSTEAD
#else
		:: status[id] >= UNIT_GONE -> outcome = GONE; NONE_INSTEAD
#endif
#endif
#ifndef BREAK_UNIQUE
		:: status[id] == UNKNOWN && HAS_LIVE(owner[id]) ->
			MET(2, live[owner[id]] != 0);
#if OTHERS > 0
			MET(SCOPE_REFUSES, IS_ELSEWHERE(owner[id]));
#endif
			status[id] = REFUSED; REFUSED_FOR(id, instead); outcome = REFUSED_FOR_LIVE(owner[id])
#endif
		:: else ->
			assert(status[id] == UNKNOWN); /* P2: an ended order never becomes live again */
			if
			:: pg_stock == 0 -> status[id] = NO_UNIT; outcome = SOLD_OUT
			:: else ->
				assert(live[owner[id]] == 0); /* P2 */
				assert(!RETIRED_IN_PG);       /* a retired voucher sells nothing */
				pg_stock--; status[id] = UNPAID; outcome = PLACED;
				live[owner[id]] = id;
				assert_one_in_scope() /* P2 */
			fi
		fi
	fi
}

/* refuse_orders(): an order known to PostgreSQL does not change */
inline pg_refuse(id)
{
	if
	:: status[id] == UNKNOWN -> status[id] = REFUSED; MET(RETIRE, RETIRED_IN_PG)
	:: else
	fi
}
