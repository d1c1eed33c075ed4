/* dead_letter_list: control commands of `grapnel dlq` and `grapnel trace`, and the filter that
 * bulk.c shares. */
#ifndef DLQD_DEAD_LETTER_LIST_H
#define DLQD_DEAD_LETTER_LIST_H

#include "control.h"
#include "store.h"

/* A filter of dead letters. Texts are borrowed; NULL matches all. All but the state may contain
 * `*`. */
struct list_filter {
    const char *state; /* NULL: all */
    const char *endpoint, *workspace, *type, *reason, *source;
    /* compared as bytes: only its dead letters at endpoints that were made at run time */
    const char *tenant;
    int64_t since_ms, until_ms; /* of the time of death; until is excluded */
    int64_t limit;
    /* Continue below this dead letter; or, oldest first, above it. */
    int64_t before_ms, before_n, after_ms, after_n;
    const char *to;   /* another endpoint to send them to; NULL: their own */
    const char *note; /* note of a decision; NULL: none */
    const char *who;  /* who asks for a change; NULL: unknown */
};

/* Read the arguments of `dlq` and of the commands for all that match. false: a cursor is wrong;
 * `why` says so. */
bool list_filter_read(struct list_filter *f, json_t *args, char why[200]);
/* Whether this dead letter matches. (SQL selects the state.) Pure. */
bool list_filter_takes(const struct list_filter *f, const struct scan_row *row);
/* Requeue a dead letter or, with `to`, send it to another endpoint, as action `action_id`, which
 * the sequencer applies once. false: `why`. */
struct dlqd;
bool list_retry(struct dlqd *d, const char *id, const char *to,
                uint64_t action_id, const char *who, char why[200]);
/* Whether `to` is NULL or the name of an endpoint of the configuration; if not, `why` says so. */
bool list_to_good(const struct dlqd *d, const char *to, char why[200]);
/* Whether the note of a decision is short enough in bytes; if not, `why` says so. */
bool list_note_good(const char *note, char why[200]);
/* The "before" or "after" that continues after this row. The caller owns it. */
json_t *list_cursor(const struct scan_row *last);

/* Control commands (control.h). self: struct dlqd. */
json_t *list_ask(void *self, json_t *args, char why[200]);
json_t *list_ask_show(void *self, json_t *args, char why[200]);
json_t *list_ask_retry(void *self, json_t *args, char why[200]);
json_t *list_ask_resolve(void *self, json_t *args, char why[200]);
json_t *list_ask_discard(void *self, json_t *args, char why[200]);
json_t *list_ask_trace(void *self, json_t *args, char why[200]);

#endif
