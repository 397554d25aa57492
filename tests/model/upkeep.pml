/* Maintenance: reconcile and retiring. */

/* ---- reconcile ---- */

#define FIRST_FIRST (me == 0 || pg_epoch > 1)
#define GIVES_UP atomic { crashes > 0 -> crashes--; goto rest }

/* rebuild_begin.lua */
inline redis_begin(mine)
{
	if
	:: r_state != MISSING && r_epoch >= mine && r_epoch != CANNOT_BE -> goto rest
	:: else -> r_state = LOADING; r_epoch = mine; buyer[0] = 0; buyer[1] = 0
	fi
}

/* XDEL. An overtaken reconcile drops an entry that is already gone. */
inline rebuild_xdel(id, mine)
{
	if
	:: STILL_OURS(mine) -> journal[id] = 0
	:: else
	fi
}

proctype Reconciler(bit me)
{
	byte mine, stock, outcome, count, instead, whose;
	RETURN_IN_HAND
	byte had[USERS];
	goto end_rest;
rest:
	busy--;
end_rest:
	/* The voucher is missing, closed, of another run, or behind PostgreSQL; or an admin requests it. A retired one stays retired. */
	atomic {
		if
		:: FIRST_FIRST && !RETIRED_IN_PG && busy == 0 && (r_state != OPEN || opened != process || r_epoch != pg_epoch)
		:: FIRST_FIRST && !RETIRED_IN_PG && reconciles > 0 -> reconciles--
#if FORGERIES
		:: FIRST_FIRST && busy == 0 && WANTS(0) -> whose = 0
		:: FIRST_FIRST && busy == 0 && WANTS(1) -> whose = 1
		:: FIRST_FIRST && busy == 0 && WANTS(2) -> whose = 2
#endif
		fi;
		busy++;
#if FORGERIES
		/* Above Redis's epoch, unless that is impossible. */
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
	atomic { redis_begin(mine) };
settle:
	if
	:: GIVES_UP
#ifndef BREAK_JOURNAL
	:: atomic { journal[1] -> pg_place(1, mine, outcome, instead) };
		if
		:: outcome == STALE -> goto rest
		:: else -> atomic { rebuild_xdel(1, mine) }; goto settle
		fi
	:: atomic { journal[2] -> pg_place(2, mine, outcome, instead) };
		if
		:: outcome == STALE -> goto rest
		:: else -> atomic { rebuild_xdel(2, mine) }; goto settle
		fi
	settle_returns(mine)
#ifdef LINE
	:: atomic { p_noted -> /* its unit is in PostgreSQL's stock, or its heir is live */
		if
		:: STILL_OURS(mine) -> p_noted = 0; p_epoch = 0
		:: else
		fi;
		goto settle
	}
#endif
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
	atomic { /* rebuild_open.lua */
		if
		:: r_state != LOADING || r_epoch != mine -> goto rest
#ifndef BREAK_COUNT
		:: r_state == LOADING && r_epoch == mine && (buyer[0] != 0) + (buyer[1] != 0) != count -> goto rest
#endif
#ifndef BREAK_JOURNAL
		:: r_state == LOADING && r_epoch == mine && !NO_JOURNAL -> goto settle
#endif
		:: else ->
			r_stock = stock; r_state = OPEN; opened = process; REOPEN_BY_REBUILD;
#if FORGERIES && !defined(BREAK_REMEMBER)
			stale[whose] = 0; /* in any case Redis is up to date now */
#endif
			goto rest
		fi
	}
}

/* ---- retiring: the sale has ended, the journal is empty, no work is open ---- */

#ifdef RETIRES
#define SALE_IS_OVER (asks == 0)

proctype Retirer()
{
	byte mine, outcome, instead;
	RETURN_IN_HAND
	goto end_rest;
rest:
	busy--;
end_rest:
	atomic {
		if
		:: SALE_IS_OVER && CAN_SELL && NO_JOURNAL && !RETIRED_IN_PG && busy == 0 -> busy++; mine = pg_epoch
		:: RETIRED_IN_PG && !IS_RETIRED && busy == 0 -> busy++; goto drop /* the mark is missing, or Redis went backwards */
		fi;
#if !defined(BREAK_RETIRE_EPOCH) && !defined(RETIRE_WITHOUT_FENCE)
		pg_epoch++; mine = pg_epoch;
		assert(pg_epoch < EPOCHS)
#endif
	};
#if !defined(BREAK_RETIRE_EPOCH) && !defined(RETIRE_WITHOUT_FENCE)
	if
	:: true
	:: GIVES_UP
	fi;
	atomic { redis_begin(mine) };
settle:
	if
	:: GIVES_UP
	:: atomic { journal[1] -> pg_place(1, mine, outcome, instead) };
		if
		:: outcome == STALE -> goto rest
		:: else -> atomic { rebuild_xdel(1, mine) }; goto settle
		fi
	:: atomic { journal[2] -> pg_place(2, mine, outcome, instead) };
		if
		:: outcome == STALE -> goto rest
		:: else -> atomic { rebuild_xdel(2, mine) }; goto settle
		fi
	settle_returns(mine)
	:: atomic { NO_JOURNAL -> skip }
	fi;
#endif
	atomic {
		if
		:: pg_epoch != mine -> goto rest
		:: else ->
			pg_retired = 1;
#if !defined(BREAK_RETIRE_EPOCH) && !defined(RETIRE_RAISES_ONCE)
			pg_epoch++
#endif
		fi
	};
	if
	:: true
	:: GIVES_UP
	fi;
drop: /* PostgreSQL knows the orders in the journal, or refuses them. */
	if
	:: GIVES_UP
	:: atomic { journal[1] -> pg_refuse(1) }; atomic { journal[1] = 0; goto drop }
	:: atomic { journal[2] -> pg_refuse(2) }; atomic { journal[2] = 0; goto drop }
	return_retired()
	:: atomic { NO_JOURNAL ->
		r_state = AT_AN_END; r_epoch = pg_epoch; r_stock = 0; opened = process;
		buyer[0] = 0; buyer[1] = 0; j_epoch[1] = 0; j_epoch[2] = 0;
		goto rest
	}
	fi
}
#endif
