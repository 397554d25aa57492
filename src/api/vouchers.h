// Questions about vouchers: one, and lists of them. Each call answers its handle once, perhaps before it returns, so
// the request must be waiting by then.
//
// The reactor's thread, as all functions.
#ifndef SK_API_VOUCHERS_H
#define SK_API_VOUCHERS_H

#include "call.h"
#include "page.h"

sk_handle sk_handle_voucher, sk_handle_vouchers, sk_handle_inspect, sk_handle_admin_vouchers;

// A voucher is shown as PostgreSQL had it at most so long ago: a crowd that refreshes its pages costs one statement
// a second.
enum { SK_VOUCHER_SHOWN_MS = 1000 };

// A document that was shown, kept for the questions of the next second.
struct sk_shown {
    char *document; // owned; NULL: none
    uint64_t until_ms;
    int64_t version;
    int64_t voucher_id, change; // of which voucher, and which change of it the catalogue had
};

// The documents that a reactor keeps. Of two vouchers that share a place the later one stays.
enum { SK_SHOWN_MAX = 4096 };
struct sk_voucher_cache {
    struct sk_shown vouchers[SK_SHOWN_MAX]; // each at its id modulo their number
    struct sk_shown list;                   // the first page of GET /vouchers
    char list_next[SK_CURSOR_SIZE];         // where its next page begins
    unsigned pages;                         // other pages of that list that are being read
};

struct sk_voucher_cache *sk_voucher_cache_open(void);        // NULL: out of memory
void sk_voucher_cache_close(struct sk_voucher_cache *cache); // NULL is fine

// FOUND and the voucher; UNKNOWN_VOUCHER; UNAVAILABLE; OVERLOADED.
void sk_show_voucher(struct sk_control *control, int64_t id, uint64_t handle);

// What both stores say of a voucher, side by side: for operators.
void sk_inspect_voucher(struct sk_control *control, int64_t id, uint64_t handle);

// FOUND and a page of vouchers that are open, the newest first; BAD_PARAMETER; UNAVAILABLE; OVERLOADED. The first page
// of the usual length is from memory, at most a second old, because a crowd asks for it; of others, equal questions
// share one answer, and at most 16 are asked for at a time.
void sk_list_vouchers(struct sk_control *control, const struct sk_page_asked *ask, uint64_t handle);

// The same of vouchers in this state; NULL: in any.
void sk_list_admin_vouchers(struct sk_control *control, const char *state, const struct sk_page_asked *ask,
                            uint64_t handle);

#endif
