/* The judge, and a client that reads an order. */

inline judge(id)
{
	assert(!created[id] || IS_LIVE(id) || status[id] >= CANCELLED); /* P3 */
	MET(3, created[id]);
	/* P5, P7: only an order lost twice has no end */
	assert(!accepted[id] || status[id] != UNKNOWN || lost_twice[id]);
	MET(5, accepted[id] && (entry_lost[id] || holder_died[id]) && status[id] != UNKNOWN);
	unended = unended + (accepted[id] && status[id] == UNKNOWN);
	judge_return(id)
}

#define IS_WHOLE ((CAN_SELL && r_epoch == pg_epoch) || IS_RETIRED)

proctype Judge()
{
	byte unended;
end_waiting:
	do
	:: atomic {
		losses == 0 && NONE_RETURNING && holders[1] == 0 && holders[2] == 0 && NO_JOURNAL && IS_WHOLE ->
		judge(1); judge(2);
		/* ... and no more of those than instances that died or gave up, and none if Redis loses nothing */
		assert(unended <= CRASHES - crashes + LOST_REPLIES - lost_replies && (unended == 0 || LOSSES > 0));
		unended = 0;
#if !defined(IN_PLACE) && !defined(WITHOUT_P4)
		if
		:: IS_RETIRED
		:: else ->
			assert(r_stock == pg_stock); /* P4: no unit undersold or offered twice */
			assert(buyer[0] == live[0] && buyer[1] == live[1]);
			MET(4, status[1] >= REFUSED || status[2] >= REFUSED)
		fi
#endif
	}
	:: timeout -> assert(false) /* P5: work is left that nothing will end */
	od
}

#ifdef URLS
/* GET /orders/{id}: PostgreSQL, then Redis, then PostgreSQL again. 404 if neither has it and no instance can. */
#if defined(BREAK_404_BY_TIME)
#define NO_INSTANCE_HAS_IT true
#elif defined(BREAK_404_RETIRED)
#define NO_INSTANCE_HAS_IT (id_epoch[id] >= r_epoch || r_state == AT_AN_END)
#else
#define NO_INSTANCE_HAS_IT (id_epoch[id] >= r_epoch)
#endif

proctype Client()
{
	byte id;
	bit was_accepted;
end_content:
	do
	:: atomic {
		if
		:: status[1] == UNKNOWN -> id = 1
		:: status[2] == UNKNOWN -> id = 2
		fi;
		was_accepted = accepted[id];
		if
		:: was_accepted
		:: else -> id_epoch[id] = r_epoch /* made up, with a plausible epoch */
		fi
	};
	atomic {
		if
		:: (CAN_SELL || IS_RETIRED) && !journal[id] && buyer[owner[id]] != id && NO_INSTANCE_HAS_IT
		:: else -> /* 202, or 503 with Retry-After */
			MET(MAYBE, (CAN_SELL || IS_RETIRED) && !journal[id] && buyer[owner[id]] != id && !NO_INSTANCE_HAS_IT);
			goto content
		fi
	};
	atomic {
		if
		:: status[id] == UNKNOWN -> assert(!was_accepted); MET(NOT_FOUND, true) /* P5: 404 */
		:: else
		fi
	};
content:
	atomic { id = 0; was_accepted = 0 }
	od
}
#endif
