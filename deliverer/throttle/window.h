/* window: how many attempts one endpoint may have in flight, as it fares. Pure.
 *
 * Postfix's queue manager is the model (per-destination concurrency): one more
 * for each success, one less for each failure, never more than the user said.
 * Unlike Postfix it begins at the most: the user named that number, and until
 * something fails there is no reason to doubt it. With `breaker: false` it stays
 * there. */
#ifndef DELIVERER_WINDOW_H
#define DELIVERER_WINDOW_H

struct window {
    int size; /* at least 1 */
    int max;
};

/* The most is this from now on; a size that was at the old most follows. */
void window_set(struct window *w, int max);
void window_grow(struct window *w);
void window_shrink(struct window *w);
/* One at a time again: what was down may be weak when it comes back. */
void window_restart(struct window *w);

#endif
