/* ages: which rows of a log are older than some moment, though the clock that
 * wrote their times may have been wrong. Pure.
 *
 * Rows are seen in the order in which they were written. What was written before
 * an old row is old, whatever it says; and a row of a time that is still to come
 * says nothing, so that behind it, too, it is looked. */
#ifndef BASE_AGES_H
#define BASE_AGES_H

#include <stdbool.h>
#include <stdint.h>

struct ages {
    int64_t before_ms;
    int64_t seen_n; /* go on behind this one */
    int64_t old_n;  /* up to here all are old */
};

/* Anew when the moment is earlier than before: the clock was put back, or rows are
 * to be kept longer. */
void ages_begin(struct ages *a, int64_t before_ms);
/* The next row. false: it is young, and so are those behind it; see it again
 * another time. */
bool ages_see(struct ages *a, int64_t n, int64_t at_ms, int64_t now_ms);

#endif
