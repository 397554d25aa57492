/* The protocol of one voucher: placing, settling, fencing, recovery, granting again, compensation, reconcile.
 *
 * Each atomic step is what the real thing does in one: a Lua script in Redis, a statement in PostgreSQL.
 * Between two steps anything may happen: another process moves, an instance dies, Redis loses its data.
 * There are no locks here: what holds, holds without them.
 *
 * Two users, UNITS units, POSTS orders at most, in ASKS requests. Holders are what has an order in hand: two instances, and
 * a recovering one that takes entries from the journal, also while their owner is still at it.
 * CRASHES, LOSSES, LOST_REPLIES and RECONCILES bound what goes wrong. README.md says how to read this.
 */
#ifndef UNITS
#define UNITS 1
#endif
#ifndef POSTS
#define POSTS 2
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef LOSSES
#define LOSSES 1
#endif
#ifndef LOST_REPLIES
#define LOST_REPLIES 0
#endif
#ifndef RECONCILES
#define RECONCILES 2
#endif

#ifndef ASKS
#define ASKS POSTS /* requests, repeats included */
#endif

#define USERS 2
#define IDS   (POSTS + 1) /* order ids from 1; 0 is none */

/* ---- PostgreSQL ---- */
#define UNKNOWN 0
#define LIVE    1
#define REFUSED 2
byte pg_stock = UNITS;
byte pg_epoch = 1;
byte status[IDS];
byte owner[IDS]; /* the user of an order */
byte live[USERS]; /* their live order */

/* ---- Redis ---- */
#define MISSING 0
#define LOADING 1
#define OPEN    2
byte r_state = OPEN;
byte r_epoch = 1;
byte r_stock = UNITS;
byte buyer[USERS];
bit journal[IDS];
byte j_epoch[IDS];
byte process = 1; /* which Redis process it is: its run id */
byte opened = 1;  /* the process under which the voucher was opened */
/* an earlier moment of Redis, to which it may fall back */
byte s_state = OPEN, s_epoch = 1, s_stock = UNITS, s_opened = 1;
byte s_buyer[USERS];
bit s_journal[IDS];
byte s_j_epoch[IDS];

/* ---- what was told, and what went wrong ---- */
bit accepted[IDS], created[IDS]; /* 202, 201 */
bit won[USERS];                  /* heard 201, or ALREADY_ORDERED of a live order */
bit entry_lost[IDS];             /* Redis has lost its journal entry */
bit holder_died[IDS];
byte holders[IDS];
byte asks = ASKS, crashes = CRASHES, losses = LOSSES, lost_replies = LOST_REPLIES, reconciles = RECONCILES;
byte next_id = 1;
byte busy; /* reconciles under way: more than one only while `reconciles` lasts */

#define PLACED 1
#define DUPLICATE 2
#define SOLD_OUT 3
#define STALE 4

/* place_orders() in PostgreSQL: one statement, one commit */
inline pg_place(id, epoch, outcome)
{
	d_step {
		if
#ifndef BREAK_EPOCH
		:: epoch != pg_epoch -> outcome = STALE
#endif
		:: else ->
			if
			:: status[id] == LIVE -> outcome = PLACED
			:: status[id] == REFUSED -> outcome = DUPLICATE
#ifndef BREAK_UNIQUE
			:: status[id] == UNKNOWN && live[owner[id]] != 0 -> status[id] = REFUSED; outcome = DUPLICATE
#endif
			:: else ->
				if
				:: pg_stock == 0 -> status[id] = REFUSED; outcome = SOLD_OUT
				:: else ->
					pg_stock--; status[id] = LIVE; outcome = PLACED;
					assert(live[owner[id]] == 0); /* P2 */
					live[owner[id]] = id
				fi
			fi
		fi
	}
}

#ifdef BREAK_RUN
#define CAN_SELL (r_state == OPEN)
#else
#define CAN_SELL (r_state == OPEN && opened == process)
#endif

/* ---- an instance, or one that recovers ---- */

#define DIES atomic { crashes > 0 -> crashes--; holder_died[id] = 1; holders[id]--; id = 0; goto idle }

inline let_go() { holders[id]--; id = 0 }

/* XDEL, unless Redis is another process than the one that granted it */
inline clear_journal()
{
	if
	:: grant_run == process -> journal[id] = 0
	:: else
	fi
}

proctype Holder(bit places)
{
	byte id, user, epoch, grant_run, outcome;
end_idle:
idle:
	atomic {
		if
		:: places && asks > 0 && CAN_SELL ->
			/* place_orders.lua */
			asks--;
			if
			:: user = 0
			:: user = 1
			fi;
			if
			:: buyer[user] != 0 ->
				won[user] = won[user] || (live[user] == buyer[user])
			:: buyer[user] == 0 && r_stock == 0 ->
				assert(!won[user]) /* P6 */
			:: buyer[user] == 0 && r_stock > 0 && next_id == IDS /* no more orders in this model */
			:: else ->
				id = next_id; next_id++; owner[id] = user;
				r_stock--; buyer[user] = id; journal[id] = 1; j_epoch[id] = r_epoch;
				accepted[id] = 1; holders[id]++; epoch = r_epoch; grant_run = process;
				goto granted
			fi;
			goto idle
		:: !places && r_state == OPEN && opened == process && (journal[1] || (POSTS > 1 && journal[POSTS])) ->
			/* scan_journal.lua: whatever is there, also what its owner has in hand */
			if
			:: journal[1] -> id = 1
			:: POSTS > 1 && journal[POSTS] -> id = POSTS
			fi;
			user = owner[id]; epoch = j_epoch[id]; grant_run = process; holders[id]++
		fi
	}
granted:
#ifdef BREAK_ANSWER_EARLY
	created[id] = 1;
#endif
#ifdef BREAK_CLEAR_EARLY
	atomic { clear_journal() };
#endif
	if
	:: true
	:: DIES
	fi;
write:
	atomic {
		pg_place(id, epoch, outcome);
		if
		:: true
		:: lost_replies > 0 -> lost_replies--; goto write /* said again, under the same id */
		fi
	};
	if
	:: DIES
	:: outcome == PLACED -> atomic { created[id] = 1; won[user] = 1 }
	:: outcome == DUPLICATE || outcome == SOLD_OUT -> goto correct
	:: outcome == STALE -> goto again
	fi;
	if
	:: DIES
	:: atomic { true -> clear_journal(); let_go(); goto idle }
	fi;

correct: /* settle_entry.lua */
	if
	:: DIES
	:: atomic {
		true ->
		if
#ifdef BREAK_COMPENSATE
		:: true ->
#else
		:: buyer[user] == id ->
#endif
			buyer[user] = live[user];
			if
			:: outcome == DUPLICATE -> r_stock++
			:: else
			fi
#ifndef BREAK_COMPENSATE
		:: else
#endif
		fi;
		assert(r_stock <= UNITS);
		clear_journal(); let_go(); goto idle
	}
	fi;

again: /* fenced off: granted again, by place_orders.lua in its other mode */
	if
	:: DIES
#ifdef BREAK_AGAIN
	:: atomic { true -> epoch = pg_epoch; goto write }
#else
	:: atomic {
		CAN_SELL && r_epoch > epoch ->
		if
		:: buyer[user] == id -> epoch = r_epoch; goto write
		:: buyer[user] != id && (buyer[user] != 0 || r_stock == 0) -> skip
		:: else ->
			clear_journal();
			r_stock--; buyer[user] = id; journal[id] = 1; j_epoch[id] = r_epoch;
			epoch = r_epoch; grant_run = process;
			goto write
		fi
	}
#endif
	fi;
	/* refuse_orders() */
	if
	:: DIES
	:: atomic {
		true ->
		if
		:: status[id] == UNKNOWN -> status[id] = REFUSED
		:: else
		fi;
		clear_journal(); let_go(); goto idle
	}
	fi
}

/* ---- reconcile ---- */

#define GIVES_UP atomic { crashes > 0 -> crashes--; goto rest }

proctype Reconciler()
{
	byte mine, stock, outcome, count;
	byte had[USERS];
	goto end_rest;
rest:
	busy--;
end_rest:
	/* The voucher is missing, closed, of another run, or behind PostgreSQL; or an admin wants it. */
	atomic {
		if
		:: busy == 0 && (r_state != OPEN || opened != process || r_epoch < pg_epoch)
		:: reconciles > 0 -> reconciles--
		fi;
		busy++;
		pg_epoch++; mine = pg_epoch;
		assert(pg_epoch < 20)
	};
	if
	:: true
	:: GIVES_UP
	fi;
	atomic { /* reconcile_begin.lua */
		if
		:: r_state != MISSING && r_epoch >= mine -> goto rest
		:: else -> r_state = LOADING; r_epoch = mine; buyer[0] = 0; buyer[1] = 0
		fi
	};
settle:
	if
	:: GIVES_UP
#ifndef BREAK_JOURNAL
	:: atomic { journal[1] -> pg_place(1, mine, outcome) };
		if
		:: outcome == STALE -> goto rest
		:: else -> journal[1] = 0; goto settle
		fi
	:: atomic { POSTS > 1 && journal[POSTS] -> pg_place(POSTS, mine, outcome) };
		if
		:: outcome == STALE -> goto rest
		:: else -> journal[POSTS] = 0; goto settle
		fi
	:: atomic { !journal[1] && !(POSTS > 1 && journal[POSTS]) -> skip }
#else
	:: true
#endif
	fi;
	atomic { /* reconcile_stock */
		if
		:: pg_epoch != mine -> goto rest
		:: else -> stock = pg_stock; count = (live[0] != 0) + (live[1] != 0)
		fi
	};
	/* the buyers, in two chunks: read, then written */
	had[0] = live[0];
	atomic {
		if
		:: r_state != LOADING || r_epoch != mine -> goto rest
		:: else -> buyer[0] = had[0]
		fi
	};
	if
	:: true
	:: GIVES_UP
	fi;
	had[1] = live[1];
	atomic {
		if
		:: r_state != LOADING || r_epoch != mine -> goto rest
		:: else -> buyer[1] = had[1]
		fi
	};
	atomic { /* reconcile_open.lua */
		if
		:: r_state != LOADING || r_epoch != mine -> goto rest
#ifndef BREAK_COUNT
		:: r_state == LOADING && r_epoch == mine && (buyer[0] != 0) + (buyer[1] != 0) != count -> goto rest
#endif
#ifndef BREAK_JOURNAL
		:: r_state == LOADING && r_epoch == mine && (journal[1] || (POSTS > 1 && journal[POSTS])) -> goto settle
#endif
		:: else -> r_stock = stock; r_state = OPEN; opened = process; goto rest
		fi
	}
}

/* ---- Redis's misfortunes ---- */

inline note_lost_entries(keeps)
{
	n = 1;
	do
	:: n < IDS ->
		if
		:: journal[n] && !(keeps && s_journal[n]) -> entry_lost[n] = 1
		:: else
		fi;
		n++
	:: else -> break
	od
}

proctype Misfortune()
{
	byte n;
end_quiet:
	do
	:: d_step { /* this moment will come back */
		losses > 0 ->
		s_state = r_state; s_epoch = r_epoch; s_stock = r_stock; s_opened = opened;
		s_buyer[0] = buyer[0]; s_buyer[1] = buyer[1];
		n = 1;
		do
		:: n < IDS -> s_journal[n] = journal[n]; s_j_epoch[n] = j_epoch[n]; n++
		:: else -> break
		od
	}
	:: d_step { /* rolled back to it: a restart, or a fail-over */
		losses > 0 ->
		losses--;
		note_lost_entries(1);
		r_state = s_state; r_epoch = s_epoch; r_stock = s_stock; opened = s_opened;
		buyer[0] = s_buyer[0]; buyer[1] = s_buyer[1];
		n = 1;
		do
		:: n < IDS -> journal[n] = s_journal[n]; j_epoch[n] = s_j_epoch[n]; n++
		:: else -> break
		od;
#ifndef IN_PLACE
		process++
#endif
	}
	:: d_step { /* emptied: a new process, or FLUSHALL */
		losses > 0 ->
		losses--;
		note_lost_entries(0);
		r_state = MISSING; r_epoch = 0; r_stock = 0; opened = 0;
		buyer[0] = 0; buyer[1] = 0;
		n = 1;
		do
		:: n < IDS -> journal[n] = 0; n++
		:: else -> break
		od;
		if
#ifndef IN_PLACE
		:: process++
#endif
		:: true
		fi
	}
	od
}

/* ---- the judge ---- */

#define NOBODY_HOLDS (holders[1] == 0 && (POSTS < 2 || holders[POSTS] == 0))
#define NO_JOURNAL   (!journal[1] && !(POSTS > 1 && journal[POSTS]))

proctype Judge()
{
	byte n;
end_waiting:
	d_step {
		losses == 0 && NOBODY_HOLDS && NO_JOURNAL && r_state == OPEN && opened == process && r_epoch == pg_epoch ->
		n = 1;
		do
		:: n < IDS ->
			assert(!created[n] || status[n] == LIVE); /* P3 */
			/* P5, P7: only what was lost twice has no end */
			assert(!accepted[n] || status[n] != UNKNOWN || (entry_lost[n] && holder_died[n]));
			n++
		:: else -> break
		od;
#ifndef IN_PLACE
		assert(r_stock == pg_stock); /* P4: nothing undersold, nothing offered twice */
		assert(buyer[0] == live[0] && buyer[1] == live[1])
#endif
	}
}

init {
	atomic {
		run Holder(1); run Holder(1); run Holder(0); run Reconciler(); run Reconciler(); run Misfortune(); run Judge()
	}
}
