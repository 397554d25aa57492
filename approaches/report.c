#include "report.h"

#include <jansson.h>
#include <stdio.h>

static const char *const trouble_names[TROUBLES] = {
    "lost_update",
    "oversold",
    "duplicate",
    "stuck",
    "stuck_between_commands",
    "two_inside_when_slow",
    "two_inside_when_paused",
    "frees_anothers_lock",
    "forgets_on_restart",
    "trusts_clocks",
    "one_server_decides",
    "two_inside_at_takeover",
    "two_inside_after_failover",
    "loses_a_unit",
    "turns_buyers_away",
    "waits_for_itself",
};

// ---- beforehand ----

#define CLAIM "%-3s %-48s %-16s %-54s %s\n"

void report_claim_head(void)
{
    printf(CLAIM, "", "approach", "from", "what is said of it", "what we predict");
}

void report_claim(const struct approach *approach)
{
    static const char *const words[TROUBLES] = {
        "loses updates",
        "oversells",
        "sells twice",
        "stuck",
        "stuck between commands",
        "two if slow",
        "two if paused",
        "frees other's",
        "two if server empty",
        "two if clock stepped",
        "one server decides",
        "two at takeover",
        "two after fail-over",
        "loses a unit",
        "turns away",
        "waits for itself",
    };
    char number[8], troubles[NOTES_SIZE] = "";
    size_t len = 0;
    (void)snprintf(number, sizeof number, "%d", approach->number);
    for (int i = 0; i < TROUBLES; i++) {
        if ((approach->predicted & (1U << i)) != 0 && len < sizeof troubles)
            len += (size_t)snprintf(troubles + len, sizeof troubles - len, "%s%s", len == 0 ? "" : ", ", words[i]);
    }
    printf(CLAIM, number, approach->title, approach->source, approach->claim,
           len == 0 ? "nothing goes wrong" : troubles);
}

// ---- the table ----

enum { COLUMNS = 21, CELL_SIZE = 16 };

static void put_row(const char *const cells[COLUMNS])
{
    static const int widths[COLUMNS] = {-3, -48, -16, 8, 6, 6, 5, 6, 6, 8, 8, 5, 5, 6, 6, 7, 6, 6, 6, 6, 0};
    for (int i = 0; i < COLUMNS; i++)
        printf("%*s%s", widths[i], cells[i], i + 1 < COLUMNS ? " " : "\n");
}

void report_head(void)
{
    static const char *const upper[COLUMNS] = {"",       "",      "",       "",       "lost",  "over-", "",
                                               "turned", "wait",  "killed", "killed", "unit",  "",      "",
                                               "take-",  "frees", "server", "fail-",  "clock", "",      ""};
    static const char *const lower[COLUMNS] = {
        "",     "approach", "from",   "buys/s", "upd.",  "sold",  "twice", "away",  "ms",    "goes on",      "between",
        "lost", "slow",     "paused", "over",   "other", "empty", "over",  "steps", "again", " as predicted"};
    put_row(upper);
    put_row(lower);
}

static const char *number(char out[CELL_SIZE], long value)
{
    (void)snprintf(out, CELL_SIZE, "%ld", value);
    return out;
}

static const char *going_on(char out[CELL_SIZE], long ms)
{
    if (ms == NOT_TRIED)
        return "-";
    if (ms == NEVER)
        return "NEVER";
    (void)snprintf(out, CELL_SIZE, "%ld ms", ms);
    return out;
}

static const char *mark(const struct result *result, unsigned trouble, const char *word)
{
    return (result->tried & trouble) == 0 ? "-" : (result->measured & trouble) != 0 ? word : "ok";
}

// The crowd's figure; at least one if a staged race showed the trouble.
static const char *count(char out[CELL_SIZE], const struct result *result, unsigned trouble, long crowd)
{
    return number(out, crowd == 0 && (result->measured & trouble) != 0 ? 1 : crowd);
}

bool report_row(const struct approach *approach, const struct result *result)
{
    char text[COLUMNS][CELL_SIZE];
    bool as_predicted = approach->predicted == result->measured && result->unsold == 0;
    bool stock = approach->guards < A_USER;
    // TWO means two holders for stocks; users have TWICE, an order too many.
    const char *two = stock ? "TWO" : "TWICE";
    const char *const cells[COLUMNS] = {
        number(text[0], approach->number),
        approach->title,
        approach->source,
        number(text[3], (long)result->rate),
        stock ? number(text[4], result->lost_updates) : "-",
        stock ? count(text[5], result, OVERSELLS, result->oversold) : "-",
        (result->tried & BUYS_TWICE) == 0 ? "-" : count(text[6], result, BUYS_TWICE, result->twice),
        (result->tried & TURNS_AWAY) == 0 ? "-" : number(text[7], result->turned_away),
        number(text[8], result->longest_wait_ms),
        going_on(text[9], result->killed_ms),
        going_on(text[10], result->killed_between_ms),
        mark(result, LOSES_A_UNIT, "YES"),
        mark(result, TWO_WHEN_SLOW, two),
        mark(result, TWO_WHEN_PAUSED, two),
        mark(result, TWO_AT_TAKEOVER, two),
        mark(result, FREES_ANOTHERS, "YES"),
        mark(result, FORGETS, two),
        mark(result, FORGETS_IN_FAILOVER, two),
        mark(result, TRUSTS_CLOCKS, two),
        mark(result, WAITS_FOR_ITSELF, "WAITS"),
        as_predicted ? " yes" : " NO",
    };
    put_row(cells);
    if (result->lost_units > 0)
        printf("    with nothing broken, %ld units were taken that nobody bought\n", result->lost_units);
    if (result->notes[0] != '\0')
        printf("    %s\n", result->notes);
    for (int i = 0; i < TROUBLES && !as_predicted; i++) {
        unsigned trouble = 1U << i;
        if ((approach->predicted & trouble) != (result->measured & trouble))
            printf("    %s: predicted %s, measured %s\n", trouble_names[i],
                   (approach->predicted & trouble) != 0 ? "yes" : "no",
                   (result->tried & trouble) == 0      ? "nothing"
                   : (result->measured & trouble) != 0 ? "yes"
                                                       : "no");
    }
    (void)fflush(stdout);
    return as_predicted;
}

void report_legend(void)
{
    printf(
        "\nlost upd.   units sold that the stock has not noticed        killed   the holder, inside: until others buy\n"
        "oversold    of 40 units, or of 1 in a staged race            between  the holder, between two commands\n"
        "twice       orders, or ids, one too many                     slow     its work takes longer than the TTL\n"
        "wait        the longest of one purchase in the crowd         paused   its process stands still for longer\n"
        "frees other it then releases the lock of the next one        empty    the lock's server is restarted empty\n"
        "unit lost   in no order and not in stock                     fail-over to a replica that had not got the "
        "lock\n"
        "take-over   two see an expired lock, one stands still        clock    an hour's step, of server or client\n"
        "turned away without a unit, while there were units for all   again    its owner takes it again, and waits for "
        "itself\n"
        "TWO         two were inside at once\n");
}

// ---- JSON ----

static json_t *names_of(unsigned troubles)
{
    json_t *names = json_array();
    for (int i = 0; i < TROUBLES; i++) {
        if ((troubles & (1U << i)) != 0)
            (void)json_array_append_new(names, json_string(trouble_names[i]));
    }
    return names;
}

static json_t *going_on_json(long ms)
{
    return ms == NOT_TRIED ? json_null() : ms == NEVER ? json_string("never") : json_integer(ms);
}

static json_t *as_json(const struct approach *approach, const struct result *result)
{
    json_t *accidents =
        json_pack("{so so so so}", "tried", names_of(result->tried), "happened", names_of(result->measured),
                  "killed_goes_on_after_ms", going_on_json(result->killed_ms), "killed_between_goes_on_after_ms",
                  going_on_json(result->killed_between_ms));
    return json_pack("{si ss ss ss so so sf si si si si si si si so ss}", "number", approach->number, "name",
                     approach->title, "source", approach->source, "claim", approach->claim, "predicted",
                     names_of(approach->predicted), "measured", names_of(result->measured), "rate", result->rate,
                     "lost_updates", (int)result->lost_updates, "oversold", (int)result->oversold, "duplicates",
                     (int)result->twice, "lost_units", (int)result->lost_units, "turned_away", (int)result->turned_away,
                     "unsold", (int)result->unsold, "longest_wait_ms", (int)result->longest_wait_ms, "accidents",
                     accidents, "notes", result->notes);
}

bool report_json(const char *path, const struct approach *const *chosen, const struct result *results)
{
    json_t *list = json_array();
    for (size_t i = 0; chosen[i] != NULL; i++)
        (void)json_array_append_new(list, as_json(chosen[i], &results[i]));
    bool ok = json_dump_file(list, path, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) == 0;
    if (!ok)
        (void)fprintf(stderr, "approaches: cannot write %s\n", path);
    json_decref(list);
    return ok;
}
