// A command of an operator: one statement under a key. While its answer is lost, or another call holds the row, it is
// sent again, which the key makes harmless. Then its kind does what Redis needs.
//
//   ASKING <-> WAITING
//     |
//   JUDGED    the row came: the kind goes on, and may ask once more
//
// The reactor's thread, as all functions.
#ifndef SK_API_COMMAND_H
#define SK_API_COMMAND_H

#include "query.h"

enum { SK_COMMAND_PARAMS_MAX = SK_PG_PARAMS_MAX };

struct sk_command;

struct sk_command_kind {
    void (*judge)(struct sk_command *command, const struct sk_rows *rows); // the one row of its statement
    void (*failed)(struct sk_command *command);          // the query ends without such a row; NULL: nothing to do
    void (*tick)(struct sk_command *command, bool late); // while it is JUDGED; late: from answer_until_ms on
    void (*release)(struct sk_command *command);         // before its memory goes
};

enum sk_command_step { SK_COMMAND_NEW, SK_COMMAND_ASKING, SK_COMMAND_WAITING, SK_COMMAND_JUDGED, SK_COMMAND_STEPS };

// First member of the kind's struct. Private, but for query, statement, insists, lost and answer_until_ms.
struct sk_command {
    struct sk_query query; // must be first
    const struct sk_command_kind *kind;
    enum sk_command_step step;
    enum sk_statement statement;
    bool insists;             // waits if the statement cannot even be sent; else the query ends then
    bool lost;                // an answer to the statement was lost
    uint64_t ask_until_ms;    // no other try after it
    uint64_t answer_until_ms; // after it what is done is answered, whether or not Redis has it
    struct sk_timer *timer;   // owned
    struct {
        struct sk_buf texts;
        size_t at[SK_COMMAND_PARAMS_MAX];
        bool given[SK_COMMAND_PARAMS_MAX];
        int count;
    } params; // owned copies
};

// After sk_query_new(), which has zeroed it. If memory is short, sk_command_start() ends the query.
void sk_command_open(struct sk_command *command, const struct sk_command_kind *kind, enum sk_statement statement);

// The next parameter of its statement. NULL: SQL's NULL. sk_command_again() begins the parameters of another statement.
void sk_command_add(struct sk_command *command, const char *text);
void sk_command_add_number(struct sk_command *command, int64_t number);
void sk_command_again(struct sk_command *command, enum sk_statement statement);

// Starts the query; if memory was short since it was opened, ends it with OVERLOADED.
void sk_command_start(struct sk_command *command);

// Sends the statement.
void sk_command_ask(struct sk_command *command);

#endif
