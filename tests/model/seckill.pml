/* The protocol of one voucher: placing, settling, fencing, recovery, granting again, compensation, reconcile, retiring.
 *
 * Each atomic step is one step of the real system: a Lua script in Redis, a statement in PostgreSQL.
 * Between two steps anything may happen: another process moves, an instance dies, Redis loses its data.
 *
 * Two users (with ONE_USER only the first one asks), UNITS units, at most two orders, in ASKS requests. The macros below
 * limit the events. BREAK_... removes one guard, and must fail. README.md explains how to read this.
 */
#ifndef UNITS
#define UNITS 1
#endif
#ifndef ASKS
#define ASKS 2 /* requests, repeats included */
#endif
#ifndef CRASHES
#define CRASHES 1 /* instances and reconciles that die */
#endif
#ifndef ENDS
#define ENDS 0 /* instances that exit cleanly while an order waits to be granted again */
#endif
#ifndef LOSSES
#define LOSSES 1 /* how often Redis goes backwards or is emptied */
#endif
#ifndef LOST_REPLIES
#define LOST_REPLIES 0 /* executed commands whose reply was lost */
#endif
#ifndef RECONCILES
#define RECONCILES 2 /* in addition to the necessary ones */
#endif
#ifndef RETURNS
#define RETURNS 0 /* requested returns */
#endif
#ifndef PAYS
#define PAYS 0 /* payments that arrive */
#endif
#ifndef RESUMES
#define RESUMES 0 /* how often the sale is paused and resumed */
#endif
#ifndef FORGERIES
#define FORGERIES 0 /* epochs written into Redis by hand */
#endif
#ifndef PAUSES
#define PAUSES 0 /* instances paused for longer than a session's TTL */
#endif
#ifndef CUTS
#define CUTS 0 /* how often the second of two that share the work loses PostgreSQL */
#endif
#ifndef OTHERS
#define OTHERS 0 /* how often an order of another voucher in the scope is placed or ends */
#endif
#ifndef AWAYS
#define AWAYS 0 /* how often the node of the sessions goes away: it is another node than the voucher's */
#endif

#define FAR_AHEAD 9  /* a never used epoch, and */
#define CANNOT_BE 40 /* one that is out of range: it is overwritten, not outdone */
#define NO_EPOCH  41 /* in a return once the voucher is retired */
#define EPOCHS    20 /* more than any run uses, unless reconciles never end */
#define USERS     2
#define IDS       3 /* order ids from 1; 0 is none */

byte asks = ASKS, crashes = CRASHES, ends = ENDS, losses = LOSSES, lost_replies = LOST_REPLIES, reconciles = RECONCILES;
byte returns = RETURNS, pays = PAYS, forgeries = FORGERIES, pauses = PAUSES, resumes = RESUMES;
byte next_id = 1;
byte busy; /* reconciles in progress: more than one only while `reconciles` lasts */

#include "told.pml"
#include "postgres.pml"
#include "scope.pml"
#include "lock.pml"
#include "redis.pml"
#include "returns.pml"
#include "line.pml"
#include "instance.pml"
#include "upkeep.pml"
#include "misfortune.pml"
#include "judge.pml"

init {
	atomic {
		lock_init();
		run Holder(0); run Holder(1); run Holder(2); run Reconciler(0); run Reconciler(1); run Misfortune(); run Judge();
#if RETURNS
		run Returner(0); run Returner(1);
#endif
#if PAYS
		run Payer();
#endif
#if OTHERS > 0
		run Others();
#endif
#ifdef LINE
		run Joiner(); run Promoter(0); run Promoter(1);
#endif
#ifdef MARKS
		run Hold();
#endif
#if RESUMES
		run Operator();
#endif
#ifdef RETIRES
		run Retirer();
#endif
#ifdef URLS
		run Client();
#endif
#ifdef SESSIONS
		run Time()
#else
		skip
#endif
	}
}
