#include "erase.h"

#include <inttypes.h>
#include <stdio.h>

#include "archive_file.h"
#include "erase_archive.h"
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

// PostgreSQL first: what is moved into a file after that has the pseudonym already.
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
