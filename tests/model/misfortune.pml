/* Faults of Redis: it returns to an earlier state, is emptied, or is written to by hand. */

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

#ifdef SESSIONS
#define COPY_NAMES(to, from) to[1] = from[1]; to[2] = from[2]
#define CLEAR_NAMES(of)      of[1] = 0; of[2] = 0
#else
#define COPY_NAMES(to, from) skip
#define CLEAR_NAMES(of)      skip
#endif

/* Copies the state, or restores it. After the last loss no restore follows, and the copy is dropped. */
inline remember()
{
	s_state = r_state; s_epoch = r_epoch; s_stock = r_stock; s_opened = opened;
	s_buyer[0] = buyer[0]; s_buyer[1] = buyer[1];
	s_journal[1] = journal[1]; s_j_epoch[1] = j_epoch[1];
	s_journal[2] = journal[2]; s_j_epoch[2] = j_epoch[2];
	COPY_NAMES(s_j_session, j_session);
	returns_saved();
	line_saved()
}

inline forget()
{
	if
	:: losses == 0 ->
		s_state = 0; s_epoch = 0; s_stock = 0; s_opened = 0; s_buyer[0] = 0; s_buyer[1] = 0;
		s_journal[1] = 0; s_j_epoch[1] = 0; s_journal[2] = 0; s_j_epoch[2] = 0;
		CLEAR_NAMES(s_j_session);
		returns_forgotten()
	:: else
	fi
}

inline redis_emptied()
{
	r_state = MISSING; r_epoch = 0; r_stock = 0; opened = 0;
	buyer[0] = 0; buyer[1] = 0; journal[1] = 0; journal[2] = 0; j_epoch[1] = 0; j_epoch[2] = 0;
	CLEAR_NAMES(j_session);
	returns_lost(0);
	line_lost(0)
}

hidden byte n;

proctype Misfortune()
{
end_quiet:
	do
	:: d_step { losses > 0 -> remember() } /* this state will be restored */
	:: d_step { /* rolled back to it: a restart, or a fail-over */
		losses > 0 ->
		losses--;
		note_lost_entries(1);
		r_state = s_state; r_epoch = s_epoch; r_stock = s_stock; opened = s_opened;
		buyer[0] = s_buyer[0]; buyer[1] = s_buyer[1];
		journal[1] = s_journal[1]; j_epoch[1] = s_j_epoch[1];
		journal[2] = s_journal[2]; j_epoch[2] = s_j_epoch[2];
		COPY_NAMES(j_session, s_j_session);
		returns_lost(1);
		line_lost(1);
#ifdef IN_PLACE
		NODE_LOST(false);
#else
		process++; NODE_LOST(true); NUMBERS_AGAIN;
#endif
		forget()
	}
	:: d_step { /* emptied: a new process; separate from the next one, because a d_step allows no choices */
		losses > 0 -> losses--; note_lost_entries(0); redis_emptied(); process++; NODE_LOST(true); NUMBERS_AGAIN; forget()
	}
	:: d_step { /* emptied by FLUSHALL */
		losses > 0 -> losses--; note_lost_entries(0); redis_emptied(); NODE_LOST(false); forget()
	}
#if FORGERIES
	:: atomic { /* an epoch far ahead, possible or impossible: the voucher's, or in the journal */
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
