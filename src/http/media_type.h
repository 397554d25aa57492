// What a body is said to be.
#ifndef SK_HTTP_MEDIA_TYPE_H
#define SK_HTTP_MEDIA_TYPE_H

#include <stdbool.h>

// Any thread. The value of Content-Type; NULL: there is none.
bool sk_media_type_is_json(const char *type);

#endif
