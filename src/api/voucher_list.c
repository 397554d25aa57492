// A made-up cursor is refused before anything is asked, and a real one costs a statement: so those under way are
// counted, and equal ones share. The first page costs a statement a second.
#include "voucher_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "voucher_queries.h"

enum { PAGES_MAX = 16, COLUMN_ID = 0, COLUMN_DOCUMENT };

struct voucher_list {
    struct sk_talk talk;
    struct sk_page page;
    char state[SK_CURSOR_SCOPE_MAX + 1]; // empty: all
    bool kept;                           // its answer is kept for the questions of the next second
    bool counted;                        // in control->pages
};

static void list_start(struct sk_talk *talk);
static void list_release(struct sk_talk *talk);
static void list_on_rows(void *arg, const struct sk_result *result);
static void list_keep(struct voucher_list *list, struct sk_buf *document);

// `key` NULL: an operator asks.
static void list_begin(struct sk_control *control, uint64_t handle, const char *key, const struct sk_page *page,
                       const char *state)
{
    enum sk_pg_class class = key == NULL ? SK_PG_COMMANDS : SK_PG_QUESTIONS;
    struct voucher_list *list = sk_talk_new(control, class, handle, key, sizeof *list, list_start);
    if (list == NULL)
        return;
    list->talk.release = list_release;
    list->page = *page;
    list->kept = key != NULL && page->first && page->limit == SK_PAGE_MOST;
    (void)snprintf(list->state, sizeof list->state, "%s", state);
    sk_talk_start(&list->talk);
}

void sk_list_vouchers(struct sk_control *control, const struct sk_page_asked *ask, uint64_t handle)
{
    char key[SK_TALK_KEY_SIZE];
    struct sk_page page;
    const char *next = control->list_next[0] == '\0' ? NULL : control->list_next;
    if (!sk_page_begin(&page, control, SK_CURSOR_VOUCHERS, "", ask, handle))
        return;
    if (page.first && page.limit == SK_PAGE_MOST && sk_voucher_tell_shown(control, &control->list, next, handle))
        return;
    (void)snprintf(key, sizeof key, "vouchers:%u:%s", page.limit, page.first ? "" : ask->cursor);
    list_begin(control, handle, key, &page, "open");
}

void sk_list_admin_vouchers(struct sk_control *control, const char *state, const struct sk_page_asked *ask,
                            uint64_t handle)
{
    struct sk_page page;
    if (state == NULL)
        state = "";
    if (sk_page_begin(&page, control, SK_CURSOR_ADMIN_VOUCHERS, state, ask, handle))
        list_begin(control, handle, NULL, &page, state);
}

static void list_start(struct sk_talk *talk)
{
    struct voucher_list *list = (struct voucher_list *)talk;
    char before[SK_PARAM_NUMBER_SIZE], most[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {list->state[0] == '\0' ? NULL : list->state,
                            list->page.first ? NULL : sk_page_first(&list->page, before),
                            sk_page_most(&list->page, most)};
    list->page.next[0] = '\0';
    if (talk->key[0] != '\0' && !list->kept) {
        if (talk->control->pages == PAGES_MAX) {
            sk_talk_end(talk, SK_VERDICT_OVERLOADED, NULL);
            return;
        }
        talk->control->pages++;
        list->counted = true;
    }
    sk_talk_ask_pg(talk, SK_STATEMENT_LIST_VOUCHERS, 3, params, list_on_rows);
}

static void list_release(struct sk_talk *talk)
{
    struct voucher_list *list = (struct voucher_list *)talk;
    talk->control->pages -= list->counted;
    list->counted = false;
}

static void list_on_rows(void *arg, const struct sk_result *result)
{
    struct voucher_list *list = arg;
    struct sk_talk *talk = &list->talk;
    struct sk_buf document = {0};
    if (result->rows == NULL) {
        sk_talk_end(talk, SK_VERDICT_UNAVAILABLE, NULL);
        return;
    }
    sk_buf_puts(&document, "{\"vouchers\":[");
    sk_page_add(&list->page, &document, result->rows, sk_rows_count(result->rows),
                &(struct sk_page_columns){.first = COLUMN_ID, .document = COLUMN_DOCUMENT});
    sk_buf_puts(&document, "]");
    if (document.failed) {
        sk_buf_free(&document);
        sk_talk_end(talk, SK_VERDICT_OVERLOADED, NULL);
        return;
    }
    sk_voucher_put_time(talk->control->sale, &talk->body, document.data);
    if (list->kept)
        list_keep(list, &document);
    sk_buf_free(&document);
    sk_page_end(&list->page, talk);
}

// Without memory for it the next question asks by itself.
static void list_keep(struct voucher_list *list, struct sk_buf *document)
{
    struct sk_control *control = list->talk.control;
    const char *next = list->page.next;
    if (next[0] != '\0')
        sk_buf_printf(document, ",\"next\":\"%s\"", next);
    sk_buf_puts(document, "}");
    if (document->failed)
        return;
    free(control->list.document);
    control->list =
        (struct sk_shown){.document = document->data, .until_ms = uv_now(control->sale->loop) + SK_VOUCHER_SHOWN_MS};
    (void)snprintf(control->list_next, sizeof control->list_next, "%s", next);
    *document = (struct sk_buf){0}; // its bytes belong to the list now
}
