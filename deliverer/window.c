#include "window.h"

void window_set(struct window *w, int most)
{
    if (w->size == w->most || w->size > most)
        w->size = most;
    w->most = most;
}

void window_grow(struct window *w)
{
    if (w->size < w->most)
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
