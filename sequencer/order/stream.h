/* stream: one stream and the cache of them. For streams.c and gaps.c only.
 *
 * A stream's row is read when one of its events arrives, changed here, and written once a
 * turn by stream_write(). */
#ifndef SEQUENCER_STREAM_H
#define SEQUENCER_STREAM_H

#include "sequencer.h"
#include "settings.h"
#include "store.h"
#include "store_order.h"
#include "streams.h"
#include <sys/queue.h>

struct stream {
    SLIST_ENTRY(stream) dirty_next;
    STAILQ_ENTRY(stream) ready_next;
    char *source, *workspace, *type;
    int kind;      /* enum order_by */
    int64_t epoch; /* of its source, when it began (orders in store.sql) */
    int64_t id, next, high, buffered;
    /* With times: the last that may go when all up to `judged` was judged. */
    int64_t upto, judged;
    bool dirty, ready;
};

struct streams {
    struct sequencer *q;
    struct lookup cache;
    SLIST_HEAD(, stream) dirty;  /* their rows are to be written */
    STAILQ_HEAD(, stream) ready; /* an event of theirs may be released now */
    struct epoch *epochs;
    size_t epoch_count;
    int64_t due; /* -1: look */
    int64_t buffered;
    int64_t scanned; /* stream up to which all that hold were looked at */
    bool scanning;
};

/* The stream of an event, begun with it when it is the first. */
struct stream *stream_of(struct streams *s, const struct source *source,
                         const struct event_row *ev, int64_t position);
/* NULL: there is none. */
struct stream *stream_by_id(struct streams *s, int64_t id);
/* The configuration now takes the numbers of this source from another place. */
bool stream_is_old(const struct streams *s, const struct stream *st);
/* Write its row at the end of the turn. */
void stream_changed(struct streams *s, struct stream *st);
/* Something in it may go now. NULL will do. */
void stream_ready(struct streams *s, struct stream *st);
struct stream *stream_take_ready(struct streams *s);
/* Write the rows that changed. */
void stream_write(struct streams *s);
/* Forget all of them: none is dirty, or the turn was rolled back. */
void stream_clear(struct streams *s);

/* Inside a turn: compare what the configuration's numbers are with what they
 * were. */
void stream_epochs(struct streams *s);
void stream_epochs_free(struct streams *s);

#endif
