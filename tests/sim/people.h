// The people of a world: buyers, and an operator. What they do is drawn from the world's dice; what they were told is
// kept, for the judge.
#ifndef SIM_PEOPLE_H
#define SIM_PEOPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "uuid.h"

enum { USERS_MAX = 8, VOUCHERS_MAX = 3, CALLS_MAX = 4096, CODE_SIZE = 32, USER_SIZE = 16 };

enum call_kind {
    CALL_CREATE,
    CALL_BUY,
    CALL_PAY,
    CALL_EXTEND,
    CALL_CANCEL,
    CALL_REFUND,
    CALL_LOOK,
    CALL_REPEATED, // a look for the first answer again
    CALL_WAIT,     // a long poll
    CALL_LIST,
    CALL_PAUSE,
    CALL_RESUME,
    CALL_CLOSE,
    CALL_ADD,
    CALL_PRICE,
    CALL_REBUILD,
    CALL_SETTLEMENT,
    CALL_VOUCHER,
    CALL_VOUCHERS,
    CALL_LISTS, // an operator's, one of them
    CALL_REQUEUE,
    CALL_WRITE_OFF,
    CALL_HOLD, // expiry
    CALL_RELEASE,
    CALL_FEED,
    CALL_KINDS
};

enum call_outcome {
    CALL_WAITS,
    CALL_DONE,    // 200, 201
    CALL_TAKEN,   // 202
    CALL_REFUSED, // anything definite
    CALL_UNKNOWN, // 503, or no answer: it may have happened
};

struct call {
    enum call_kind kind;
    enum call_outcome outcome;
    char code[CODE_SIZE]; // of the answer
    uint64_t asked_at, ended_at;
    size_t instance; // where it was made ...
    uint64_t life;   // ... and in which life; 0: nowhere
    size_t voucher;
    char user[USER_SIZE];
    unsigned quantity;
    int64_t units;
    char order_id[SK_UUID_SIZE]; // that it asked about, or got; "": none
    char status[CODE_SIZE];      // of an order, in the answer; "": none
    bool low_priority;
    bool waits;          // it joins the line if there is no unit
    unsigned key;        // Idempotency-Key; 0: none
    int64_t price_cents; // of the order, in the answer; -1: none
    size_t repeats;      // a call that is made once more, under its reference; 0: none
};

struct sold {   // a voucher
    int64_t id; // 0: not created yet
    int64_t stock, price_cents;
    unsigned limit;
    int64_t epoch; // when its first order was placed; 0: none was
};

struct plan;

// Borrows the plan. The last of them has left by a few seconds after it.
void people_open(const struct plan *plan);
void people_begin(void);

size_t people_calls(void);
const struct call *people_call(size_t i);
// The key or reference under which it is made: that of the call that it repeats, if it repeats one.
enum { REFERENCE_SIZE = 24 };
void people_reference(const struct call *call, char out[REFERENCE_SIZE]);
size_t people_vouchers(void);
const struct sold *people_voucher(size_t i);
const char *people_kind(enum call_kind kind);
// A voucher's key in Redis: its part "buyers", "journal" ...
enum { PEOPLE_KEY_SIZE = 72 };
void people_key(int64_t voucher, const char *part, char out[PEOPLE_KEY_SIZE]);
bool people_instance_died(const struct call *call); // after the call was made
bool people_wait(void);                             // for an answer
// Somebody has deleted in Redis who the buyers are: until an audit finds that, winners are not told so.
void people_forget_buyers(void);
bool people_buyers_forgotten(void);

// What the reader of the order feed has read, in its order: "ID EVENT" each, of an order or a voucher.
// people_read_feed() asks for one page more.
size_t people_feed(const char ***events);
const char *people_feed_status(const char *order_id); // of an order in its last event; NULL: it has none
void people_read_feed(void);

// A look at the order that a call got, by its user or by a stranger. Returns the call's number.
size_t people_look(size_t bought, bool stranger);
// The operator decides about the dead letters that are left.
void people_write_off_all(void);

// A purchase by somebody new, at an instance that is on. Returns the call's number.
size_t people_try(size_t voucher);

#endif
