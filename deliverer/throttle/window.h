/* window: how many attempts one endpoint may have in flight, by its successes and
 * failures. Pure; throttle.h calls it.
 *
 * Postfix's queue manager is the model (per-destination concurrency): one more for each
 * success, one less for each failure, at most the endpoint's max_in_flight. Unlike Postfix
 * it begins at that limit: the user chose it, and until an attempt fails there is no
 * reason to doubt it. With `breaker: false` it stays there. */
#ifndef DELIVERER_WINDOW_H
#define DELIVERER_WINDOW_H

struct window {
    int size; /* at least 1 */
    int max;
};

/* Set the limit; a size that was at the old limit moves with it. */
void window_set(struct window *w, int max);
void window_grow(struct window *w);
void window_shrink(struct window *w);
/* One attempt at a time: an endpoint that recovers may still be weak. */
void window_restart(struct window *w);

#endif
