// Three files for each part: orders, events, payments. They are written whole under another name, synced, renamed, and
// the folder synced; only then PostgreSQL removes what is in them (sql/migrations/010_archive.sql, which says why no
// order is lost or kept twice). What was changed in between is asked for and written once more under the same names.
#include "archive.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "archive_file.h"
#include "log.h"
#include "params.h"
#include "pg_once.h"
#include "text.h"

enum { DAYS_DEFAULT = 30, DAYS_MAX = 36500, ORDERS_DEFAULT = 50000, ORDERS_MAX = 200000, TRIES_MAX = 100 };
enum { NAME_SIZE = 64 };

// Columns of the statements.
enum { NEXT_VOUCHER, NEXT_OUTCOME };
enum { PART_NUMBER, PART_ORDERS, PART_EVENTS, PART_PAYMENTS, PART_DIGEST };
enum { END_PARTS, END_ORDERS, END_EVENTS, END_PAYMENTS };

enum archive_step { ARCHIVE_MOVED, ARCHIVE_CHANGED, ARCHIVE_EMPTY, ARCHIVE_FAILED };

struct archive {
    struct sk_pg_once *pg;
    struct sk_archive_folder *folder;
    char days[SK_PARAM_NUMBER_SIZE], orders[SK_PARAM_NUMBER_SIZE];
    char voucher[SK_PARAM_NUMBER_SIZE];
};

static enum sk_status archive_read_words(struct archive *archive, const struct sk_config *config);
static enum sk_status archive_all(struct archive *archive);
static enum sk_status archive_voucher(struct archive *archive);
static enum archive_step archive_move_part(struct archive *archive);
static enum sk_status archive_write(struct archive *archive, const struct sk_rows *rows);
static enum sk_status archive_close_voucher(struct archive *archive);

enum sk_status sk_archive_run(const struct sk_config *config)
{
    struct archive archive = {0};
    enum sk_status status = archive_read_words(&archive, config);
    if (status == SK_OK)
        archive.folder = sk_archive_folder_open(config->words[0]);
    if (archive.folder != NULL)
        archive.pg = sk_pg_once_open(config->stores.database_url);
    status = archive.pg == NULL ? SK_FAIL : archive_all(&archive);
    sk_pg_once_close(archive.pg);
    sk_archive_folder_close(archive.folder);
    return status;
}

// One word, or its default; false: it is not a number from `least` to `most`.
static bool archive_read_number(const char *word, uint64_t fallback, uint64_t least, uint64_t most,
                                char out[SK_PARAM_NUMBER_SIZE])
{
    uint64_t number = fallback;
    if (word != NULL && (!sk_text_number(word, most, &number) || number < least))
        return false;
    (void)sk_params_number(out, (int64_t)number);
    return true;
}

static enum sk_status archive_read_words(struct archive *archive, const struct sk_config *config)
{
    const char *days = config->words[1], *orders = days == NULL ? NULL : config->words[2];
    if (archive_read_number(days, DAYS_DEFAULT, 0, DAYS_MAX, archive->days) &&
        archive_read_number(orders, ORDERS_DEFAULT, 1, ORDERS_MAX, archive->orders))
        return SK_OK;
    sk_log(SK_LOG_ERROR, "archive takes a folder, days, and orders in a file", "days_most=%d orders_most=%d", DAYS_MAX,
           ORDERS_MAX);
    return SK_FAIL;
}

static enum sk_status archive_all(struct archive *archive)
{
    const struct sk_rows *rows;
    enum sk_status status = SK_OK;
    (void)sk_params_number(archive->voucher, 0);
    while (status == SK_OK) {
        const char *params[] = {archive->voucher, archive->days};
        status = sk_pg_once_run(archive->pg, SK_KEEPING_ARCHIVE_NEXT, 2, params, &rows);
        if (status != SK_OK || sk_rows_count(rows) == 0)
            break;
        (void)sk_params_number(archive->voucher, sk_rows_number(rows, 0, NEXT_VOUCHER));
        if (sk_rows_text(rows, 0, NEXT_OUTCOME)[0] == 'b') // begun
            status = archive_voucher(archive);
        else
            sk_log(SK_LOG_WARN, "voucher not archived: money is to be given back", "voucher=%s", archive->voucher);
    }
    return status;
}

static enum sk_status archive_voucher(struct archive *archive)
{
    int changed = 0;
    for (;;) {
        enum archive_step step = archive_move_part(archive);
        changed = step == ARCHIVE_CHANGED ? changed + 1 : 0;
        if (step == ARCHIVE_EMPTY)
            return archive_close_voucher(archive);
        if (step == ARCHIVE_FAILED)
            return SK_FAIL;
        if (changed == TRIES_MAX) {
            sk_log(SK_LOG_ERROR, "its orders change all the time", "voucher=%s", archive->voucher);
            return SK_FAIL;
        }
    }
}

static enum archive_step archive_move_part(struct archive *archive)
{
    const char *which[] = {archive->voucher, archive->orders};
    const struct sk_rows *rows;
    if (sk_pg_once_run(archive->pg, SK_KEEPING_ARCHIVE_PART, 2, which, &rows) != SK_OK)
        return ARCHIVE_FAILED;
    if (sk_rows_count(rows) == 0)
        return ARCHIVE_EMPTY;
    if (archive_write(archive, rows) != SK_OK)
        return ARCHIVE_FAILED;
    char part[SK_PARAM_NUMBER_SIZE], digest[80];
    (void)sk_params_number(part, sk_rows_number(rows, 0, PART_NUMBER));
    (void)snprintf(digest, sizeof digest, "%s", sk_rows_text(rows, 0, PART_DIGEST));
    const char *written[] = {archive->voucher, part, archive->orders, digest};
    if (sk_pg_once_run(archive->pg, SK_KEEPING_ARCHIVE_DROP, 4, written, &rows) != SK_OK)
        return ARCHIVE_FAILED;
    return sk_rows_text(rows, 0, 0)[0] == 't' ? ARCHIVE_MOVED : ARCHIVE_CHANGED;
}

// All three in any case: an earlier try may have left one of the same name.
static enum sk_status archive_write(struct archive *archive, const struct sk_rows *rows)
{
    static const struct {
        const char *name;
        int column;
    } kinds[] = {{"orders", PART_ORDERS}, {"events", PART_EVENTS}, {"payments", PART_PAYMENTS}};
    enum sk_status status = SK_OK;
    for (size_t i = 0; status == SK_OK && i < sizeof kinds / sizeof kinds[0]; i++) {
        char name[NAME_SIZE];
        (void)snprintf(name, sizeof name, "%s-%06" PRId64 "-%s.csv", archive->voucher,
                       sk_rows_number(rows, 0, PART_NUMBER), kinds[i].name);
        status = sk_archive_file_write(archive->folder, name, sk_rows_text(rows, 0, kinds[i].column));
    }
    return status == SK_OK ? sk_archive_folder_sync(archive->folder) : status;
}

static enum sk_status archive_close_voucher(struct archive *archive)
{
    const char *params[] = {archive->voucher};
    const struct sk_rows *rows;
    if (sk_pg_once_run(archive->pg, SK_KEEPING_ARCHIVE_END, 1, params, &rows) != SK_OK)
        return SK_FAIL;
    sk_log(SK_LOG_INFO, "voucher archived",
           "voucher=%s parts=%" PRId64 " orders=%" PRId64 " events=%" PRId64 " payments=%" PRId64, archive->voucher,
           sk_rows_number(rows, 0, END_PARTS), sk_rows_number(rows, 0, END_ORDERS), sk_rows_number(rows, 0, END_EVENTS),
           sk_rows_number(rows, 0, END_PAYMENTS));
    return SK_OK;
}
