/* dispatch_window: how many tasks one endpoint may have at its deliverer, whether their
 * attempts have begun or they still wait there. Pure; dispatch.c calls it.
 *
 * As in TCP, the window is rate times round trip. The rate is that at which the endpoint's
 * deliveries end. The round trip is that of the link to its deliverer, without the time
 * that tasks wait there, so a window that is too large does not justify itself. A window
 * that limits its endpoint grows: it permits a rate, that rate is measured, and the next
 * window is a multiple of what the rate needs. `max_in_flight`, the number of requests that
 * an endpoint may have open at once, is added to it.
 *
 * The upper bounds protect the deliverer's memory: it would write more tasks to its disk. */
#ifndef SEQUENCER_DISPATCH_WINDOW_H
#define SEQUENCER_DISPATCH_WINDOW_H

#include "rc.h"

enum {
    WINDOW_MIN = 256,  /* beside max_in_flight: a burst at a quiet endpoint */
    WINDOW_MAX = 3072, /* beside max_in_flight; a link has 4096 numbers */
    WINDOW_MIN_TASKS = 8, /* however large tasks are */
    /* Of one endpoint; the deliverer has 64 MiB for all. */
    WINDOW_TASKS_MAX_BYTES = 16 * 1024 * 1024,
    WINDOW_LOOK_MS = 100, /* between measurements of the rate */
};

struct dispatch_window {
    int64_t size;      /* tasks; 0: not yet set */
    int64_t looked_ms; /* awake: last look; 0: none yet */
    int64_t ended;     /* deliveries that ended since then */
    int64_t per_s;     /* the rate: rises at once, falls by an eighth a look */
    int64_t bytes;     /* a task, on average; 0: none was measured */
    uint64_t
        measured; /* the last task in `bytes`, by its number in the link's log */
};

/* The window as of `now_ms` (awake). `round_trip_ms` of the link; 0: not known. */
void window_look(struct dispatch_window *w, int64_t now_ms,
                 int64_t round_trip_ms, int max_in_flight);
/* The task of number `n` in the log of the link to its deliverer was encoded: it has this
 * size. Numbers ascend, so a task that is encoded again does not count. */
void window_measure_task(struct dispatch_window *w, uint64_t n, size_t bytes);

#endif
