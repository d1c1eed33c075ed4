/* ages: finds the rows of a log that are older than a given moment, although the clock that
 * wrote their times may have been wrong. Pure.
 *
 * Rows are given in the order in which they were written. A row that was written before an
 * old row is old, whatever its own time says. A row whose time is in the future proves
 * nothing, so the search continues after it. */
#ifndef BASE_AGES_H
#define BASE_AGES_H

#include <stdbool.h>
#include <stdint.h>

struct ages {
    int64_t before_ms;
    int64_t seen_n; /* the search continues after this row */
    int64_t old_n;  /* all rows up to this one are old */
};

/* Start again when the moment is earlier than before: the clock was set back, or rows are
 * to be kept longer. */
void ages_begin(struct ages *a, int64_t before_ms);
/* Looks at the next row. false: it is young, and so are the rows after it; look at it again
 * another time. */
bool ages_see(struct ages *a, int64_t n, int64_t at_ms, int64_t now_ms);

#endif
