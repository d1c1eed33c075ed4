/* list: lists of JSON objects, as tables for people, and unchanged with --json. For commands. */
#ifndef CTL_LIST_H
#define CTL_LIST_H

#include "ctl.h"
#include "table.h"

enum column_kind {
    COLUMN_TEXT,
    COLUMN_OR_DASH, /* "-" for an empty or missing text */
    COLUMN_TIME,    /* RFC 3339, shown in UTC or, with --local, in local time */
    COLUMN_DURATION, /* ms */
    COLUMN_BYTES,
};

/* A column: its head, and the field of the object that it shows. `cell`, or NULL: adds the cell
 * instead, where it has a colour or consists of several fields. */
struct column {
    const char *head; /* NULL: no more columns */
    const char *key;
    enum column_kind kind;
    void (*cell)(struct table *t, const json_t *row);
};

/* A table of these objects on standard output. */
void print_rows(struct ctl *c, const struct column *columns, const json_t *rows,
                int indent);
/* The list as JSON with --json, else as a table, or the sentence `none` if it is empty. */
void print_list(struct ctl *c, const struct column *columns, const json_t *list,
                const char *none);
/* The newest `max` rows by the RFC 3339 time in `key`, which all rows have, newest first. The
 * caller's. */
json_t *list_newest(const json_t *rows, const char *key, size_t max);

/* A list that a process sends page by page. */
struct page_listing {
    const char *process, *ask, *key; /* the rows are in `key` of its reply */
    json_t *args;                    /* of the first page; they are changed */
    const char
        *next; /* the argument that gets the `next` of a page; NULL: before */
    const struct column *columns;
    const char *none; /* "No such events." */
    const char *const
        *filters; /* whose values may be unknown names (names.h) */
};

/* Prints the list, up to --limit. Returns the exit code. If a page fails, the output ends there,
 * and the JSON document is not closed. */
int list_pages(struct ctl *c, const struct page_listing *l);

#endif
