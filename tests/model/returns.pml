/* Returns: a live order ends, and its unit can be bought again. A return is a journal entry, like a purchase. */

#define CANCEL 0 /* an unpaid order: by its user, or by expiry */
#define REFUND 1 /* a paid order */
#define KEEP   2 /* the same, without returning the unit */
#if PAYS > 0 && defined(KEEPS)
#define MOVES 3
#elif PAYS > 0
#define MOVES 2
#else
#define MOVES 1
#endif

#ifdef BREAK_EXPIRE_PAID
#define MAY_END(id, move) IS_LIVE(id)
#else
#define MAY_END(id, move) (status[id] == (move == CANCEL -> UNPAID : PAID))
#endif

/* Was it granted after its unit was gone? By the holder's entry: its epoch, then its number. */
#if defined(BREAK_GONE_RETURNS)
#define IS_LATE(id) true
#elif defined(BREAK_GONE_KEEPS)
#define IS_LATE(id) false
#elif defined(BREAK_GONE_NUMBER)
#define IS_LATE(id) (number > gone_number[id])
#elif MOVES > 2 || defined(LINE)
#define IS_LATE(id) (made > gone_epoch[id] || (made == gone_epoch[id] && number > gone_number[id]))
#endif

#if RETURNS > 0

/* return_orders(): the move ends the order, the order had ended before, or it does not change. `by_entry`: a refund
 * names the entry, since that one settles it in Redis; a reconcile leaves the order out */
inline pg_return(id, move, epoch, by_entry, outcome)
{
	if
#ifndef BREAK_RETURN_EPOCH
	:: epoch != (RETIRED_IN_PG -> NO_EPOCH : pg_epoch) -> outcome = STALE
#endif
	:: else ->
		if
		:: MAY_END(id, move) ->
			assert(status[id] != PAID || move != CANCEL); /* a paid order does not expire */
			status[id] = (move == KEEP -> UNIT_GONE : CANCELLED);
#if MOVES > 2
			gone_epoch[id] = (move == KEEP && by_entry -> epoch : 0);
			gone_number[id] = (move == KEEP && by_entry -> j_number[id] : 0);
#endif
			live[owner[id]] = 0; won[owner[id]] = 0;
			if
#ifdef LINE
			:: move != KEEP && SOMEONE_WAITS ->
				status[id] = PASSED;
				gone_epoch[id] = (by_entry -> epoch : 0);
				gone_number[id] = (by_entry -> j_number[id] : 0);
				give_to_next(heir_of[id]); before[heir_of[id]] = id
			:: else -> pg_stock = pg_stock + (move != KEEP)
#else
			:: true -> pg_stock = pg_stock + (move != KEEP)
#endif
			fi;
			outcome = RETURNED
		:: status[id] >= CANCELLED -> outcome = RETURNED;
#ifdef BREAK_RETURN_TWICE
			pg_stock++
#endif
		:: else -> outcome = NOT_MOVED
		fi;
#ifdef LINE
		heir = heir_of[id]; last_heir(heir);
#endif
		assert_books()
	fi
}

/* ---- Redis: the entries of returns, identified by order and move. A return noted twice is one entry here. ---- */

#define ENTRIES (2 * MOVES)
#define ENTRY(id, move) (2 * (move) + (id) - 1)
bit noted[ENTRIES], s_noted[ENTRIES];
byte n_epoch[ENTRIES], s_n_epoch[ENTRIES];
bit owed[ENTRIES]; /* only in the model: noted, and not lost with Redis's data */
byte returning;    /* orders that an instance is returning */
#define NONE_RETURNING (returning == 0)
hidden byte e;

#if MOVES == 3
#define NO_RETURNS (!noted[0] && !noted[1] && !noted[2] && !noted[3] && !noted[4] && !noted[5])
#elif MOVES == 2
#define NO_RETURNS (!noted[0] && !noted[1] && !noted[2] && !noted[3])
#else
#define NO_RETURNS (!noted[0] && !noted[1])
#endif

#define note_gone(id, move) noted[ENTRY(id, move)] = 0; n_epoch[ENTRY(id, move)] = 0

/* any of them */
inline choose_entry()
{
	if
	:: noted[0] -> e = 0
	:: noted[1] -> e = 1
#if MOVES > 1
	:: noted[2] -> e = 2
	:: noted[3] -> e = 3
#endif
#if MOVES > 2
	:: noted[4] -> e = 4
	:: noted[5] -> e = 5
#endif
	fi
}

inline read_entry() { choose_entry(); id = 1 + e % 2; move = e / 2 }

inline returns_saved()
{
	e = 0;
	do
	:: e < ENTRIES -> s_noted[e] = noted[e]; s_n_epoch[e] = n_epoch[e]; e++
	:: else -> break
	od;
	e = 0
}

inline returns_lost(keeps)
{
	e = 0;
	do
	:: e < ENTRIES -> owed[e] = owed[e] && keeps && s_noted[e];
		noted[e] = keeps && s_noted[e]; n_epoch[e] = (keeps -> s_n_epoch[e] : 0); e++
	:: else -> break
	od;
	e = 0
}

inline returns_forgotten()
{
	e = 0;
	do
	:: e < ENTRIES -> s_noted[e] = 0; s_n_epoch[e] = 0; e++
	:: else -> break
	od;
	e = 0
}

#ifdef LINE
#define NO_HEIR heir = 0
#else
#define NO_HEIR skip
#endif

/* A rebuild and retiring settle the journal's returns. They leave Redis's stock alone: it is read from PostgreSQL later. */
inline rebuild_drop(id, move, mine)
{
	if
	:: STILL_OURS(mine) -> note_gone(id, move)
	:: else
	fi;
	NO_HEIR; id = 0; move = 0
}

/* Branches of their loops over the journal, with their current entry. */
#ifdef LINE
#define RETURN_IN_HAND byte id, move, heir;
#else
#define RETURN_IN_HAND byte id, move;
#endif
#ifdef BREAK_DROP_RETURNS
#define settle_returns(epoch) \
	:: atomic { !NO_RETURNS -> choose_entry(); noted[e] = 0; n_epoch[e] = 0; goto settle }
#else
#define settle_returns(epoch) \
	:: atomic { !NO_RETURNS -> read_entry(); pg_return(id, move, epoch, false, outcome) }; \
		if \
		:: outcome == STALE -> NO_HEIR; id = 0; move = 0; goto rest \
		:: atomic { else -> rebuild_drop(id, move, epoch); goto settle } \
		fi
#endif
#define return_retired() \
	:: atomic { !NO_RETURNS -> read_entry(); pg_return(id, move, NO_EPOCH, false, outcome) }; \
		atomic { note_gone(id, move); NO_HEIR; id = 0; move = 0; goto drop }

/* note_return.lua */
#ifdef BREAK_NOTE_LOADING
#define CAN_NOTE ((r_state == OPEN || r_state == LOADING) && opened == process)
#else
#define CAN_NOTE CAN_SELL
#endif
inline note_return(id, move)
{
	noted[ENTRY(id, move)] = 1; n_epoch[ENTRY(id, move)] = r_epoch; owed[ENTRY(id, move)] = 1
}

/* After Redis went backwards unnoticed it has a unit too many before any unit returns. */
#ifdef IN_PLACE
#define assert_not_too_many() skip
#else
#define assert_not_too_many() assert(r_stock <= UNITS)
#endif

/* If Redis still holds this very order, the field is deleted and the unit returns. Not if another refund has kept the unit: that
 * one handles the field. Nor under a later epoch: a rebuild has left the order out, and what was granted again since is
 * settled by its own entry. */
#if MOVES > 2
#define GONE_BY_ANOTHER(id, move) (status[id] == UNIT_GONE && (move != KEEP || gone_epoch[id] != epoch))
#else
#define GONE_BY_ANOTHER(id, move) false
#endif
#ifdef BREAK_RETURN_LATE
#define IS_LATE_RETURN false
#else
#define IS_LATE_RETURN (epoch != NO_EPOCH && r_epoch != epoch)
#endif
#define NOT_HERE(id, move) (GONE_BY_ANOTHER(id, move) || IS_LATE_RETURN)
inline return_in_redis(id)
{
	if
	:: NOT_HERE(id, move)
#ifdef BREAK_RETURN_FIELD
	:: !NOT_HERE(id, move) ->
#else
	:: !NOT_HERE(id, move) && buyer[owner[id]] != id
	:: !NOT_HERE(id, move) && buyer[owner[id]] == id ->
#endif
		buyer[owner[id]] = 0;
		if
#ifdef LINE
		:: heir != 0 -> buyer[owner[heir]] = heir; MET(PASSES_ON, true)
		:: heir == 0 && status[id] != UNIT_GONE -> unit_comes()
#else
		:: status[id] != UNIT_GONE -> unit_comes()
#endif
		:: else
		fi
	fi;
	assert_not_too_many()
}

/* XDEL of a return, unless Redis is not the process in which it was noted */
inline drop_return(id, move)
{
	if
	:: grant_run == process -> note_gone(id, move)
	:: else
	fi
}

/* settle_entry.lua: under another epoch the entry is left to the rebuild. Without corrections it is a plain XDEL. */
inline settle_return(id, move)
{
	if
	:: GONE_BY_ANOTHER(id, move) || !IS_LATE_RETURN -> drop_return(id, move)
	:: else
	fi
}

/* A noted return is executed, unless Redis lost it. */
inline judge_return(id)
{
#ifndef WITHOUT_OWED
	assert(!owed[ENTRY(id, CANCEL)] || status[id] != UNPAID);
#if MOVES > 1
	assert(!owed[ENTRY(id, REFUND)] || status[id] != PAID);
#endif
#if MOVES > 2
	assert(!owed[ENTRY(id, KEEP)] || status[id] != PAID);
#endif
#endif
	MET(RETURN, status[id] == CANCELLED)
}

/* ---- an instance that returns orders; Returner(1) only takes entries from the journal ---- */

inline put_down() { NO_HEIR; returning--; id = 0; move = 0; epoch = 0; grant_run = 0; outcome = 0 }

#define FAILS \
	atomic { crashes > 0 -> crashes--; put_down(); goto idle }
#if CRASHES > 0
#define MAY_FAIL \
	if \
	:: true \
	:: FAILS \
	fi;
#else
#define MAY_FAIL
#endif

/* Returner(1) also takes the entry that Returner(0) holds. */
#ifdef BOTH_RETURN
#define TOGETHER true
#else
#define TOGETHER false
#endif

proctype Returner(bit me)
{
	byte id, move, epoch, grant_run, outcome;
#ifdef LINE
	byte heir;
#endif
end_idle:
idle:
	atomic {
		if
		:: me == 0 && returns > 0 && CAN_NOTE && (IS_LIVE(1) || IS_LIVE(2)) ->
			/* PostgreSQL was read, and may have changed since. Then note_return.lua. */
			returns--;
			if
			:: IS_LIVE(1) -> id = 1
			:: IS_LIVE(2) -> id = 2
			fi;
			if
			:: move = CANCEL
#if MOVES > 1
			:: status[id] == PAID -> move = REFUND
#endif
#if MOVES > 2
			:: status[id] == PAID -> move = KEEP
#endif
			fi;
			returning++;
#ifndef BREAK_UNNOTED
			note_return(id, move);
#endif
			if
			:: epoch = r_epoch; grant_run = process
			:: lost_replies > 0 -> lost_replies--; put_down(); goto idle /* noted, and unaware of it */
			fi
		:: me == 1 && CAN_RECOVER && !NO_RETURNS && (TOGETHER || NONE_RETURNING) -> /* scan_journal.lua */
			read_entry(); epoch = n_epoch[e]; grant_run = process; returning++
		fi
	};
#ifdef BREAK_REDIS_FIRST
	atomic { return_in_redis(id) };
#endif
#ifdef BREAK_RETURN_CLEARED
	atomic { drop_return(id, move) };
#endif
	MAY_FAIL
write:
	atomic {
		pg_return(id, move, epoch, true, outcome);
		if
		:: true
		:: lost_replies > 0 -> lost_replies--; goto write /* retries */
		fi
	};
	if
	:: FAILS
	:: atomic { outcome == STALE -> goto again }
	:: atomic { outcome == NOT_MOVED -> drop_return(id, move); put_down(); goto idle } /* XDEL */
	:: atomic {
		outcome == RETURNED && (IS_LATE_RETURN || MAY_SETTLE(id)) ->
#ifndef BREAK_REDIS_FIRST
		return_in_redis(id);
#endif
		settle_return(id, move); put_down(); goto idle
	}
#ifdef LINE
	:: atomic { outcome == RETURNED && HAS_ENDED(heir) && !MAY_SETTLE(id) -> MET(ASKS_AGAIN, true); goto write }
#endif
	fi;
again: /* stale: noted again under the new epoch; a retired voucher needs none */
	if
	:: FAILS
	:: atomic { CAN_NOTE && r_epoch > epoch ->
		note_return(id, move);
		if
		:: epoch = r_epoch; grant_run = process; goto write
		:: lost_replies > 0 -> lost_replies--; put_down(); goto idle
		fi
	}
	:: atomic { RETIRED_IN_PG -> epoch = NO_EPOCH; goto write }
	fi
}

/* ---- the shop's payment side: one statement ---- */

#if PAYS > 0
proctype Payer()
{
	byte id;
end_rest:
	do
	:: atomic {
		pays > 0 && (status[1] != UNKNOWN || status[2] != UNKNOWN) ->
		pays--;
		if
		:: status[1] != UNKNOWN -> id = 1
		:: status[2] != UNKNOWN -> id = 2
		fi;
		if
		:: status[id] == UNPAID -> status[id] = PAID
#ifdef BREAK_PAY_REVIVES
		:: status[id] == CANCELLED -> status[id] = PAID
#endif
		:: else /* the payment is to be refunded */
			MET(LATE_PAY, status[id] == CANCELLED)
		fi;
		id = 0;
		assert_books()
	}
	od
}
#endif

#else
#define NO_RETURNS     true
#define NONE_RETURNING true
#define RETURN_IN_HAND
#define settle_returns(epoch)
#define return_retired()
#define judge_return(id) skip
#define assert_not_too_many() assert(r_stock <= UNITS)
#define returns_saved() skip
#define returns_lost(keeps) skip
#define returns_forgotten() skip
#endif
