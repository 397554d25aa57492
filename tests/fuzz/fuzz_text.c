// Ids, numbers, names, times and cursors. Each parser is checked against a second, independent implementation, and
// accepted values must be printed as they were read.
#include "text.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

#include "cursor.h"
#include "fuzz.h"
#include "uuid.h"

static void number_must_be_right(const char *text, uint64_t most)
{
    uint64_t value = 0;
    bool is = sk_text_number(text, most, &value);
    bool digits = text[0] != '\0' && strspn(text, "0123456789") == strlen(text);
    errno = 0;
    uint64_t expected = digits ? strtoull(text, NULL, 10) : 0;
    bool should = digits && errno == 0 && expected <= most && (text[0] != '0' || text[1] == '\0');
    MUST(is == should);
    MUST(!is || value == expected);
}

static void voucher_id_must_be_right(const char *text)
{
    int64_t id = 0;
    char printed[24];
    if (!sk_text_voucher_id(text, &id))
        return;
    (void)snprintf(printed, sizeof printed, "%" PRId64, id);
    MUST(id > 0);
    MUST(strcmp(printed, text) == 0);
}

static void user_must_be_right(const char *text)
{
    size_t n = 0;
    while (isalnum((unsigned char)text[n]) || (text[n] != '\0' && strchr("_.-", text[n]) != NULL))
        n++;
    MUST(sk_text_user(text) == (n >= 1 && n <= SK_USER_MAX && text[n] == '\0'));
}

// Every accepted time can be printed, and is then read as the same time.
static void time_must_be_right(const char *text)
{
    int64_t unix_ms = -1, again = -1;
    char shown[SK_TIME_SIZE], twice[SK_TIME_SIZE];
    if (!sk_text_time(text, &unix_ms))
        return;
    MUST(unix_ms >= 0);
    sk_text_put_time(unix_ms, shown);
    MUST(strlen(shown) == SK_TIME_SIZE - 1);
    MUST(sk_text_time(shown, &again));
    MUST(again == unix_ms);
    sk_text_put_time(again, twice);
    MUST(strcmp(shown, twice) == 0);
}

static void uuid_must_be_right(const char *text)
{
    unsigned a, b, c, d;
    uint64_t e;
    int end = -1;
    char printed[64] = "";
    if (sscanf(text, "%8x-%4x-%4x-%4x-%12" SCNx64 "%n", &a, &b, &c, &d, &e, &end) == 5)
        (void)snprintf(printed, sizeof printed, "%08x-%04x-%04x-%04x-%012" PRIx64, a, b, c, d, e);
    MUST(sk_uuid_valid(text) == (strlen(text) == SK_UUID_CHARS && strcmp(printed, text) == 0));
    // What is read in another form differs from it in case and dashes only.
    char read[SK_UUID_SIZE];
    if (sk_uuid_read(text, strlen(text), read)) {
        size_t at = 0;
        MUST(sk_uuid_valid(read));
        for (size_t i = 0; read[i] != '\0'; i++)
            at += (size_t)(tolower((unsigned char)text[at]) == read[i]);
        MUST(text[at] == '\0');
    } else {
        MUST(!sk_uuid_valid(text));
    }
}

// Each position has only one accepted text, and a cursor of one kind is no cursor of another.
static void cursor_must_be_right(const char *text)
{
    int kinds = 0;
    for (int kind = SK_CURSOR_ORDERS; kind < SK_CURSOR_KINDS; kind++) {
        struct sk_position position;
        char again[SK_CURSOR_SIZE];
        if (!sk_cursor_read(text, (enum sk_cursor_kind)kind, "alice", &position, 1))
            continue;
        sk_cursor_put(again, (enum sk_cursor_kind)kind, "alice", &position, 1);
        MUST(strcmp(again, text) == 0);
        kinds++;
    }
    MUST(kinds <= 1);
}

// Every position survives being written as a cursor and read.
static void position_must_come_back(const uint8_t *data, size_t size)
{
    struct sk_position position = {0}, read;
    char text[SK_CURSOR_SIZE], id[SK_UUID_SIZE];
    memcpy(&position, data, size < sizeof position ? size : sizeof position);
    sk_cursor_put(text, SK_CURSOR_ORDERS, "alice", &position, 1);
    MUST(sk_cursor_read(text, SK_CURSOR_ORDERS, "alice", &read, 1));
    MUST(read.first == position.first && read.second == position.second);
    sk_position_put_uuid(&position, id);
    MUST(sk_uuid_valid(id));
    read = sk_position_of_uuid(id);
    MUST(read.first == position.first && read.second == position.second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint64_t bounds[] = {0, 1, 9, 10, 65535, INT64_MAX, UINT64_MAX - 1, UINT64_MAX};
    char *text = fuzz_text(data, size);
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++)
        number_must_be_right(text, bounds[i]);
    voucher_id_must_be_right(text);
    user_must_be_right(text);
    time_must_be_right(text);
    uuid_must_be_right(text);
    cursor_must_be_right(text);
    position_must_come_back(data, size);
    free(text);
    return 0;
}
