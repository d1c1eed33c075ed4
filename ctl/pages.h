/* pages: a list that a process sends page by page. */
#ifndef CTL_PAGES_H
#define CTL_PAGES_H

#include "ctl.h"

struct listing {
    const char *process, *ask, *key; /* the rows are `key` of its answer */
    json_t *args;                    /* of the first page; are changed */
    void (*print)(struct ctl *c, const json_t *rows); /* a table */
    const char *none;                                 /* "No such events." */
    const char *const *filters; /* options that may name what there is not */
};

/* Print it, up to --limit, and say what to exit with. An answer that fails in
 * the middle ends it there: the document is then not closed. */
int list_pages(struct ctl *c, const struct listing *l);

#endif
