#include "erase.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "archive.h"
#include "log.h"
#include "pg_once.h"
#include "text.h"

enum { COLUMN_OUTCOME, COLUMN_PSEUDONYM, COLUMN_ORDERS, COLUMN_LETTERS, COLUMN_VOUCHERS };

static enum sk_status erase_everywhere(struct sk_pg_once *pg, struct sk_archive_folder *folder, const char *user);
static enum sk_status erase_report(const struct sk_rows *rows);

enum sk_status sk_erase_run(const struct sk_config *config)
{
    const char *user = config->words[0], *path = config->words[1];
    if (!sk_text_user(user)) {
        sk_log(SK_LOG_ERROR, "a user's id has 1 to 64 of A-Z a-z 0-9 _ . -", "");
        return SK_FAIL;
    }
    struct sk_archive_folder *folder = path == NULL ? NULL : sk_archive_folder_open(path);
    if (path != NULL && folder == NULL)
        return SK_FAIL;
    struct sk_pg_once *pg = sk_pg_once_open(config->stores.database_url);
    enum sk_status status = pg == NULL ? SK_FAIL : erase_everywhere(pg, folder, user);
    sk_pg_once_close(pg);
    sk_archive_folder_close(folder);
    return status;
}

// PostgreSQL first: orders that move into a file afterwards already have the pseudonym.
static enum sk_status erase_everywhere(struct sk_pg_once *pg, struct sk_archive_folder *folder, const char *user)
{
    char pseudonym[SK_USER_SIZE] = "";
    const char *params[] = {user};
    const struct sk_rows *rows;
    if (sk_pg_once_run(pg, SK_KEEPING_ERASE_USER, 1, params, &rows) != SK_OK || erase_report(rows) != SK_OK)
        return SK_FAIL;
    if (folder == NULL)
        return SK_OK;
    (void)snprintf(pseudonym, sizeof pseudonym, "%s", sk_rows_text(rows, 0, COLUMN_PSEUDONYM));
    return sk_erase_archive(pg, folder, user, pseudonym);
}

static enum sk_status erase_report(const struct sk_rows *rows)
{
    if (sk_rows_text(rows, 0, COLUMN_OUTCOME)[0] == 'r') { // refused
        sk_log_text(SK_LOG_ERROR, "the user has orders of vouchers that are not retired", "vouchers",
                    sk_rows_text(rows, 0, COLUMN_VOUCHERS));
        return SK_FAIL;
    }
    sk_log(SK_LOG_INFO, "user erased", "pseudonym=%s orders=%" PRId64 " letters=%" PRId64,
           sk_rows_text(rows, 0, COLUMN_PSEUDONYM), sk_rows_number(rows, 0, COLUMN_ORDERS),
           sk_rows_number(rows, 0, COLUMN_LETTERS));
    return SK_OK;
}

// ---- erase archive ----

// Only files of orders contain users' ids. A file that contains the id is sent to PostgreSQL, which knows what was
// archived. It records the new SHA-256 of the file and returns the text to write. sql/migrations/015_erase.sql explains
// why a crash in between is harmless.

enum { VOUCHER_SIZE = 20, PART_SIZE = 10 };
enum { PART_OUTCOME, PART_ORDERS, PART_REWRITTEN };

struct erase_archive {
    struct sk_pg_once *pg;
    struct sk_archive_folder *folder;
    const char *user, *pseudonym;
    char field[SK_USER_SIZE + 2]; // the user's id as it appears in a line
    int64_t files, orders;
};

static enum sk_status erase_archive_visit(void *arg, const char *name);
static enum sk_status erase_archive_part(struct erase_archive *archive, const char *name, const char *const *params);

enum sk_status sk_erase_archive(struct sk_pg_once *pg, struct sk_archive_folder *folder, const char *user,
                                const char *pseudonym)
{
    struct erase_archive archive = {.pg = pg, .folder = folder, .user = user, .pseudonym = pseudonym};
    const struct sk_rows *rows;
    (void)snprintf(archive.field, sizeof archive.field, ",%s,", user);
    if (sk_pg_once_run(pg, SK_KEEPING_ARCHIVE_WAIT, 0, NULL, &rows) != SK_OK)
        return SK_FAIL;
    enum sk_status status = sk_archive_folder_visit(folder, erase_archive_visit, &archive);
    if (archive.files > 0 && sk_archive_folder_sync(folder) != SK_OK)
        status = SK_FAIL;
    sk_log(SK_LOG_INFO, "user erased in the archive", "pseudonym=%s files=%" PRId64 " orders=%" PRId64, pseudonym,
           archive.files, archive.orders);
    return status;
}

// Matches the names that archive.c gives; other files are ignored.
static bool erase_archive_read_name(const char *name, char voucher[VOUCHER_SIZE], char part[PART_SIZE])
{
    int end = 0;
    return sscanf(name, "%19[0-9]-%9[0-9]-orders.csv%n", voucher, part, &end) == 2 && end > 0 && name[end] == '\0';
}

static enum sk_status erase_archive_visit(void *arg, const char *name)
{
    struct erase_archive *archive = arg;
    char voucher[VOUCHER_SIZE], part[PART_SIZE];
    if (!erase_archive_read_name(name, voucher, part))
        return SK_OK;
    char *text = sk_archive_file_read(archive->folder, name);
    if (text == NULL)
        return SK_FAIL;
    const char *const params[] = {voucher, part, text, archive->user, archive->pseudonym};
    enum sk_status status = SK_OK;
    if (strstr(text, archive->field) != NULL)
        status = erase_archive_part(archive, name, params);
    free(text);
    return status;
}

static enum sk_status erase_archive_part(struct erase_archive *archive, const char *name, const char *const *params)
{
    const struct sk_rows *rows;
    if (sk_pg_once_run(archive->pg, SK_KEEPING_ERASE_PART, 5, params, &rows) != SK_OK)
        return SK_FAIL;
    switch (sk_rows_text(rows, 0, PART_OUTCOME)[0]) {
    case 'e': // erased
        if (sk_archive_file_write(archive->folder, name, sk_rows_text(rows, 0, PART_REWRITTEN)) != SK_OK)
            return SK_FAIL;
        archive->files++;
        archive->orders += sk_rows_number(rows, 0, PART_ORDERS);
        return SK_OK;
    case 'w': // without
        return SK_OK;
    default:
        sk_log_text(SK_LOG_ERROR, "the user is in a file that is not as it was archived, which is left as it is",
                    "name", name);
        return SK_FAIL;
    }
}
