/* live_feed: asks the sequencer for new events, and the deliverers for new attempts, every half second
 * while somebody listens to GET /stream. For live.c only.
 *
 * Nothing is asked while nobody listens, and a process reads at most 250 rows for a reply, so a stream
 * costs a process about a millisecond in half a second, whatever its load. What does not fit into a
 * reply is skipped, and the streams are told. A process that does not reply delays no other. */
#ifndef CONSOLE_LIVE_FEED_H
#define CONSOLE_LIVE_FEED_H

#include "process_client.h"

struct live;
struct live_feed;

struct live_feed *live_feed_open(struct live *l, struct process_client *p,
                                 const char *run_dir);
void live_feed_close(struct live_feed *f);

/* Asks what is due for these kinds (enum live_kind; 0: forget where it was). Returns the ms until the
 * next time; -1: nothing is due. */
int live_feed_work(struct live_feed *f, unsigned kinds, int64_t mono_ms);
/* Whether this question is the feed's; then its reply was handled. */
bool live_feed_take(struct live_feed *f, struct process_question *q);

#endif
