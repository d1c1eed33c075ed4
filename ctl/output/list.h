/* list: lists of JSON objects, as tables for people and as they are with --json. */
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

/* A column: its head, and the field of the object that it shows. `cell`: adds one cell by
 * itself, where more than one field or a colour makes it up; else NULL. */
struct column {
    const char *head; /* NULL: no more columns */
    const char *key;
    enum column_kind kind;
    void (*cell)(struct table *t, const json_t *row);
};

/* A table of these objects on standard output. */
void print_rows(struct ctl *c, const struct column *columns, const json_t *rows,
                int indent);
/* The list as --json has it, or a table; `none` is the sentence for an empty one. */
void print_list(struct ctl *c, const struct column *columns, const json_t *list,
                const char *none);

/* A list that a process sends page by page. */
struct page_listing {
    const char *process, *ask, *key; /* the rows are `key` of its reply */
    json_t *args;                    /* of the first page; are changed */
    const struct column *columns;
    const char *none;           /* "No such events." */
    const char *const *filters; /* options that may name what there is not */
};

/* Print it, up to --limit, and say what to exit with. A reply that fails in
 * the middle ends it there: the document is then not closed. */
int list_pages(struct ctl *c, const struct page_listing *l);

#endif
