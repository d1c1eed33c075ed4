/* dead_letter_list: what `grapnel dlq` and `grapnel trace` are told: control commands. */
#ifndef DLQD_DEAD_LETTER_LIST_H
#define DLQD_DEAD_LETTER_LIST_H

#include "control.h"
#include "store.h"

/* What a list is narrowed to. Texts are borrowed, NULL for any; all but the
 * state may hold `*`. */
struct list_filter {
    const char *state; /* NULL: all */
    const char *endpoint, *workspace, *type, *reason, *source;
    int64_t since_ms, until_ms; /* of the dead letter; until is not included */
    int64_t limit;
    /* Go on below this dead letter; or, oldest first, above it. */
    int64_t before_ms, before_n, after_ms, after_n;
    const char *to;   /* another endpoint to send them to; NULL: their own */
    const char *note; /* of a decision about all of them; NULL: none */
    const char *who;  /* asks for a change; NULL: does not say */
};

/* Read the args of `dlq`. false: `why` says what is wrong with them. */
bool list_filter_read(struct list_filter *f, json_t *args, char why[200]);
/* Does this dead letter belong in the list? (The state is SQL's part.) Pure. */
bool list_filter_takes(const struct list_filter *f, const struct scan_row *row);
/* A dead letter is to be tried again, or (`to`) sent to another endpoint. false:
 * `why`. */
struct dlqd;
bool list_retry(struct dlqd *d, const char *id, const char *to, const char *who,
                char why[200]);
/* The note of a decision; false: it is missing or too long, `why` says so. */
bool list_note_good(const char *note, char why[200]);
/* What "before" or "after" must be to go on behind this row. The caller's. */
json_t *list_cursor(const struct scan_row *last);

/* Control commands (control.h). self: struct dlqd. */
json_t *list_ask(void *self, json_t *args, char why[200]);
json_t *list_ask_show(void *self, json_t *args, char why[200]);
json_t *list_ask_retry(void *self, json_t *args, char why[200]);
json_t *list_ask_resolve(void *self, json_t *args, char why[200]);
json_t *list_ask_discard(void *self, json_t *args, char why[200]);
json_t *list_ask_trace(void *self, json_t *args, char why[200]);

#endif
