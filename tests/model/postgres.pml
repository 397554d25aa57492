/* PostgreSQL: what it knows, and its functions. Each is one statement and one commit. */

#define UNKNOWN   0
#define LIVE      1
#define REFUSED   2
#define NO_UNIT   3 /* refused, because there was no unit */
#define CANCELLED 4
byte pg_stock = UNITS;
byte pg_epoch = 1;
byte status[IDS];
byte owner[IDS];  /* the user of an order */
byte live[USERS]; /* their live order */
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

/* The answer for an order that had ended before this call. Redis may have granted it once more since: then the unit
 * returns, unless PostgreSQL has none that it could be. ENDED_RETURNS is the simpler rule, right only while Redis never
 * goes backwards unnoticed. */
#if defined(BREAK_ENDED_KEEPS)
#define ENDED_BEFORE (status[id] == CANCELLED && pg_stock > 0 -> ENDED : SOLD_OUT)
#elif defined(ENDED_RETURNS)
#define ENDED_BEFORE ENDED
#else
#define ENDED_BEFORE (pg_stock > 0 -> ENDED : SOLD_OUT)
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
		instead = live[owner[id]];
		if
		:: status[id] == LIVE -> outcome = PLACED; MET(7, true)
#if defined(BREAK_CANCELLED)
		:: status[id] == CANCELLED -> outcome = PLACED
		:: status[id] == REFUSED || status[id] == NO_UNIT -> outcome = ENDED_BEFORE
#elif defined(BREAK_REVIVE)
		:: status[id] == REFUSED || status[id] == NO_UNIT -> outcome = ENDED_BEFORE
#else
		:: status[id] >= REFUSED -> outcome = ENDED_BEFORE
#endif
#ifndef BREAK_UNIQUE
		:: status[id] == UNKNOWN && live[owner[id]] != 0 ->
			MET(2, true);
			status[id] = REFUSED; outcome = DUPLICATE
#endif
		:: else ->
			assert(status[id] == UNKNOWN); /* P2: an order that has ended does not live again */
			if
			:: pg_stock == 0 -> status[id] = NO_UNIT; outcome = SOLD_OUT
			:: else ->
				assert(live[owner[id]] == 0); /* P2 */
				assert(!RETIRED_IN_PG);       /* a retired voucher sells nothing */
				pg_stock--; status[id] = LIVE; outcome = PLACED;
				live[owner[id]] = id
			fi
		fi
	fi
}

/* refuse_orders(): an order that PostgreSQL knows stays what it is */
inline pg_refuse(id)
{
	if
	:: status[id] == UNKNOWN -> status[id] = REFUSED; MET(RETIRE, RETIRED_IN_PG)
	:: else
	fi
}
