/* An instance: calls Redis, writes to PostgreSQL, answers, clears the journal entry. Holder(2) only recovers. */

/* The newest epoch under which an instance found an order stale, and whether an order waits there. It is granted again once
 * Redis has a newer epoch; otherwise the instance requests a reconcile. Without forged epochs the order's own epoch suffices.
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

#define DIES \
	atomic { \
		crashes > 0 -> crashes--; holder_died[id] = 1; holders[id]--; \
		NOTE_LOST_TWICE(id); \
		LOCK_DIES; WAITS_NOT; FORGETS; FORGET_NUMBER; id = 0; goto idle \
	}

inline take_up() { user = owner[id]; epoch = j_epoch[id]; grant_run = process; NOTE_NUMBER; holders[id]++ }
inline let_go() { WAITS_NOT; FORGET_NUMBER; holders[id]--; id = 0 }

/* XDEL, unless Redis is not the process that granted it */
inline clear_journal()
{
	if
	:: grant_run == process && HAS_NUMBER(id) -> journal[id] = 0
	:: else
	fi
}

/* The refusal cache: for a while an instance refuses users who are not in its filter of buyers. */
#ifdef MARKS
bit known[4];
#ifdef BREAK_FILTER
#define MAYBE_BUYER(u) false
#else
#define MAYBE_BUYER(u) known[2 * me + u]
#endif
#endif

/* The claim is checked first, also when no unit is left. */
#ifdef BREAK_CLAIM
#define HAS_CLAIM (buyer[user] != 0 && r_stock == 0)
#else
#define HAS_CLAIM (buyer[user] != 0)
#endif

/* The script also reads the buyers of the scope's other vouchers, after its own. A field there may be missing or stale, or
 * be there before the order is: so the script may find one at any time, or none, whatever PostgreSQL has. */
#ifdef BREAK_SCOPE_FIRST
#define MAY_BE_ELSEWHERE (user == 0)
#else
#define MAY_BE_ELSEWHERE (user == 0 && buyer[user] == 0)
#endif

#ifdef URLS
byte id_epoch[IDS]; /* the epoch in an order's id */
#define NOTE_ID_EPOCH id_epoch[id] = r_epoch
#else
#define NOTE_ID_EPOCH skip
#endif

proctype Holder(byte me)
{
	byte id, user, epoch, grant_run, outcome, instead;
#if RETURNS > 0 || OTHERS > 0 || defined(LINE)
	byte number;
#endif
#if defined(KEEPS) || defined(LINE)
	byte made; /* the epoch of its entry */
#endif
#ifdef SESSIONS
	byte name = me;
#endif
#ifdef BREAK_JUDGE_FIRST
	byte judged;
#endif
end_idle:
idle:
	atomic {
		if
		:: me < 2 && asks > 0 && CAN_SELL && MAY_SELL && (me == 0 || asks < ASKS) -> /* of twins, the first goes first */
			/* place_orders.lua */
			asks--;
			if
			:: user = 0
#ifndef ONE_USER
			:: user = 1
#endif
			fi;
			MET(6, won[user] && r_stock == 0);
			if
			:: HAS_CLAIM ->
#ifdef SESSIONS
				MET(CLAIMED, journal[buyer[user]] && r_stock > 0);
#endif
				won[user] = won[user] || (live[user] == buyer[user])
#if OTHERS > 0
			:: MAY_BE_ELSEWHERE -> MET(IN_SCOPE, elsewhere);
				assert(!won[user]) /* P6 */
#endif
			:: !HAS_CLAIM && IS_HELD /* 503 LOADING, which is never cached */
			:: !HAS_CLAIM && !IS_HELD && (IS_PAUSED || r_stock == 0) ->
#ifdef MARKS
				marked[me] = 1; known[2 * me] = buyer[0] != 0; known[2 * me + 1] = buyer[1] != 0;
#endif
				assert(!won[user]) /* P6 */
			:: !HAS_CLAIM && !IS_HELD && !IS_PAUSED && r_stock > 0 && next_id == IDS /* no more orders in this model */
			:: !HAS_CLAIM && !IS_HELD && !IS_PAUSED && r_stock > 0 && next_id < IDS ->
				id = next_id; next_id++; owner[id] = user; NOTE_ID_EPOCH;
				redis_grant(id, user);
				accepted[id] = 1;
#if AWAYS > 0
				MET(AWAY, away);
#endif
				if
				:: true ->
					holders[id]++; epoch = r_epoch; grant_run = process; NOTE_NUMBER;
					goto granted
				:: lost_replies > 0 -> lost_replies--; holder_died[id] = 1; id = 0 /* gives up, unaware that it has the order */
				fi
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
		:: me < 2 && marked[me] -> /* it expires */
			marked[me] = 0; older[me] = 0; known[2 * me] = 0; known[2 * me + 1] = 0; goto idle
#endif
#ifdef SESSIONS
		:: SWEEPS && CAN_RECOVER && (CAN_TAKE(1) || CAN_TAKE(2)) ->
			/* scan_journal.lua, then a check of the entries' sessions */
			if
			:: CAN_TAKE(1) -> id = 1
			:: CAN_TAKE(2) -> id = 2
			fi;
#ifdef BREAK_JUDGE_FIRST
			judged = j_session[id]; id = 0; goto scan;
#endif
			assert_unbroken(id); MET(SESSION_GONE, true);
			take_up()
#ifndef BREAK_ORPHAN
		:: CAN_RECOVER && (IS_ORPHAN(1) || IS_ORPHAN(2)) ->
			/* an entry of its own session that it does not hold */
			if
			:: IS_ORPHAN(1) -> id = 1
			:: IS_ORPHAN(2) -> id = 2
			fi;
			MET(ORPHAN, true);
			take_up()
#endif
#else
		:: me == 2 && CAN_RECOVER && !NO_PURCHASES ->
			/* scan_journal.lua: any entry, also one that its owner holds */
			if
			:: journal[1] -> id = 1
			:: journal[2] -> id = 2
			fi;
			take_up()
#endif
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
#ifdef ABILITY
	if
	:: IS_CUT -> atomic { let_go(); goto idle } /* its write comes some time, and changes nothing */
	:: !IS_CUT
	fi;
#endif
	atomic {
		WAITS_NOT;
		pg_place(id, epoch, outcome, instead);
		if
		:: true
		:: lost_replies > 0 -> lost_replies--; goto write /* retries with the same id */
		fi
	};
	if
	:: DIES
	:: outcome == PLACED -> atomic { created[id] = 1; won[user] = won[user] || (live[user] == id) }
	:: outcome == DUPLICATE || outcome == SOLD_OUT || outcome == ENDED -> goto correct
#if defined(KEEPS) || defined(LINE)
	:: outcome == GONE && IS_LATE(id) -> goto correct
	:: atomic { outcome == GONE && !IS_LATE(id) -> clear_journal(); let_go(); goto idle }
#endif
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
		assert_not_too_many();
		clear_journal(); let_go(); goto idle
	}
	fi;

again: /* stale: granted again, by place_orders.lua in its other mode; refused once the voucher is retired */
	if
	:: DIES
	:: atomic { ends > 0 -> ends--; goto drain }
#ifdef BREAK_AGAIN
	:: atomic { true -> epoch = pg_epoch; goto write }
#else
	:: RETIRED_IN_PG
	:: atomic {
		CAN_SELL && r_epoch > NEWEST_STALE ->
		if
		:: buyer[user] == id -> epoch = r_epoch; goto write
		:: buyer[user] != id && (buyer[user] != 0 || r_stock == 0) -> skip
#if OTHERS > 0
		:: MAY_BE_ELSEWHERE -> skip
#endif
		:: buyer[user] == 0 && r_stock > 0 ->
			clear_journal();
			redis_grant(id, user); entry_lost[id] = 0;
			if
			:: true -> epoch = r_epoch; grant_run = process; NOTE_NUMBER; goto write
			:: lost_replies > 0 -> lost_replies--; grant_run = 0; goto again /* unaware that it has the order */
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

drain: /* clean shutdown: waiting orders are refused, and Redis is corrected in case it holds them after all */
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
		:: !IS_LIVE(id) -> correct_redis(id, user, DUPLICATE, 0)
#else
		:: !IS_LIVE(id) && buyer[user] == id -> correct_redis(id, user, DUPLICATE, 0)
#endif
		:: else
		:: true -> skip /* Redis is away */
		fi
	}
	fi;
#endif
	atomic { LOCK_ENDS; FORGETS; let_go(); goto idle }
#ifdef BREAK_JUDGE_FIRST
scan: /* the session was judged first; the journal is read only now */
	atomic {
		if
		:: journal[1] && j_session[1] == judged -> id = 1
		:: journal[2] && j_session[2] == judged -> id = 2
		:: else -> judged = 0; goto idle
		fi;
		assert_unbroken(id); MET(SESSION_GONE, true);
		take_up(); judged = 0; goto granted
	}
#endif
}
