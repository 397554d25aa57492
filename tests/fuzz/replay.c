// Replaces libFuzzer where clang is missing: runs a target once with each case of the named files. So every test run
// repeats past findings. tests/fuzz/cases explains the form of the files.
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>

#include "fuzz.h"

enum { FILE_MAX_BYTES = 1 << 20, CASE_MAX_BYTES = 1 << 20 };

struct input {
    uint8_t bytes[CASE_MAX_BYTES];
    size_t size;
};

static void append(struct input *input, const uint8_t *bytes, size_t size)
{
    MUST(size <= sizeof input->bytes - input->size);
    memmove(input->bytes + input->size, bytes, size);
    input->size += size;
}

static const char *skip_blanks(const char *at)
{
    for (;;) {
        at += strspn(at, " \t\r\n");
        if (*at != '#')
            return at;
        at += strcspn(at, "\n");
    }
}

static int hex_digit(char digit)
{
    const char digits[] = "0123456789abcdef";
    const char *found = digit == '\0' ? NULL : strchr(digits, digit);
    MUST(found != NULL);
    return (int)(found - digits);
}

// Reads what follows a backslash.
static const char *read_escape(const char *at, uint8_t *byte)
{
    static const char letters[] = "nrt\\\"", meant[] = "\n\r\t\\\"";
    if (*at == 'x') {
        int high = hex_digit(at[1]);
        *byte = (uint8_t)(high * 16 + hex_digit(at[2]));
        return at + 3;
    }
    const char *found = *at == '\0' ? NULL : strchr(letters, *at);
    MUST(found != NULL);
    *byte = (uint8_t)meant[found - letters];
    return at + 1;
}

// Reads what follows a piece's opening quote.
static const char *read_piece(const char *at, struct input *input)
{
    size_t start = input->size;
    while (*at != '"') {
        uint8_t byte = (uint8_t)*at;
        MUST(byte != '\0' && byte != '\n');
        at++;
        if (byte == '\\')
            at = read_escape(at, &byte);
        append(input, &byte, 1);
    }
    at = skip_blanks(at + 1);
    if (*at != '*')
        return at;
    char *end;
    size_t size = input->size - start;
    long times = strtol(at + 1, &end, 10);
    MUST(times > 0);
    while (--times > 0)
        append(input, input->bytes + start, size);
    return skip_blanks(end);
}

static size_t name_length(const char *at)
{
    size_t length = 0;
    while (isalnum((unsigned char)at[length]) || (at[length] != '\0' && strchr("_.-", at[length]) != NULL))
        length++;
    return length;
}

static size_t replay(const char *at)
{
    static struct input input;
    size_t count = 0;
    for (at = skip_blanks(at); *at != '\0'; count++) {
        size_t length = name_length(at);
        MUST(length > 0);
        (void)fprintf(stderr, "%.*s\n", (int)length, at); // the last case printed is the one that failed
        at = skip_blanks(at + length);
        MUST(*at == '"');
        input.size = 0;
        while (*at == '"')
            at = read_piece(at + 1, &input);
        (void)LLVMFuzzerTestOneInput(input.bytes, input.size);
    }
    return count;
}

static size_t replay_file(const char *path)
{
    static char text[FILE_MAX_BYTES];
    FILE *file = fopen(path, "rbe");
    MUST(file != NULL);
    size_t size = fread(text, 1, sizeof text - 1, file);
    MUST(!ferror(file) && feof(file));
    (void)fclose(file);
    text[size] = '\0';
    return replay(text);
}

int main(int argc, char **argv)
{
    size_t count = 0;
    if (LLVMFuzzerInitialize != NULL)
        (void)LLVMFuzzerInitialize(&argc, &argv);
    for (int i = 1; i < argc; i++)
        count += replay_file(argv[i]);
    (void)printf("%zu cases\n", count);
    return count > 0 ? 0 : 1;
}
