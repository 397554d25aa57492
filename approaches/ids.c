#include "ids.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

uint64_t ids_now_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

void ids_keep(struct worker *worker, uint64_t began_us, const char *id)
{
    long n = atomic_fetch_add(&worker->shared->id_count, 1);
    if (n >= IDS_MAX)
        return;
    struct given_id *given = &worker->shared->ids[n];
    (void)snprintf(given->text, sizeof given->text, "%s", id);
    given->began_us = began_us;
    given->ended_us = ids_now_us();
}

static int by_text(const void *a, const void *b)
{
    const struct given_id *one = a, *other = b;
    return strcmp(one->text, other->text);
}

static int by_time(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int by_beginning(const void *a, const void *b)
{
    const struct given_id *const *one = a, *const *other = b;
    return by_time((*one)->began_us, (*other)->began_us);
}

static int by_end(const void *a, const void *b)
{
    const struct given_id *const *one = a, *const *other = b;
    return by_time((*one)->ended_us, (*other)->ended_us);
}

// Walks in order of time: `newest` is the greatest id that was returned more than `since_us` before this one was
// requested.
static double share_out_of_order(const struct given_id *ids, long count, uint64_t since_us)
{
    const struct given_id **begun = malloc((size_t)count * sizeof(void *)),
                          **ended = malloc((size_t)count * sizeof(void *));
    const char *newest = "";
    long out_of_order = 0;
    for (long i = 0; begun != NULL && ended != NULL && i < count; i++)
        begun[i] = ended[i] = &ids[i];
    if (begun != NULL && ended != NULL) {
        qsort(begun, (size_t)count, sizeof(void *), by_beginning);
        qsort(ended, (size_t)count, sizeof(void *), by_end);
        for (long i = 0, had = 0; i < count; i++) {
            for (; ended[had]->ended_us + since_us < begun[i]->began_us; had++) {
                if (strcmp(ended[had]->text, newest) > 0)
                    newest = ended[had]->text;
            }
            out_of_order += strcmp(begun[i]->text, newest) < 0;
        }
    }
    free(begun);
    free(ended);
    return 100.0 * (double)out_of_order / (double)count;
}

long ids_judge(struct shared *shared, struct result *result)
{
    long count = atomic_load(&shared->id_count), twice = 0;
    count = count > IDS_MAX ? IDS_MAX : count;
    if (count == 0)
        return 0;
    (void)snprintf(result->notes, NOTES_SIZE,
                   "%.1f %% of the ids are smaller than one that was had before, %.1f %% than one had 2 ms before",
                   share_out_of_order(shared->ids, count, 0), share_out_of_order(shared->ids, count, 2000));
    qsort(shared->ids, (size_t)count, sizeof shared->ids[0], by_text);
    for (long i = 1; i < count; i++)
        twice += strcmp(shared->ids[i - 1].text, shared->ids[i].text) == 0;
    return twice;
}
