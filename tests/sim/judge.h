// Whether a world keeps the promises (docs/how-it-works.md, P1 to P7). It reads the stores themselves.
#ifndef SIM_JUDGE_H
#define SIM_JUDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JUDGE_WHY_SIZE = 256 };

// Reads what PostgreSQL's rows must say of each other (tests/judge.sql), and what they must say after what people were
// told (tests/answers.sql), once for all worlds.
void judge_open(const char *rows, const char *answers);
// Holds them against it, which is so at any time: P1, P2, books, moves and payments. A breach fails the world.
void judge_step(void);

// An order whose time to pay was over this many ms ago, with an instance that was well all the time. A breach fails the
// world.
void judge_overdue(uint64_t ms);

// Somebody was told that something was done: then PostgreSQL has it now. A breach fails the world.
struct call;
void judge_done(const struct call *call, size_t number);

// Somebody was told that the service cannot sell now: then there is a reason. A breach fails the world.
void judge_unknown(const struct call *call, size_t number);

// The first dead letter of a voucher that waits; 0: none.
int64_t judge_letter(size_t voucher);

// The status of an order in PostgreSQL; "": it has no such row.
enum { JUDGE_STATUS_SIZE = 16 };
void judge_status(const char *order_id, char status[JUDGE_STATUS_SIZE]);
// P5, at rest: what somebody was told who looked at an order, which had this status before. A breach fails the world.
void judge_look(const struct call *look, bool stranger, const char *before);

// Twice a second. Some seconds after an instance alone has lost PostgreSQL, it must not be ready; if all have lost it,
// each that has Redis must be. A breach fails the world.
void judge_readiness(void);

// Whether PostgreSQL has the order now, and it has not ended; and whether it has the order at all, or a dead letter
// does.
bool judge_is_live(const char *order_id);
bool judge_is_open(const char *order_id); // the same, or it waits
bool judge_is_decided(const char *order_id);

int64_t judge_epoch(int64_t voucher);

// A rebuild has opened a voucher: then Redis has all of its buyers, and who has had all orders that one may have. A
// breach fails the world.
void judge_opened(int64_t voucher);

// The service mends a voucher's books, which differ: then there is a reason. A breach fails the world.
void judge_mended(int64_t voucher);

// Whether no work is pending, and the books balance; `why` describes what is missing.
bool judge_rests(char why[JUDGE_WHY_SIZE]);

// P3 and P5 to P7, at rest: each answer against what the stores have. A breach fails the world.
void judge_answers(void);

// The order feed: each event once, in commit order. Whether all has been read.
bool judge_feed(void);

// Whether a voucher must sell one unit now.
bool judge_sells(size_t voucher);

#endif
