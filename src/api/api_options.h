// Which parts of the interface are on, and how long a purchase may wait.
#ifndef SK_API_API_OPTIONS_H
#define SK_API_API_OPTIONS_H

#include <stdint.h>

struct sk_api_options {
    char *admin_listen;   // host:port for operators alone; NULL: they use the buyers' listener
    int64_t reactors;     // the buyers' reactors; they share an instance's budget for event streams
    int64_t metrics_open; // 0: no, 1: yes
    int64_t pages;        // 0: off, 1: on; `demo`, too
    int64_t demo;
    char *picture_origins; // of vouchers' pictures, as a list of cors.h; NULL: none
    char *login_url;       // where the shop's buyers log in; NULL: the page does not know
    int64_t confirm_timeout_ms;
};

#endif
