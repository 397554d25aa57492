// Probes (USDT): named places where bpftrace, perf or SystemTap can look into a running instance. Each is one `nop` and
// a note in the binary. An unused probe costs nothing but its arguments, which must be at hand. docs/upkeep.md
// lists the probes, and tests/probes compares the list. deploy/trace/ has scripts that use them.
//
// A build without <sys/sdt.h> has no probes.
#ifndef SK_BASE_PROBE_H
#define SK_BASE_PROBE_H

#ifdef SK_PROBES
#include <sys/sdt.h>
#define SK_PROBE2(name, a, b)       STAP_PROBE2(seckill, name, a, b)
#define SK_PROBE3(name, a, b, c)    STAP_PROBE3(seckill, name, a, b, c)
#define SK_PROBE4(name, a, b, c, d) STAP_PROBE4(seckill, name, a, b, c, d)
#else
#define SK_PROBE4(name, a, b, c, d) \
    do {                            \
        if (0) {                    \
            (void)(a);              \
            (void)(b);              \
            (void)(c);              \
            (void)(d);              \
        }                           \
    } while (0)
#define SK_PROBE3(name, a, b, c) SK_PROBE4(name, a, b, c, 0)
#define SK_PROBE2(name, a, b)    SK_PROBE4(name, a, b, 0, 0)
#endif

#endif
