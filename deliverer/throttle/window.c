/* window: grows by one for a success, shrinks by one for a failure. */
#include "window.h"

void window_set(struct window *w, int max)
{
    if (w->size == w->max || w->size > max)
        w->size = max;
    w->max = max;
}

void window_grow(struct window *w)
{
    if (w->size < w->max)
        w->size++;
}

void window_shrink(struct window *w)
{
    if (w->size > 1)
        w->size--;
}

void window_restart(struct window *w)
{
    w->size = 1;
}
