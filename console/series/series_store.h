/* series_store: takes a sample of the metrics for charts every 10 seconds, and replies to
 * GET /series. The kinds of series are those of series_kinds.h; series_file.h stores them.
 *
 * A counter is stored as a rate: its growth per second between the frames of each process, so that a
 * restart of a process is not a drop. A gauge is the sum over the processes. A quantile is that of the
 * values within the 10 seconds. A value of a longer step is the mean of its samples, and of quantiles
 * the largest. Values without any data are unknown, not 0.
 *
 * For the console, from the loop's thread. After a restart rates begin with the second sample. */
#ifndef CONSOLE_SERIES_STORE_H
#define CONSOLE_SERIES_STORE_H

#include "collector.h"
#include <jansson.h>

struct series_store;

struct series_store *series_store_open(const char *path, int64_t now_ms);
void series_store_close(struct series_store *s);

/* Takes a sample when one is due. Returns the ms until the next. */
int series_store_work(struct series_store *s, struct collector *g,
                      int64_t now_ms, int64_t mono_ms);

/* The command `series`. */
json_t *series_store_ask(struct series_store *s, json_t *args, int64_t now_ms,
                         char why[200]);

#endif
