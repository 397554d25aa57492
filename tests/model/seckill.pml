/* The protocol of one voucher: placing, settling, fencing, recovery, granting again, compensation, reconcile.
 *
 * Each atomic step is what the real thing does in one: a Lua script in Redis, a statement in PostgreSQL.
 * Between two steps anything may happen: another process moves, an instance dies, Redis loses its data.
 * There are no locks here: what holds, holds without them.
 *
 * Two users, UNITS units, two orders at most, in ASKS requests. Holders are what has an order in hand: two instances, and
 * a recovering one that takes entries from the journal, also while their owner is still at it.
 * CRASHES, ENDS, LOSSES, LOST_REPLIES, RECONCILES, CANCELS and FORGERIES bound what happens to them. BREAK_... takes one guard
 * away, and must fail. README.md says how to read this.
 */
#ifndef UNITS
#define UNITS 1
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef ENDS
#define ENDS 0 /* instances that end in order while they wait to have an order granted again */
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
#ifndef CANCELS
#define CANCELS 0
#endif
#ifndef FORGERIES
#define FORGERIES 0 /* epochs written into Redis by hand */
#endif
#ifndef ASKS
#define ASKS 2 /* requests, repeats included */
#endif

#define FAR_AHEAD 9  /* an epoch that nobody has used, and */
#define CANNOT_BE 40 /* one that is out of range: it is overwritten, not outdone */
#define EPOCHS    20 /* fewer are used in every run, or reconciles never end */
#define USERS     2
#define IDS       3 /* order ids from 1; 0 is none */

/* Where a promise is put to the test: pan prints its number the first time. One that is never met proves nothing. */
c_decl {
	static char met[10];
}
#define MET(promise, when) \
	if \
	:: when -> c_code { if (!met[promise]) printf("met P%d\n", met[promise] = promise); } \
	:: else \
	fi

/* ---- PostgreSQL ---- */
#define UNKNOWN   0
#define LIVE      1
#define REFUSED   2
#define NO_UNIT   3 /* refused, because there was no unit */
#define CANCELLED 4
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
bit lost_twice[IDS]; /* both, and nobody else had it: the one case that P5 leaves out */
byte holders[IDS];
byte asks = ASKS, crashes = CRASHES, ends = ENDS, losses = LOSSES, lost_replies = LOST_REPLIES, reconciles = RECONCILES;
byte cancels = CANCELS, forgeries = FORGERIES;
byte next_id = 1;
byte busy;   /* reconciles under way: more than one only while `reconciles` lasts */
bit telling; /* a cancel that Redis does not know yet */
hidden byte n;

#define PLACED 1
#define DUPLICATE 2
#define SOLD_OUT 3
#define STALE 4

/* What an order is answered that had ended before this call. Redis may have granted it once more since: then the unit
 * returns, unless PostgreSQL has none that it could be. ENDED_RETURNS is the simpler rule, right only while Redis never
 * goes backwards unnoticed. */
#if defined(BREAK_ENDED_KEEPS)
#define ENDED_BEFORE (status[id] == CANCELLED && pg_stock > 0 -> DUPLICATE : SOLD_OUT)
#elif defined(BREAK_ENDED_AS_FIRST)
#define ENDED_BEFORE (status[id] == NO_UNIT -> SOLD_OUT : DUPLICATE)
#elif defined(ENDED_RETURNS)
#define ENDED_BEFORE DUPLICATE
#else
#define ENDED_BEFORE (pg_stock > 0 -> DUPLICATE : SOLD_OUT)
#endif

/* place_orders() in PostgreSQL: one statement, one commit */
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
#ifdef BREAK_CANCELLED
		:: status[id] == CANCELLED -> outcome = PLACED
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
			if
			:: pg_stock == 0 -> status[id] = NO_UNIT; outcome = SOLD_OUT
			:: else ->
				pg_stock--; status[id] = LIVE; outcome = PLACED;
				assert(live[owner[id]] == 0); /* P2 */
				live[owner[id]] = id
			fi
		fi
	fi
}

/* refuse_orders(): an order that PostgreSQL knows stays what it is */
inline pg_refuse(id)
{
	if
	:: status[id] == UNKNOWN -> status[id] = REFUSED
	:: else
	fi
}

#ifdef BREAK_RUN
#define CAN_SELL (r_state == OPEN)
#else
#define CAN_SELL (r_state == OPEN && opened == process)
#endif
#define CAN_RECOVER (r_state == OPEN && opened == process && !NO_JOURNAL)
#define NO_JOURNAL  (!journal[1] && !journal[2])

/* settle_entry.lua: the unit returns, and the user's other order takes the place of this one, or nothing does */
inline correct_redis(id, user, outcome, instead)
{
	buyer[user] = instead;
	if
	:: outcome == DUPLICATE ->
		assert(CANCELS > 0 || status[id] != NO_UNIT); /* there was none, and none came */
		r_stock++
	:: else
	fi
}

/* ---- an instance, or one that recovers ---- */

/* The newest epoch that an instance found an order stale under, and whether one waits there. Redis is asked once it has a
 * newer epoch; where it has none, the instance wants a reconcile. Without forged epochs an order's own epoch says the same.
 */
#if FORGERIES
byte stale[3];
bit waits[3];
#define WANTS(h) (waits[h] && r_epoch <= stale[h])
#define NEWEST_STALE stale[me]
#define NOTE_STALE  waits[me] = 1; stale[me] = (epoch > stale[me] -> epoch : stale[me])
#define WAITS_NOT   waits[me] = 0
#define FORGETS     stale[me] = 0
#else
#define NEWEST_STALE epoch
#define NOTE_STALE  skip
#define WAITS_NOT   skip
#define FORGETS     skip
#endif

/* Nobody has the order any more, and no journal: two faults at once. */
#define NOTE_LOST_TWICE(id) \
	if \
	:: status[id] == UNKNOWN && holders[id] == 0 && !journal[id] && entry_lost[id] && holder_died[id] -> lost_twice[id] = 1 \
	:: else \
	fi

#define DIES \
	atomic { \
		crashes > 0 -> crashes--; holder_died[id] = 1; holders[id]--; \
		NOTE_LOST_TWICE(id); \
		WAITS_NOT; FORGETS; id = 0; goto idle \
	}

inline let_go() { WAITS_NOT; holders[id]--; id = 0 }

/* XDEL, unless Redis is another process than the one that granted it */
inline clear_journal()
{
	if
	:: grant_run == process -> journal[id] = 0
	:: else
	fi
}

/* The sold-out mark: for a moment an instance answers from memory whom its filter of the buyers does not have. */
#ifdef MARKS
bit marked[2], known[4];
#ifdef BREAK_FILTER
#define MAYBE_BUYER(u) false
#else
#define MAYBE_BUYER(u) known[2 * me + u]
#endif
#endif

/* Marks are set while there is no unit. One that returns sells when they are over: its buyer is in no filter. */
#if defined(MARKS) && CANCELS > 0 && !defined(BREAK_HOLD)
#define HELD (marked[0] || marked[1])
#else
#define HELD false
#endif

proctype Holder(byte me)
{
	byte id, user, epoch, grant_run, outcome, instead;
end_idle:
idle:
	atomic {
		if
		:: me < 2 && asks > 0 && CAN_SELL && (me == 0 || asks < ASKS) -> /* of twins, the first goes first */
			/* place_orders.lua */
			asks--;
			if
			:: user = 0
			:: user = 1
			fi;
			MET(6, won[user] && r_stock == 0);
			if
			:: buyer[user] != 0 ->
				won[user] = won[user] || (live[user] == buyer[user])
			:: buyer[user] == 0 && r_stock == 0 ->
#ifdef MARKS
				marked[me] = 1; known[2 * me] = buyer[0] != 0; known[2 * me + 1] = buyer[1] != 0;
#endif
				assert(!won[user]) /* P6 */
			:: buyer[user] == 0 && r_stock > 0 && next_id == IDS /* no more orders in this model */
			:: buyer[user] == 0 && r_stock > 0 && next_id != IDS && HELD ->
				assert(!won[user]) /* P6 */
			:: else ->
				id = next_id; next_id++; owner[id] = user;
				r_stock--; buyer[user] = id; journal[id] = 1; j_epoch[id] = r_epoch;
				accepted[id] = 1; holders[id]++; epoch = r_epoch; grant_run = process;
				goto granted
			fi;
			goto idle
#ifdef MARKS
		:: me < 2 && asks > 0 && marked[me] ->
			if
			:: !MAYBE_BUYER(0) -> asks--; assert(!won[0]) /* P6 */
			:: !MAYBE_BUYER(1) -> asks--; assert(!won[1]) /* P6 */
			:: else
			fi;
			goto idle
		:: me < 2 && marked[me] -> marked[me] = 0; known[2 * me] = 0; known[2 * me + 1] = 0; goto idle
#endif
		:: me == 2 && CAN_RECOVER ->
			/* scan_journal.lua: whatever is there, also what its owner has in hand */
			if
			:: journal[1] -> id = 1
			:: journal[2] -> id = 2
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
		WAITS_NOT;
		pg_place(id, epoch, outcome, instead);
		if
		:: true
		:: lost_replies > 0 -> lost_replies--; goto write /* tried again, under the same id */
		fi
	};
	if
	:: DIES
	:: outcome == PLACED -> atomic { created[id] = 1; won[user] = won[user] || (live[user] == id) }
	:: outcome == DUPLICATE || outcome == SOLD_OUT -> goto correct
	:: atomic { outcome == STALE -> NOTE_STALE; goto again }
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
		:: true -> correct_redis(id, user, outcome, instead)
#else
		:: buyer[user] == id -> correct_redis(id, user, outcome, instead)
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
	:: atomic { ends > 0 -> ends--; goto drain }
#ifdef BREAK_AGAIN
	:: atomic { true -> epoch = pg_epoch; goto write }
#else
	:: atomic {
		CAN_SELL && r_epoch > NEWEST_STALE ->
		if
		:: buyer[user] == id -> epoch = r_epoch; goto write
		:: buyer[user] != id && (buyer[user] != 0 || r_stock == 0) -> skip
		:: else ->
			clear_journal();
			r_stock--; buyer[user] = id; journal[id] = 1; j_epoch[id] = r_epoch; entry_lost[id] = 0;
			if
			:: true -> epoch = r_epoch; grant_run = process; goto write
			:: lost_replies > 0 -> lost_replies--; grant_run = 0; goto again /* it does not know that it has it */
			fi
		fi
	}
#endif
	fi;
	/* refuse_orders() */
	if
	:: DIES
	:: atomic { true -> pg_refuse(id); clear_journal(); let_go(); goto idle }
	fi;

drain: /* the instance ends in order: what still waits is refused, and Redis corrected, should it hold it after all */
#ifndef BREAK_DRAIN
	if
	:: DIES
	:: atomic { true -> pg_refuse(id) }
	fi;
	if
	:: DIES
	:: atomic {
		true ->
		if
#ifdef BREAK_DRAIN_ID
		:: status[id] != LIVE -> correct_redis(id, user, DUPLICATE, 0)
#else
		:: status[id] != LIVE && buyer[user] == id -> correct_redis(id, user, DUPLICATE, 0)
#endif
		:: else
		:: true -> skip /* Redis is away */
		fi
	}
	fi;
#endif
	atomic { FORGETS; let_go(); goto idle }
}

/* ---- an admin cancels a live order: in PostgreSQL, under the epoch that Redis is open in, then in Redis ---- */

proctype Admin()
{
	byte id, epoch;
end_rest:
	do
	:: atomic {
		cancels > 0 && CAN_SELL && (status[1] == LIVE || status[2] == LIVE) ->
		cancels--;
		if
		:: status[1] == LIVE -> id = 1
		:: status[2] == LIVE -> id = 2
		fi;
		epoch = r_epoch
	};
	atomic {
		if
		:: epoch == pg_epoch && status[id] == LIVE ->
			status[id] = CANCELLED; live[owner[id]] = 0; won[owner[id]] = 0; pg_stock++; telling = 1
		:: else
		fi
	};
	atomic {
		if
		:: telling && buyer[owner[id]] == id -> buyer[owner[id]] = 0; r_stock++
		:: else
		fi;
		telling = 0; id = 0; epoch = 0
	}
	od
}

/* ---- reconcile ---- */

#define FIRST_FIRST (me == 0 || pg_epoch > 1)
#define GIVES_UP atomic { crashes > 0 -> crashes--; goto rest }

proctype Reconciler(bit me)
{
	byte mine, stock, outcome, count, instead, whose;
	byte had[USERS];
	goto end_rest;
rest:
	busy--;
end_rest:
	/* The voucher is missing, closed, of another run, or behind PostgreSQL; or an admin wants it. */
	atomic {
		if
		:: FIRST_FIRST && busy == 0 && (r_state != OPEN || opened != process || r_epoch != pg_epoch)
		:: FIRST_FIRST && reconciles > 0 -> reconciles--
#if FORGERIES
		:: FIRST_FIRST && busy == 0 && WANTS(0) -> whose = 0
		:: FIRST_FIRST && busy == 0 && WANTS(1) -> whose = 1
		:: FIRST_FIRST && busy == 0 && WANTS(2) -> whose = 2
#endif
		fi;
		busy++;
#if FORGERIES
		/* Past what Redis has, but for what cannot be. */
		if
		:: r_epoch > pg_epoch && r_epoch != CANNOT_BE -> pg_epoch = r_epoch
		:: else
		fi;
#endif
		pg_epoch++; mine = pg_epoch;
		assert(pg_epoch < EPOCHS) /* it ends */
	};
	if
	:: true
	:: GIVES_UP
	fi;
	atomic { /* reconcile_begin.lua */
		if
		:: r_state != MISSING && r_epoch >= mine && r_epoch != CANNOT_BE -> goto rest
		:: else -> r_state = LOADING; r_epoch = mine; buyer[0] = 0; buyer[1] = 0
		fi
	};
settle:
	if
	:: GIVES_UP
#ifndef BREAK_JOURNAL
	:: atomic { journal[1] -> pg_place(1, mine, outcome, instead) };
		if
		:: outcome == STALE -> goto rest
		:: else -> journal[1] = 0; goto settle
		fi
	:: atomic { journal[2] -> pg_place(2, mine, outcome, instead) };
		if
		:: outcome == STALE -> goto rest
		:: else -> journal[2] = 0; goto settle
		fi
	:: atomic { NO_JOURNAL -> skip }
#else
	:: true
#endif
	fi;
	atomic { /* rebuild_stock */
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
		:: r_state == LOADING && r_epoch == mine && !NO_JOURNAL -> goto settle
#endif
		:: else ->
			r_stock = stock; r_state = OPEN; opened = process;
#if FORGERIES && !defined(BREAK_REMEMBER)
			stale[whose] = 0; /* whatever it was, Redis is up to date now */
#endif
			goto rest
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
		:: journal[n] && !(keeps && s_journal[n]) && status[n] == UNKNOWN ->
			entry_lost[n] = 1; journal[n] = 0;
			NOTE_LOST_TWICE(n)
		:: else
		fi;
		n++
	:: else -> break
	od
}

/* Copies the moment, or falls back to it. After the last loss nothing will, and the copy is dropped. */
inline remember()
{
	s_state = r_state; s_epoch = r_epoch; s_stock = r_stock; s_opened = opened;
	s_buyer[0] = buyer[0]; s_buyer[1] = buyer[1];
	s_journal[1] = journal[1]; s_j_epoch[1] = j_epoch[1];
	s_journal[2] = journal[2]; s_j_epoch[2] = j_epoch[2]
}

inline forget()
{
	if
	:: losses == 0 ->
		s_state = 0; s_epoch = 0; s_stock = 0; s_opened = 0; s_buyer[0] = 0; s_buyer[1] = 0;
		s_journal[1] = 0; s_j_epoch[1] = 0; s_journal[2] = 0; s_j_epoch[2] = 0
	:: else
	fi
}

proctype Misfortune()
{
end_quiet:
	do
	:: d_step { losses > 0 -> remember() } /* this moment will come back */
	:: d_step { /* rolled back to it: a restart, or a fail-over */
		losses > 0 ->
		losses--;
		note_lost_entries(1);
		r_state = s_state; r_epoch = s_epoch; r_stock = s_stock; opened = s_opened;
		buyer[0] = s_buyer[0]; buyer[1] = s_buyer[1];
		journal[1] = s_journal[1]; j_epoch[1] = s_j_epoch[1];
		journal[2] = s_journal[2]; j_epoch[2] = s_j_epoch[2];
#ifndef IN_PLACE
		process++;
#endif
		forget()
	}
	:: d_step { /* emptied: a new process; apart from the next one, because a d_step takes no choices */
		losses > 0 -> losses--; note_lost_entries(0);
		r_state = MISSING; r_epoch = 0; r_stock = 0; opened = 0;
		buyer[0] = 0; buyer[1] = 0; journal[1] = 0; journal[2] = 0; j_epoch[1] = 0; j_epoch[2] = 0;
		process++;
		forget()
	}
	:: d_step { /* emptied by FLUSHALL */
		losses > 0 -> losses--; note_lost_entries(0);
		r_state = MISSING; r_epoch = 0; r_stock = 0; opened = 0;
		buyer[0] = 0; buyer[1] = 0; journal[1] = 0; journal[2] = 0; j_epoch[1] = 0; j_epoch[2] = 0;
		forget()
	}
#if FORGERIES
	:: atomic { /* an epoch far ahead, one that can be or not: the voucher's, or in the journal */
		forgeries > 0 -> forgeries--;
		if
		:: r_state != MISSING -> r_epoch = FAR_AHEAD
		:: r_state != MISSING -> r_epoch = CANNOT_BE
		:: journal[1] -> j_epoch[1] = CANNOT_BE
		:: journal[2] -> j_epoch[2] = CANNOT_BE
		:: else
		fi
	}
#endif
	od
}

/* ---- the judge ---- */

inline judge(id)
{
	assert(!created[id] || status[id] == LIVE || status[id] == CANCELLED); /* P3 */
	MET(3, created[id]);
	/* P5, P7: only what was lost twice has no end */
	assert(!accepted[id] || status[id] != UNKNOWN || lost_twice[id]);
	MET(5, accepted[id] && (entry_lost[id] || holder_died[id]) && status[id] != UNKNOWN);
	unended = unended + (accepted[id] && status[id] == UNKNOWN)
}

proctype Judge()
{
	byte unended;
end_waiting:
	do
	:: atomic {
		losses == 0 && !telling && holders[1] == 0 && holders[2] == 0 && NO_JOURNAL && CAN_SELL && r_epoch == pg_epoch ->
		judge(1); judge(2);
		/* ... and of those no more than instances have died, and none while Redis loses nothing */
		assert(unended <= CRASHES - crashes && (unended == 0 || LOSSES > 0));
		unended = 0;
#ifndef IN_PLACE
		assert(r_stock == pg_stock); /* P4: nothing undersold, nothing offered twice */
		assert(buyer[0] == live[0] && buyer[1] == live[1]);
		MET(4, status[1] >= REFUSED || status[2] >= REFUSED)
#endif
	}
	od
}

init {
	atomic {
		run Holder(0); run Holder(1); run Holder(2); run Reconciler(0); run Reconciler(1); run Misfortune(); run Judge();
#if CANCELS
		run Admin()
#endif
	}
}
