// The files of web/, which CMake has embedded in C (embed_pages.cmake), each as it is and packed by gzip.
#ifndef SK_API_EMBEDDED_PAGES_H
#define SK_API_EMBEDDED_PAGES_H

#include <stddef.h>

struct sk_embedded_page {
    const char *path; // of its URL
    const char *type; // its media type
    const unsigned char *text;
    size_t len;
    const unsigned char *packed; // NULL: it would be no shorter
    size_t packed_len;
};

extern const struct sk_embedded_page sk_embedded_pages[];
extern const size_t sk_embedded_page_count;

#endif
