// Orders that leave PostgreSQL for files, and users whose ids leave both.
//
// Each part has three files: orders, events, payments. They are written in full under another name, synced and renamed,
// and then the folder is synced. Only then does PostgreSQL remove the rows; sql/migrations/014_archive.sql explains why
// no order is lost or kept twice. Rows that changed in between are read and written again under the same names.
#include "commands.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log.h"
#include "params.h"
#include "pg_once.h"
#include "text.h"

// ---- the files of an archive: each is either complete or absent ----

enum { NAME_SIZE = 64, UNFINISHED_SIZE = 128 };

static enum sk_status folder_fail(const char *what)
{
    sk_log_text(SK_LOG_ERROR, what, "reason", strerror(errno));
    return SK_FAIL;
}

// -1: the folder cannot be opened.
static int folder_open(const char *path)
{
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        (void)folder_fail("cannot open the folder of the archive");
    return folder;
}

static enum sk_status folder_write_all(int fd, const char *text)
{
    for (size_t left = strlen(text); left > 0;) {
        ssize_t n = write(fd, text, left);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return folder_fail("cannot write a file of the archive");
        text += n;
        left -= (size_t)n;
    }
    return fsync(fd) == 0 ? SK_OK : folder_fail("cannot sync a file of the archive");
}

// Writes the text under another name, syncs it, and renames it to `name`, replacing an earlier file of that name.
static enum sk_status folder_write(int folder, const char *name, const char *text)
{
    char unfinished[UNFINISHED_SIZE];
    int n = snprintf(unfinished, sizeof unfinished, "%s.new", name);
    SK_ASSERT(n > 0 && (size_t)n < sizeof unfinished);
    // Readable by its owner only: it contains users' ids.
    int fd = openat(folder, unfinished, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return folder_fail("cannot make a file of the archive");
    enum sk_status status = folder_write_all(fd, text);
    if (close(fd) != 0 && status == SK_OK)
        status = folder_fail("cannot close a file of the archive");
    if (status == SK_OK && renameat(folder, unfinished, folder, name) != 0)
        status = folder_fail("cannot name a file of the archive");
    return status;
}

// Returns `size` bytes and a NUL; the caller frees them. NULL: out of memory, or the file has fewer bytes.
static char *folder_read_all(int fd, size_t size)
{
    char *text = malloc(size + 1);
    size_t len = 0;
    while (text != NULL && len < size) {
        ssize_t n = read(fd, text + len, size - len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        len += (size_t)n;
    }
    if (text != NULL && len < size) {
        free(text);
        return NULL;
    }
    if (text != NULL)
        text[len] = '\0';
    return text;
}

// Reads a whole file; the caller frees the text. NULL: it cannot be read, or it contains a NUL.
static char *folder_read(int folder, const char *name)
{
    struct stat about;
    char *text = NULL;
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0 && fstat(fd, &about) == 0)
        text = folder_read_all(fd, (size_t)about.st_size);
    if (text == NULL) {
        (void)folder_fail("cannot read a file of the archive");
    } else if (strlen(text) != (size_t)about.st_size) {
        sk_log_text(SK_LOG_ERROR, "a file of the archive has a NUL in it", "name", name);
        free(text);
        text = NULL;
    }
    if (fd >= 0)
        (void)close(fd);
    return text;
}

// Afterwards the names of all files written are on disk as well.
static enum sk_status folder_sync(int folder)
{
    return fsync(folder) == 0 ? SK_OK : folder_fail("cannot sync the folder of the archive");
}

// ---- archiving ----

enum { DAYS_DEFAULT = 30, DAYS_MAX = 36500, ORDERS_DEFAULT = 50000, ORDERS_MAX = 200000, TRIES_MAX = 100 };

// Columns of the statements.
enum { NEXT_VOUCHER, NEXT_OUTCOME };
enum { PART_NUMBER, PART_ORDERS, PART_EVENTS, PART_PAYMENTS, PART_DIGEST };
enum { END_PARTS, END_ORDERS, END_EVENTS, END_PAYMENTS };

enum archive_step { ARCHIVE_MOVED, ARCHIVE_CHANGED, ARCHIVE_EMPTY, ARCHIVE_FAILED };

// Of one shard.
struct archive {
    struct sk_pg_once *pg;
    int folder;
    char days[SK_PARAM_NUMBER_SIZE], orders[SK_PARAM_NUMBER_SIZE];
    char voucher[SK_PARAM_NUMBER_SIZE];
};

// Always writes all three: an earlier attempt may have left a file of the same name.
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
        status = folder_write(archive->folder, name, sk_rows_text(rows, 0, kinds[i].column));
    }
    return status == SK_OK ? folder_sync(archive->folder) : status;
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

static enum sk_status archive_all(struct archive *archive)
{
    const struct sk_rows *rows;
    enum sk_status status = SK_OK;
    bool any = false;
    (void)sk_params_number(archive->voucher, 0);
    while (status == SK_OK) {
        const char *params[] = {archive->voucher, archive->days};
        status = sk_pg_once_run(archive->pg, SK_KEEPING_ARCHIVE_NEXT, 2, params, &rows);
        if (status != SK_OK || sk_rows_count(rows) == 0)
            break;
        any = true;
        (void)sk_params_number(archive->voucher, sk_rows_number(rows, 0, NEXT_VOUCHER));
        switch (sk_rows_text(rows, 0, NEXT_OUTCOME)[0]) {
        case 'b': // begun
            status = archive_voucher(archive);
            break;
        case 'u': // unsent
            sk_log(SK_LOG_WARN, "voucher not archived: a receiver of webhooks has not got its events", "voucher=%s",
                   archive->voucher);
            break;
        default: // owed
            sk_log(SK_LOG_WARN, "voucher not archived: money is to be given back", "voucher=%s", archive->voucher);
        }
    }
    if (status == SK_OK && !any)
        sk_log(SK_LOG_INFO, "no voucher is to be archived", "days=%s", archive->days);
    return status;
}

// One word, or its default. False: the word is not a number from `least` to `most`.
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

enum sk_status sk_archive_run(const struct sk_config *config)
{
    struct archive archive;
    if (archive_read_words(&archive, config) != SK_OK || (archive.folder = folder_open(config->words[0])) < 0)
        return SK_FAIL;
    enum sk_status status = SK_OK;
    for (size_t i = 0; i < config->stores.shards.count; i++) {
        archive.pg = sk_pg_once_open(&config->stores.shards, i);
        if (archive.pg == NULL || archive_all(&archive) != SK_OK)
            status = SK_FAIL; // the other shards go on
        sk_pg_once_close(archive.pg);
    }
    (void)close(archive.folder);
    return status;
}

// ---- erasing a user ----

enum { VOUCHER_SIZE = 20, PART_SIZE = 10 };

// Columns of the statements.
enum { COLUMN_OUTCOME, COLUMN_PSEUDONYM, COLUMN_ORDERS, COLUMN_LETTERS, COLUMN_VOUCHERS };
enum { ERASED_OUTCOME, ERASED_ORDERS, ERASED_REWRITTEN };

// Of one shard.
struct erase {
    struct sk_pg_once *pg;
    int folder; // -1: only PostgreSQL
    const char *user;
    size_t shard, shards;
    char pseudonym[SK_USER_SIZE];
    char field[SK_USER_SIZE + 2];   // the user's id as it appears in a line
    int64_t files, archived_orders; // that are rewritten
    int64_t *places;                // of the user, in all shards
};

static enum sk_status erase_part(struct erase *erase, const char *name, const char *const *params)
{
    const struct sk_rows *rows;
    if (sk_pg_once_run(erase->pg, SK_KEEPING_ERASE_PART, 5, params, &rows) != SK_OK)
        return SK_FAIL;
    switch (sk_rows_text(rows, 0, ERASED_OUTCOME)[0]) {
    case 'e': // erased
        if (folder_write(erase->folder, name, sk_rows_text(rows, 0, ERASED_REWRITTEN)) != SK_OK)
            return SK_FAIL;
        erase->files++;
        erase->archived_orders += sk_rows_number(rows, 0, ERASED_ORDERS);
        return SK_OK;
    case 'w': // without
        return SK_OK;
    default:
        sk_log_text(SK_LOG_ERROR, "the user is in a file that is not as it was archived, which is left as it is",
                    "name", name);
        return SK_FAIL;
    }
}

// Ignores files with other names than archive_write() gives, and those of other shards.
static enum sk_status erase_file(struct erase *erase, const char *name)
{
    char voucher[VOUCHER_SIZE], part[PART_SIZE];
    int end = 0;
    if (sscanf(name, "%19[0-9]-%9[0-9]-orders.csv%n", voucher, part, &end) != 2 || end == 0 || name[end] != '\0' ||
        sk_shard_of_voucher(strtoll(voucher, NULL, 10), erase->shards) != erase->shard)
        return SK_OK;
    char *text = folder_read(erase->folder, name);
    if (text == NULL)
        return SK_FAIL;
    const char *const params[] = {voucher, part, text, erase->user, erase->pseudonym};
    enum sk_status status = SK_OK;
    if (strstr(text, erase->field) != NULL)
        status = erase_part(erase, name, params);
    free(text);
    return status;
}

// Also while `seckill archive` runs. Only files of orders contain users' ids. A file that contains the id is sent to
// PostgreSQL, which knows what was archived. It records the new SHA-256 of the file and returns the text to write.
// sql/migrations/015_erase.sql explains why a crash in between is harmless. SK_FAIL: PostgreSQL or a file failed, or a
// file is not as it was archived and stays unchanged; the others are finished.
static enum sk_status erase_archive(struct erase *erase)
{
    struct dirent **found = NULL;
    const struct sk_rows *rows;
    enum sk_status status = SK_OK;
    if (sk_pg_once_run(erase->pg, SK_KEEPING_ARCHIVE_WAIT, 0, NULL, &rows) != SK_OK)
        return SK_FAIL;
    int count = scandirat(erase->folder, ".", &found, NULL, alphasort);
    if (count < 0)
        return folder_fail("cannot read the folder of the archive");
    for (int i = 0; i < count; i++) {
        if (erase_file(erase, found[i]->d_name) != SK_OK)
            status = SK_FAIL;
        free(found[i]);
    }
    free(found);
    if (erase->files == 0)
        return status;
    if (folder_sync(erase->folder) != SK_OK)
        status = SK_FAIL;
    sk_log(SK_LOG_INFO, "user erased in the archive", "pseudonym=%s files=%" PRId64 " orders=%" PRId64,
           erase->pseudonym, erase->files, erase->archived_orders);
    *erase->places += erase->archived_orders;
    return status;
}

// PostgreSQL first: orders that move into a file afterwards already have the pseudonym.
static enum sk_status erase_everywhere(struct erase *erase)
{
    const char *params[] = {erase->user};
    const struct sk_rows *rows;
    if (sk_pg_once_run(erase->pg, SK_KEEPING_ERASE_USER, 1, params, &rows) != SK_OK)
        return SK_FAIL;
    if (sk_rows_text(rows, 0, COLUMN_OUTCOME)[0] == 'r') { // refused
        sk_log_text(SK_LOG_ERROR, "the user has orders of vouchers that are not retired", "vouchers",
                    sk_rows_text(rows, 0, COLUMN_VOUCHERS));
        return SK_FAIL;
    }
    int64_t orders = sk_rows_number(rows, 0, COLUMN_ORDERS), letters = sk_rows_number(rows, 0, COLUMN_LETTERS);
    (void)snprintf(erase->pseudonym, sizeof erase->pseudonym, "%s", sk_rows_text(rows, 0, COLUMN_PSEUDONYM));
    (void)snprintf(erase->field, sizeof erase->field, ",%s,", erase->user);
    if (orders + letters > 0)
        sk_log(SK_LOG_INFO, "user erased", "pseudonym=%s orders=%" PRId64 " letters=%" PRId64, erase->pseudonym, orders,
               letters);
    *erase->places += orders + letters;
    return erase->folder < 0 ? SK_OK : erase_archive(erase);
}

enum sk_status sk_erase_run(const struct sk_config *config)
{
    const char *user = config->words[0], *path = config->words[1];
    if (!sk_text_user(user)) {
        sk_log(SK_LOG_ERROR, "a user's id has 1 to 64 of A-Z a-z 0-9 _ . -", "");
        return SK_FAIL;
    }
    int folder = path == NULL ? -1 : folder_open(path);
    if (path != NULL && folder < 0)
        return SK_FAIL;
    enum sk_status status = SK_OK;
    int64_t places = 0;
    for (size_t i = 0; i < config->stores.shards.count; i++) {
        struct erase erase = {.pg = sk_pg_once_open(&config->stores.shards, i),
                              .folder = folder,
                              .user = user,
                              .shard = i,
                              .shards = config->stores.shards.count,
                              .places = &places};
        if (erase.pg == NULL || erase_everywhere(&erase) != SK_OK)
            status = SK_FAIL; // the other shards go on
        sk_pg_once_close(erase.pg);
    }
    if (folder >= 0)
        (void)close(folder);
    if (status == SK_OK && places == 0) // no error: it may have been erased before, by a run that was killed
        sk_log(SK_LOG_WARN, "nothing of this user was found, so nothing is erased: check the id", "");
    return status;
}
