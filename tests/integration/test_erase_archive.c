// Erases a user in the files of an archive: in all of them or, if the command was killed, after running it again.
// PostgreSQL's checksums match the files, and files that differ from what was archived are left alone.
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proc.h"
#include "sql.h"
#include "stack.h"
#include "stores.h"
#include "test.h"

enum {
    OUTPUT_SIZE = 1 << 16,
    URL_SIZE = 256,
    STEPS_MAX = 400,
    TEXT_SIZE = 2048,
    COMMAND_SIZE = PROC_PATH_SIZE + TEXT_SIZE + 512
};

static char folder[PROC_PATH_SIZE], output[OUTPUT_SIZE];

// ---- an archive ----

// Four orders, two in each part: alice has one in both, and other ids look like hers.
static void make_sale(void)
{
    sql_make_voucher(100);
    db_run("INSERT INTO voucher_order (id, slot, user_id, voucher_id, status, reason, request_key)"
           " SELECT ('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, %s,"
           " (ARRAY['al.ce', 'alice', 'alice', 'xalice'])[n], %s, (ARRAY['refused', 'paid', 'refused', 'paid'])[n]"
           "::order_status, (ARRAY[E',alice,\"\\n,alice,', NULL, E'two\\nlines, \"quoted\"', NULL])[n],"
           " (ARRAY['00000000000000aa', '0123456789abcdef', NULL, '00000000000000bb'])[n]"
           " FROM generate_series(1, 4) AS n",
           sql_slot, sql_voucher);
    db_run("UPDATE seckill_voucher SET state = 'retired', begin_at = now() - interval '99 days',"
           " end_at = now() - interval '90 days' WHERE id = %s",
           sql_voucher);
}

static int run(const char *const *words, const char *preload, int step)
{
    char url[URL_SIZE], killed[64], options[URL_SIZE];
    const char *ours = getenv("ASAN_OPTIONS");
    (void)snprintf(options, sizeof options, "ASAN_OPTIONS=%s:verify_asan_link_order=0", ours == NULL ? "" : ours);
    (void)snprintf(url, sizeof url, "SECKILL_DATABASE_URL=%s", stack_keeper_url());
    (void)snprintf(killed, sizeof killed, "SK_KILLED_AT=%d", step);
    return service_run(words, ENV(url, killed, options, preload), output, sizeof output);
}

#define RUN(...) run((const char *const[]){__VA_ARGS__, NULL}, NULL, 0)

// Runs a shell command in the folder; returns 0 if it succeeds.
static int in_folder(const char *format, const char *word)
{
    char command[COMMAND_SIZE];
    int n = snprintf(command, sizeof command, "cd '%s' && ", folder);
    (void)snprintf(command + n, sizeof command - (size_t)n, format, word);
    // NOLINTNEXTLINE(cert-env33-c): the words are our own
    return system(command);
}

static void setup(void)
{
    sql_setup();
    (void)snprintf(folder, sizeof folder, "%s/archive", proc_scratch());
    (void)mkdir(folder, 0700);
    ck_assert_int_eq(in_folder("rm -f *%s", ""), 0);
    make_sale();
    ck_assert_msg(RUN("archive", folder, "80", "2") == 0, "%s", output);
    ck_assert_int_eq(in_folder("mkdir -p ../kept && rm -f ../kept/* && cp *%s ../kept", ".csv"), 0);
}

static void teardown(void)
{
    sql_teardown();
}

// ---- checks ----

// Each file must match its checksum in PostgreSQL.
static bool sums_fit(void)
{
    char lines[TEXT_SIZE];
    db_text(lines, sizeof lines,
            "SELECT string_agg(encode(sum, 'hex') || '  ' || voucher_id || '-' || lpad(part::text, 6, '0') || '-' ||"
            " kind || '.csv', E'\\n') FROM archived_part, LATERAL (VALUES (orders_sha256, 'orders'), (events_sha256,"
            " 'events'), (payments_sha256, 'payments')) AS sums (sum, kind)");
    return in_folder("echo '%s' | sha256sum --check --status", lines) == 0;
}

// Only alice's id and the key of her request are changed, and nothing in the files leads to her.
static void alice_must_be_erased(void)
{
    ck_assert(sums_fit());
    ck_assert_int_eq(
        in_folder(
            "sed -E 's/,erased-[0-9a-f]{32},/,alice,/; s/^(.*0002,.*,)(,[^,]*,[^,]*,[^,]*)$/\\10123456789abcdef\\2/'"
            " *%s > ../back && cat ../kept/*-orders.csv | cmp - ../back",
            "-orders.csv"),
        0);
    ck_assert_int_ne(in_folder("grep -E '^[0-9a-f-]{36},[0-9]+,[0-9]+,%s,' *-orders.csv", "alice"), 0);
}

TEST(a_user_is_erased_in_files_and_sums_fit)
{
    ck_assert_int_eq(in_folder("grep -q %s *-000001-orders.csv && grep -q alice *-000002-orders.csv", "alice"), 0);
    ck_assert(sums_fit());
    ck_assert_msg(RUN("erase", "alice", folder) == 0, "%s", output);
    ck_assert_ptr_null(strstr(output, "alice"));
    ck_assert_ptr_nonnull(strstr(output, "files=2 orders=2"));
    alice_must_be_erased();
    ck_assert_int_eq(db_number("SELECT count(*) FROM admin_event WHERE what = 'erased' AND by_whom = 'keeper'"
                               " AND voucher_id = %s AND (detail->>'orders')::int = 1 AND detail->>'pseudonym' ~"
                               " '^erased-[0-9a-f]{32}$' AND (detail->>'part')::int IN (1, 2)",
                               sql_voucher),
                     2);
    ck_assert_int_eq(db_number("SELECT count(DISTINCT detail->>'pseudonym') FROM admin_event WHERE what = 'erased'"),
                     1);
    // A second run has nothing to do.
    ck_assert_int_eq(RUN("erase", "alice", folder), 0);
    ck_assert_ptr_nonnull(strstr(output, "nothing of this user was found"));
    alice_must_be_erased();
    // Erases another user in the same file.
    ck_assert_int_eq(RUN("erase", "al.ce", folder), 0);
    ck_assert_ptr_nonnull(strstr(output, "files=1 orders=1"));
    ck_assert_ptr_null(strstr(output, "nothing of this user"));
    ck_assert(sums_fit());
}

// A user gets the same pseudonym in tables and in files.
TEST(files_and_tables_have_one_pseudonym)
{
    char pseudonym[80];
    sql_make_voucher(10);
    PLACE("3", ORDERS({7, "alice"}), ENDS({"placed", 0}));
    ck_assert_int_eq(RUN("erase", "alice", folder), 1); // that sale is still on
    ck_assert_int_eq(in_folder("cmp %s*-000001-orders.csv ../kept/*-000001-orders.csv", ""), 0);
    db_run("UPDATE seckill_voucher SET state = 'retired'");
    ck_assert_int_eq(RUN("erase", "alice", folder), 0);
    db_text(pseudonym, sizeof pseudonym, "SELECT user_id FROM voucher_order WHERE voucher_id = %s", sql_voucher);
    ck_assert_int_eq(in_folder("test $(cat *-orders.csv | grep -c ',%s,') = 2", pseudonym), 0);
    alice_must_be_erased();
}

TEST(killed_at_each_step_running_it_again_does_the_rest)
{
    int step = 1;
    for (;; step++) {
        teardown();
        setup();
        ck_assert_int_lt(step, STEPS_MAX);
        const char *const words[] = {"erase", "alice", folder, NULL};
        if (run(words, "LD_PRELOAD=" KILLED_AT, step) == 0)
            break;
        // Each file is complete, in its old or its new form.
        ck_assert_int_eq(in_folder("test $(cat *-orders.csv | %s -l) = $(cat ../kept/*-orders.csv | wc -l)", "wc"), 0);
        ck_assert_msg(RUN("erase", "alice", folder) == 0, "%s", output);
        alice_must_be_erased();
    }
    alice_must_be_erased();
    ck_assert_int_gt(step, 15); // two files have more steps than that
    (void)printf("%d steps\n", step - 1);
}

// A file changed by hand, one unknown to PostgreSQL, and one that is not an archive: the others are still rewritten.
TEST(what_is_not_as_it_was_archived_is_left_alone)
{
    static const char *const changes[] = {
        "sed -i s/xalice/yalice/ *-000002-orders.csv",
        "cp *-000002-orders.csv $(ls *-000002-orders.csv | sed s/000002/000003/)",
        "cp *-000002-orders.csv 9-000002-orders.csv",
    };
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        teardown();
        setup();
        ck_assert_int_eq(in_folder("%s", changes[i]), 0);
        ck_assert_int_eq(sums_fit(), i > 0); // the checksums detect only the first
        ck_assert_int_eq(RUN("erase", "alice", folder), 1);
        ck_assert_ptr_nonnull(strstr(output, "not as it was archived"));
        ck_assert_int_eq(in_folder("! grep -q '^[^,]*0002,.*,%s,' *-000001-orders.csv", "alice"), 0);
        ck_assert_int_eq(in_folder("grep -q '^[^,]*0003,.*,%s,' *-orders.csv", "alice"), 0);
    }
    ck_assert_int_eq(in_folder("rm 9-000002-orders.csv && echo 'x,x,x,%s,' > other-000001-orders.csv", "alice"), 0);
    ck_assert_int_eq(RUN("erase", "alice", folder), 0);
    ck_assert_int_eq(in_folder("grep -q %s other-000001-orders.csv", "alice"), 0);
}

TEST(a_folder_that_is_not_there_changes_nothing)
{
    char nowhere[PROC_PATH_SIZE + 8];
    (void)snprintf(nowhere, sizeof nowhere, "%s/nowhere", folder);
    sql_make_voucher(10);
    PLACE("3", ORDERS({7, "alice"}), ENDS({"placed", 0}));
    db_run("UPDATE seckill_voucher SET state = 'retired'");
    ck_assert_int_eq(RUN("erase", "alice", nowhere), 1);
    ck_assert_int_eq(db_number("SELECT count(*) FROM voucher_order WHERE user_id = 'alice'"), 1);
    ck_assert_int_eq(RUN("erase", "alice", folder, "more"), 2);
}

SUITE(.timeout_s = 170, .begin = sql_start, .setup = setup, .teardown = teardown, .in_one_process = true);
