/* The per-user lock: the claim, which is buyer[user] in redis.pml, and the session, which identifies an entry's owner.
 *
 * With SESSIONS an entry names the session that holds it, and only that one settles it until it is gone. Without, any
 * holder may settle any entry at any time, which is more than the service does. The promises still hold.
 *
 * Each instance has one session at a time, and a new name after each death. A living session is renewed in time: it loses its
 * key only by its owner's death, a pause longer than the TTL, or a loss of Redis's data.
 */

/* L2: a user has one order in progress at a time, among those granted under the current epoch. */
#if defined(WITHOUT_L2) || defined(IN_PLACE)
#define assert_claim(id, user) skip
#else
#define UNDER_WAY(id) (status[id] <= PAID && (journal[id] || (holders[id] > 0 && status[id] == UNKNOWN)))
#define assert_claim(id, user) \
	assert(!(owner[IDS - (id)] == user && j_epoch[IDS - (id)] == r_epoch && UNDER_WAY(IDS - (id))))
#endif

#ifdef SESSIONS

#define BIRTHS (CRASHES + ENDS)
#define NAMES  (3 + BIRTHS) /* at most 5 */
bit session[NAMES]; /* its key is in Redis */
bit dead[NAMES];    /* its owner is dead or not started: it is not renewed */
bit broken[NAMES];  /* gone, but not just lost by Redis: a judge cannot observe this */
byte j_session[IDS], s_j_session[IDS];
bit settling_in;    /* less than a TTL since Redis started */
#if AWAYS > 0
bit away;           /* the node of the sessions: nobody takes, renews or judges one */
bit acked[NAMES];   /* its SET was acknowledged at some time */
byte aways = AWAYS;
#endif
hidden byte m;

#define lock_name(id) j_session[id] = name

inline lock_init()
{
	session[0] = 1; session[1] = 1; session[2] = 1;
#if AWAYS > 0
	acked[0] = 1; acked[1] = 1; acked[2] = 1;
#endif
	m = 3;
	do
	:: m < NAMES -> dead[m] = 1; m++
	:: else -> break
	od
}

/* The instance comes back under a new name. Its SET is acknowledged before its first purchase. A clean exit deletes the
 * session. */
#if AWAYS > 0
#define LOCK_BORN name = 2 + BIRTHS - crashes - ends; dead[name] = 0; session[name] = !away; acked[name] = !away
#define MAY_SELL acked[name] /* also while the node is away */
#define NODE_AWAY away
#define NODE_LOST(noticed) skip /* the voucher's node has no session */
#else
#define LOCK_BORN name = 2 + BIRTHS - crashes - ends; dead[name] = 0; session[name] = 1
#define MAY_SELL  true
#define NODE_AWAY false
#define NODE_LOST(noticed) lock_lost(noticed)
#endif
#define LOCK_DIES dead[name] = 1; LOCK_BORN
#define LOCK_ENDS dead[name] = 1; session[name] = 0; broken[name] = 1; LOCK_BORN

#if defined(BREAK_SESSION)
#define IS_GONE(n) true
#elif defined(BREAK_SETTLING_IN)
#define IS_GONE(n) (!session[n])
#elif defined(BREAK_AWAY_JUDGED)
#define IS_GONE(n) ((!session[n] && !settling_in) || NODE_AWAY)
#else
#define IS_GONE(n) (!session[n] && !settling_in && !NODE_AWAY)
#endif
#define CAN_TAKE(id)  (journal[id] && j_session[id] != name && IS_GONE(j_session[id]))
#define IS_ORPHAN(id) (journal[id] && j_session[id] == name)

/* L1: while a session lives unbroken, no other instance takes one of its entries. */
#ifdef WITHOUT_L1
#define assert_unbroken(id) skip
#else
#define assert_unbroken(id) assert(broken[j_session[id]])
#endif

/* Redis lost its data. A restart is detected, and implies nothing about the owners. Otherwise lost keys are a break. */
#ifdef BREAK_FLUSHALL
#define IS_BREAK(noticed) false
#else
#define IS_BREAK(noticed) (!noticed)
#endif
inline lock_lost(noticed)
{
	m = 0;
	do
	:: m < NAMES ->
		session[m] = 0; broken[m] = broken[m] || IS_BREAK(noticed) || dead[m]; m++
	:: else -> break
	od;
	settling_in = settling_in || noticed
}

#define CAN_BE_TAKEN(i) (!session[i] && !dead[i] && !NODE_AWAY)
#define IS_BACK(i) (session[i] || dead[i])
#if BIRTHS > 1
#define ALL_BACK (IS_BACK(0) && IS_BACK(1) && IS_BACK(2) && IS_BACK(3) && IS_BACK(4))
#elif BIRTHS > 0
#define ALL_BACK (IS_BACK(0) && IS_BACK(1) && IS_BACK(2) && IS_BACK(3))
#else
#define ALL_BACK (IS_BACK(0) && IS_BACK(1) && IS_BACK(2))
#endif

/* Who settles entries of dead sessions: two instances share the work, and one of them may lose PostgreSQL for good. */
#ifdef ABILITY
bit able[3]; /* by Redis's lists */
bit cut;     /* the second one has lost PostgreSQL */
byte cuts = CUTS;
#define IS_CUT (me == 2 && cut)
#define NONE_ABLE (!able[1] && !able[2])
#if defined(BREAK_FALLBACK)
#define OWNS able[me]
#elif defined(BREAK_ABILITY)
#define OWNS (me == 2) /* the highest hash among the living */
#else
#define OWNS (able[me] || (NONE_ABLE && me == 2))
#endif
#define SWEEPS (me > 0 && OWNS && !IS_CUT)
#else
#define SWEEPS (me == 2)
#endif

proctype Time()
{
	byte i;
end_time:
	do
	:: atomic { /* a TTL after its owner's last renewal */
		if
		:: session[0] && (dead[0] || pauses > 0) -> i = 0
		:: session[1] && (dead[1] || pauses > 0) -> i = 1
		:: session[2] && (dead[2] || pauses > 0) -> i = 2
#if BIRTHS > 0
		:: session[3] && (dead[3] || pauses > 0) -> i = 3
#endif
#if BIRTHS > 1
		:: session[4] && (dead[4] || pauses > 0) -> i = 4
#endif
		fi;
		if
		:: dead[i]
		:: else -> pauses--
		fi;
		session[i] = 0; broken[i] = 1; i = 0
	}
#ifdef ABILITY
	:: atomic { cuts > 0 -> cuts--; cut = 1 }
	:: atomic { cut && able[2] -> able[2] = 0 }
#ifndef NOBODY_ABLE
	:: atomic { !able[1] -> able[1] = 1 }
	:: atomic { !able[2] && !cut -> able[2] = 1 }
#endif
#endif
#if AWAYS > 0
	:: atomic { aways > 0 && !away -> aways--; away = 1 }
	:: atomic { /* it is back, with its data; or as another process, without */
		away ->
		if
		:: true
		:: lock_lost(true)
		fi;
#ifdef BREAK_AWAY_SETTLING
		settling_in = 0;
#else
		settling_in = 1;
#endif
		away = 0
	}
#endif
	:: atomic { /* taken again, under the same name */
		if
		:: CAN_BE_TAKEN(0) -> i = 0
		:: CAN_BE_TAKEN(1) -> i = 1
		:: CAN_BE_TAKEN(2) -> i = 2
#if BIRTHS > 0
		:: CAN_BE_TAKEN(3) -> i = 3
#endif
#if BIRTHS > 1
		:: CAN_BE_TAKEN(4) -> i = 4
#endif
		fi;
		session[i] = 1; broken[i] = 0;
#if AWAYS > 0
		acked[i] = 1;
#endif
		i = 0
	}
	:: atomic { /* a TTL after Redis's start: living owners have theirs again; one paused for that long loses it again */
		settling_in && ALL_BACK && !NODE_AWAY ->
		settling_in = 0;
		i = 0;
		do
		:: i < NAMES -> broken[i] = broken[i] || !session[i]; i++
		:: else -> break
		od;
		i = 0
	}
	od
}

#else
#define lock_init()         skip
#define lock_name(id)       skip
#define LOCK_DIES           skip
#define LOCK_ENDS           skip
#define NODE_LOST(noticed)  skip
#define MAY_SELL            true
#define NODE_AWAY           false
#endif
