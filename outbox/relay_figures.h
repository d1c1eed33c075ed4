/* relay_figures: what `grapnel outbox status` and the metrics say about a relay. In memory only; the
 * loop calls all of it, the relay's thread nothing. */
#ifndef OUTBOX_RELAY_FIGURES_H
#define OUTBOX_RELAY_FIGURES_H

#include "driver.h"
#include "metrics.h"
#include <jansson.h>

struct window;

struct relay_figures {
    /* Whether the last exchange with the database succeeded; since when that is so, or is not so (wall;
     * 0: it was not tried); and the last error, "" if there was none. */
    bool connected;
    int64_t since_ms;
    char error[DRIVER_WHY_BYTES];
    /* What the database said when it was asked last. */
    struct driver_look look;
    /* Since the start. */
    double taken, written, lag[METRIC_BOUNDS_MAX + 1];
    /* The same at times of the last minute. */
    struct window *past;
    int64_t sampled_ms; /* mono */
};

void figures_init(struct relay_figures *f);
void figures_fini(struct relay_figures *f);
/* Each turn, before anything is counted. */
void figures_sample(struct relay_figures *f, int64_t mono_now_ms);
/* The state of the connection after an exchange; `why` "": it succeeded. */
void figures_connected(struct relay_figures *f, int64_t now_ms,
                       const char *why);
/* A row was taken that had waited for so long; -1: unknown. */
void figures_taken(struct relay_figures *f, int64_t age_ms);
/* As the command `relays` is declared, but for what is added: the caller's. */
json_t *figures_json(const struct relay_figures *f, int64_t mono_now_ms);

#endif
