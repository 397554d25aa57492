// The commands of the program, as its configuration names them. Each runs in the main thread, before there are others,
// and blocks until it is done. Errors are logged, unless stated otherwise.
#ifndef SK_APP_COMMANDS_H
#define SK_APP_COMMANDS_H

#include <stdbool.h>
#include <stdio.h>

#include "config.h"
#include "user_tokens.h"

// ---- serve ----

// The service from its start to its end. Returns after SIGTERM or SIGINT, or if it could not start. SIGHUP reads the
// keys of users' tokens again, and the configuration for new secrets (secrets.h). The configuration and the command
// line are borrowed. *left_behind: a reactor still waits for the resolver, or standard output does not accept the last
// lines of the access log. The process must then end with _exit.
enum sk_status sk_serve(const struct sk_config *config, int argc, char **argv, bool *left_behind) SK_MUST_CHECK;

// ---- check ----

enum { SK_CHECK_GOOD = 0, SK_CHECK_WARNS = 1, SK_CHECK_FAILS = 2 };

// Whether the settings that this command needs are right, with the files that they name; asks no store. What is wrong
// is logged. A restart would not cure it.
bool sk_check_settings(const struct sk_config *config, enum sk_command command);

// `seckill --check-files`: the same for the service, with a line for each finding. Returns the exit status.
int sk_check_files_run(const struct sk_config *config, FILE *out) SK_MUST_CHECK;

// `seckill --check`: finds which parts of the configuration, stores, roles and settings break which promise. It has a
// time limit for each query. Prints one line for each finding to `out`: "ok|warn|fail what: why". Returns the exit
// status of the worst finding, one of the values above. Instances may run meanwhile.
int sk_check_run(const struct sk_config *config, FILE *out) SK_MUST_CHECK;

// Prints how many findings there are of each kind; returns the exit status. findings->out is not NULL.
struct sk_findings;
int sk_check_end(const struct sk_findings *findings) SK_MUST_CHECK;

// ---- archive and erase ----

// `seckill archive FOLDER [DAYS [ORDERS]]`: moves the orders of every retired voucher whose sale ended at least DAYS
// days ago (default 30) out of PostgreSQL, with at most ORDERS orders in a file (default 50,000). It logs what it does.
// SK_FAIL: an argument is wrong, or it could not continue. Another run continues where this one stopped.
enum sk_status sk_archive_run(const struct sk_config *config) SK_MUST_CHECK;

// `seckill erase USER [FOLDER]`: replaces a user's id by a pseudonym, in PostgreSQL in one transaction, then in the
// files that `seckill archive` has written to the folder, one by one. Logs what it did, without the id. SK_FAIL: the
// word is not a user id, the folder does not exist, or PostgreSQL could not be asked. Also if the user has orders of
// vouchers that are not retired, or a file is not as it was archived. Finished work stays; another run does the rest.
// Logs it, and returns SK_OK, if nothing of the user was found: the id is misspelt, or was erased before.
enum sk_status sk_erase_run(const struct sk_config *config) SK_MUST_CHECK;

// ---- webhooks ----

// `seckill webhooks`: posts the events of all shards to the receivers of SECKILL_WEBHOOKS until SIGTERM or SIGINT, or
// does what its words say. Prints results on `out`. Returns the exit status: that of --check as sk_check_run() has it,
// else 0 or 1.
int sk_webhooks_run(const struct sk_config *config, FILE *out) SK_MUST_CHECK;

// ---- token ----

enum { SK_MINT_SECONDS_MAX = 31536000 };

struct sk_mint {
    const char *issuer, *audience, *claim, *user; // claim: the one with the user's id
    int64_t now_s, exp_s;
};

// Any thread. Returns a token that the caller frees. `key` must be able to sign. NULL: out of memory.
char *sk_mint(const struct sk_token_key *key, const struct sk_mint *mint);

// `seckill token USER [SECONDS]`: prints a token for testing, signed with the first key of SECKILL_TOKEN_KEYS that can
// sign. In production your login issues the users' tokens. Reports errors on `err`.
enum sk_status sk_mint_run(const struct sk_config *config, FILE *out, FILE *err) SK_MUST_CHECK;

// `seckill check-token`: reads a user's token from `in`, as the service would get it after `Bearer `. Prints its user,
// or the rule that it fails; never the token. SK_FAIL: it fails one, or the settings do. Reports errors on `err`.
enum sk_status sk_check_token_run(const struct sk_config *config, FILE *in, FILE *out, FILE *err) SK_MUST_CHECK;

// `seckill keys FILE`: reads a file of SECKILL_TOKEN_KEYS as a start does. Prints each key, then each that is not used,
// and why. SK_FAIL: a start would refuse the file. Reports errors on `err`.
enum sk_status sk_keys_run(const struct sk_config *config, FILE *out, FILE *err) SK_MUST_CHECK;

#endif
