/* window: a ring of samples in one block of memory. */
#include "window.h"
#include "alloc.h"
#include <string.h>

/* A sample is its time, then its numbers. A time in milliseconds is exact in a double. */
struct window {
    int capacity, width, first, count;
    double cells[];
};

struct window *window_new(int capacity, int width)
{
    struct window *w = gr_alloc(sizeof *w + (size_t)(capacity * (1 + width)) *
                                                sizeof *w->cells);

    w->capacity = capacity;
    w->width = width;
    return w;
}

int window_width(const struct window *w)
{
    return w->width;
}

bool window_full(const struct window *w)
{
    return w->count == w->capacity;
}

void window_clear(struct window *w)
{
    w->count = 0;
}

/* `i`: 0 is the oldest. */
static const double *sample_at(const struct window *w, int i)
{
    return w->cells + (w->first + i) % w->capacity * (1 + w->width);
}

double *window_add(struct window *w, int64_t time_ms)
{
    double *cells;

    if (window_full(w)) {
        w->first = (w->first + 1) % w->capacity;
        w->count--;
    }
    cells = (double *)sample_at(w, w->count++);
    cells[0] = (double)time_ms;
    return cells + 1;
}

struct window_sample window_first(const struct window *w, int64_t from_ms)
{
    for (int i = 0; i < w->count; i++) {
        const double *cells = sample_at(w, i);

        if (cells[0] >= (double)from_ms)
            return (struct window_sample){(int64_t)cells[0], cells + 1};
    }
    return (struct window_sample){0};
}

struct window_sample window_last(const struct window *w, int64_t until_ms)
{
    for (int i = w->count - 1; i >= 0; i--) {
        const double *cells = sample_at(w, i);

        if (cells[0] <= (double)until_ms)
            return (struct window_sample){(int64_t)cells[0], cells + 1};
    }
    return (struct window_sample){0};
}
