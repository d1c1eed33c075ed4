/* window: the newest samples of one or more numbers over time, so that their growth since
 * then can be computed. Pure: times are milliseconds of any clock of the caller.
 *
 * A window is one block of memory: free() frees it. */
#ifndef METRICS_WINDOW_H
#define METRICS_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

struct window;

/* Keeps the newest `capacity` samples of `width` numbers each. */
struct window *window_new(int capacity, int width);
int window_width(const struct window *w);
bool window_full(const struct window *w);
void window_clear(struct window *w);
/* Adds a sample, in place of the oldest one if the window is full. Its time must not be
 * before that of the newest sample. Returns its `width` numbers, for the caller to set. */
double *window_add(struct window *w, int64_t time_ms);

struct window_sample {
    int64_t time_ms;
    const double *values; /* NULL: there is no such sample */
};

/* The oldest sample at or after `from_ms`. */
struct window_sample window_first(const struct window *w, int64_t from_ms);
/* The newest sample at or before `until_ms`. */
struct window_sample window_last(const struct window *w, int64_t until_ms);

#endif
