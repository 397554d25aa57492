/* The line: users who wait for a unit. An order that waits is PostgreSQL's alone. A unit that returns goes to the next
 * one in the step that returns it. All other units go by an entry of their own: a script takes one, PostgreSQL gives it
 * to the next one, and Redis then gets the buyer, or the unit back.
 */
#ifdef LINE
#ifndef LEAVES
#define LEAVES 0 /* how often an order that waits is cancelled */
#endif
byte leaves = LEAVES;

/* join_orders(), and the cancellation of an order that waits */
proctype Joiner()
{
	byte user;
end_rest:
	do
	:: atomic { asks > 0 && next_id < IDS ->
		if
		:: live[0] == 0 && !WAITS(0) -> user = 0
		:: live[1] == 0 && !WAITS(1) -> user = 1
		fi;
		asks--; owner[next_id] = user; line[user] = next_id; next_id++; user = 0
	}
	:: atomic { leaves > 0 && WAITS(0) -> leaves--; status[line[0]] = CANCELLED; line[0] = 0 }
	:: atomic { leaves > 0 && WAITS(1) -> leaves--; status[line[1]] = CANCELLED; line[1] = 0 }
	od
}

/* ---- units that no return gives away: a `promote` entry in the journal; one at a time in this model ---- */

/* note_return.lua, the move `promoted`: at any time, beside a line that is not empty */
inline note_promote()
{
	r_stock--; p_noted = 1; p_epoch = r_epoch; p_number++
}

/* promote_orders(): once for an entry */
inline pg_promote(number, epoch, outcome, heir)
{
	if
#ifndef BREAK_PROMOTE_EPOCH
	:: epoch != pg_epoch -> outcome = STALE
#endif
	:: else ->
		outcome = RETURNED;
		if
#ifndef BREAK_PROMOTE_TWICE
		:: number <= p_last -> heir = p_heirs[number] /* nobody's, if a later one was carried out before it */
#endif
		:: else ->
			heir = 0;
			if
			:: SOMEONE_WAITS && pg_stock > 0 -> pg_stock--; give_to_next(heir); before[heir] = 0
			:: else
			fi;
			p_last = number; p_heirs[number] = heir
		fi;
		last_heir(heir);
		assert_books()
	fi
}

/* settle_entry.lua: the unit stands in the buyers under its own id until then */
inline settle_promote(number, epoch, heir)
{
	if
	:: !p_noted || p_number != number || r_epoch != epoch /* a rebuild has dealt with it, or will */
	:: else ->
		if
		:: heir != 0 -> buyer[owner[heir]] = heir; MET(PROMOTES_ONE, true)
		:: heir == 0 -> unit_comes()
		fi;
		p_noted = 0; p_epoch = 0
	fi
}

#define P_FAILS atomic { crashes > 0 -> crashes--; number = 0; epoch = 0; heir = 0; outcome = 0; goto idle }

/* Promoter(1) only takes entries from the journal. */
proctype Promoter(bit me)
{
	byte number, epoch, heir, outcome;
end_idle:
idle:
	atomic {
		if
		:: me == 0 && CAN_SELL && r_stock > 0 && SOMEONE_WAITS && NO_PROMOTION && p_number < PROMOTES - 1 -> note_promote()
		:: me == 1 && CAN_SELL && p_noted
		fi;
		number = p_number; epoch = p_epoch
	};
	if
	:: true
	:: P_FAILS
	fi;
write:
	atomic {
		pg_promote(number, epoch, outcome, heir);
		if
		:: true
		:: lost_replies > 0 -> lost_replies--; goto write
		fi
	};
	if
	:: P_FAILS
	:: atomic { outcome == STALE -> number = 0; epoch = 0; heir = 0; outcome = 0; goto idle } /* a rebuild drops it */
	:: atomic { outcome == RETURNED && (heir == 0 || MAY_INSTALL(heir) || r_epoch != epoch || !p_noted || p_number != number) ->
		settle_promote(number, epoch, heir); assert(r_stock <= UNITS);
		number = 0; epoch = 0; heir = 0; outcome = 0; goto idle
	}
	:: atomic { outcome == RETURNED && HAS_ENDED(heir) && !MAY_INSTALL(heir) -> MET(ASKS_AGAIN, true); goto write }
	fi
}

inline line_saved() { s_p_noted = p_noted; s_p_epoch = p_epoch }
inline line_lost(keeps)
{
	p_noted = keeps && s_p_noted && s_p_epoch == p_epoch; /* the model has one entry: an older one is not kept */
	p_epoch = (p_noted -> p_epoch : 0)
}

#else
#define line_saved() skip
#define line_lost(keeps) skip
#endif
