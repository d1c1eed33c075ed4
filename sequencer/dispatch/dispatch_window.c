/* dispatch_window: computes how many tasks one endpoint may have at its deliverer. */
#include "dispatch_window.h"
#include "clock.h"

enum {
    /* A result takes longer than an acknowledgement: it waits for others and for one more
     * commit. And only a window that is larger than needed shows whether the endpoint can
     * use more. */
    ROUND_TRIPS = 4,
    ROUND_TRIP_MAX_MS = 250, /* a longer one is a stall of a process */
    SMOOTHING = 8,
};

static int64_t min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

void window_look(struct dispatch_window *w, int64_t now_ms,
                 int64_t round_trip_ms, int max_in_flight)
{
    int64_t ahead;

    if (w->looked_ms && now_ms - w->looked_ms < WINDOW_LOOK_MS)
        return;
    if (w->looked_ms) {
        int64_t now = w->ended * SECOND_MS / (now_ms - w->looked_ms);

        if (now >= w->per_s)
            w->per_s = now;
        else
            w->per_s -= (w->per_s - now + SMOOTHING - 1) / SMOOTHING;
    }
    w->ended = 0;
    w->looked_ms = now_ms;
    ahead = ROUND_TRIPS * w->per_s * min(round_trip_ms, ROUND_TRIP_MAX_MS) /
            SECOND_MS;
    w->size = max_in_flight + max(WINDOW_MIN, min(ahead, WINDOW_MAX));
    if (w->bytes)
        w->size = min(w->size,
                      max(WINDOW_TASKS_MAX_BYTES / w->bytes, WINDOW_MIN_TASKS));
}

void window_measure_task(struct dispatch_window *w, uint64_t n, size_t bytes)
{
    if (n <= w->measured)
        return;
    w->measured = n;
    if (!w->bytes)
        w->bytes = (int64_t)bytes;
    else
        w->bytes += ((int64_t)bytes - w->bytes) / SMOOTHING;
}
