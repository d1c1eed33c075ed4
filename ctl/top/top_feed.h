/* top_feed: the input of `grapnel top`: metrics over one SUB socket, and replies from control
 * sockets. It never waits: the reply of a process that hangs is missing, and everything else is
 * shown. For top.c. */
#ifndef CTL_TOP_FEED_H
#define CTL_TOP_FEED_H

#include "ask.h"
#include "ipc.h"
#include "top_data.h"

enum {
    FEED_ASKS = 3,
    FEED_POLL_MAX = FEED_ASKS + 1,
};

struct feed;

struct feed *feed_open(struct ctl *c);
void feed_close(struct feed *f);
/* Reads frames and replies, and sends the requests that are due. true: something is new. */
bool feed_run(struct feed *f);
/* The present input; borrows from the feed until the next feed_run(). */
void feed_input(struct feed *f, struct top_input *out);
/* The sockets to poll; returns their number. */
int feed_sockets(struct feed *f, zsock_t *sockets[FEED_POLL_MAX]);
/* Every request has its reply or has failed, and every process that runs was heard often enough
 * for rates, or was silent for too long. */
bool feed_complete(const struct feed *f);
/* "by the console" or "by each process": the source of the metrics. */
const char *feed_from(const struct feed *f);

#endif
