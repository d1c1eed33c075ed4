/* otlp_feed: asks the sequencer for new events and for facts about events, and the deliverers for new
 * attempts, as long as spans are exported. For otlp.c only.
 *
 * A process reads at most 250 rows for a reply, and is asked every half second, or every 50 ms while
 * replies are full: a few percent of its time at most. What does not fit is skipped, and counted. A
 * process that does not reply delays no other. */
#ifndef CONSOLE_OTLP_FEED_H
#define CONSOLE_OTLP_FEED_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct otlp_feed;

/* An event or attempt, with the facts about its event. */
typedef void otlp_feed_fn(void *self, const json_t *item, bool is_event,
                          const json_t *facts);

struct otlp_feed *otlp_feed_open(const char *run_dir, otlp_feed_fn *take,
                                 void *self);
void otlp_feed_close(struct otlp_feed *f);
int otlp_feed_fd(const struct otlp_feed *f);

/* Asks what is due, and takes replies; off: forgets where it was. Returns the ms until the next call;
 * -1: until the descriptor is ready. `*skipped` grows by the events and attempts that were missed. */
int otlp_feed_work(struct otlp_feed *f, bool on, int64_t mono_ms,
                   int64_t *skipped);

#endif
