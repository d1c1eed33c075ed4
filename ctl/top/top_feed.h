/* top_feed: where `grapnel top` has its numbers from: frames over one SUB socket,
 * and questions to control sockets. It never waits for anybody: a process that
 * stands still leaves its reply out, and the rest is shown. */
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
/* Take what has come, ask what is due. true: something is new. */
bool feed_run(struct feed *f);
/* What is known now. Borrows from the feed until the next feed_run(). */
void feed_input(struct feed *f, struct top_input *out);
/* Sockets to wait for; returns how many. */
int feed_sockets(struct feed *f, zsock_t *sockets[FEED_POLL_MAX]);
/* Everybody who runs was heard, so often that rates are known, and every reply
 * has come or will not. */
bool feed_complete(const struct feed *f);
/* "console" or "each process": who is listened to. */
const char *feed_from(const struct feed *f);

#endif
