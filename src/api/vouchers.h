// Queries of one voucher, and of lists of them. Each call answers its handle once, perhaps before it returns, so the
// request must be waiting by then.
//
// The reactor's thread, as all functions.
#ifndef SK_API_VOUCHERS_H
#define SK_API_VOUCHERS_H

#include "call.h"
#include "cursor.h"
#include "page.h"
#include "rates.h"

sk_handle sk_handle_voucher, sk_handle_vouchers, sk_handle_inspect, sk_handle_admin_vouchers;

// How long a voucher's document is cached: a crowd that refreshes its pages costs one statement a second.
enum { SK_VOUCHER_SHOWN_MS = 1000 };

// A cached document.
struct sk_shown {
    char *document; // owned; NULL: none
    uint64_t until_ms;
    int64_t phase_until_ms; // by the wall clock: then a phase in it is another
    int64_t version;
    int64_t voucher_id, change; // its voucher, and the change of it that the catalogue had
};

// A reactor's cached documents. Of two vouchers that share a place, the later one stays.
enum { SK_SHOWN_MAX = 4096 };
struct sk_voucher_cache {
    struct sk_shown vouchers[SK_SHOWN_MAX]; // each at its id modulo SK_SHOWN_MAX
    struct sk_shown list;                   // the first page of GET /vouchers
    char list_next[SK_CURSOR_SIZE];         // cursor of its next page
    unsigned pages;                         // other pages of that list that are being read
    struct sk_pace stale_reads;             // of stale.c
};

struct sk_voucher_cache *sk_voucher_cache_open(void);        // NULL: out of memory
void sk_voucher_cache_close(struct sk_voucher_cache *cache); // NULL is fine

// FOUND and the voucher; UNKNOWN_VOUCHER; UNAVAILABLE; OVERLOADED. While PostgreSQL is away, a voucher of the catalogue
// is shown as stale.h has it, with "stale":true.
void sk_show_voucher(struct sk_control *control, int64_t id, uint64_t handle);

// For operators: the voucher as both stores have it.
void sk_inspect_voucher(struct sk_control *control, int64_t id, uint64_t handle);

// Whether the voucher is on offer: FOUND without a body: the catalogue has it; ENDED: it is retired; UNKNOWN_VOUCHER;
// UNAVAILABLE or OVERLOADED.
void sk_check_offer(struct sk_control *control, int64_t voucher_id, uint64_t handle);

// FOUND and a page of open and paused vouchers, the newest first; BAD_PARAMETER; UNAVAILABLE; OVERLOADED. A crowd asks
// for the first page of the usual length, so that is cached for a second. For other pages equal calls share one answer,
// and at most 16 are read at a time. While a shard is away, the whole page is from the catalogue, as of one voucher.
void sk_list_vouchers(struct sk_control *control, const struct sk_page_asked *ask, uint64_t handle);

// The same for vouchers in this state, and with this text in their title; NULL: any.
enum { SK_VOUCHER_TITLE_MAX = 100 }; // bytes
void sk_list_admin_vouchers(struct sk_control *control, const char *state, const char *title,
                            const struct sk_page_asked *ask, uint64_t handle);

#endif
